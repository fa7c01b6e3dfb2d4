"""The rows that are in the model together, each at a loop of its own, and what is kept of them."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trajdiag.extraction.batching import batch_of
from trajdiag.extraction.config import Pool as StatePool
from trajdiag.extraction.forward import begun
from trajdiag.extraction.places import Places, places_of
from trajdiag.extraction.work import Work
from trajdiag.foreign import running
from trajdiag.latency.meter import LOGITS, STATES
from trajdiag.latency.rule import LiveRule
from trajdiag.models.base import Compacts, LoopedModel, State


@dataclass(frozen=True, kw_only=True)
class Run:
    """What all pools of one run share."""

    model: LoopedModel
    compacts: Compacts | None
    """The same model, where its batches can lose rows and be joined."""
    work: Work
    rule: LiveRule
    state_pool: StatePool
    """Whether the state is that of the last token before the decision, or the mean up to it."""


@dataclass(kw_only=True)
class Pool:
    """Whole units: all rows of a question, or a document, until their last example has left."""

    run: Run
    state: State
    rows: np.ndarray
    """int64 [row]: their numbers in the work."""
    positions: int
    numbers: np.ndarray
    """int64 [example]: the examples read in them."""
    at: np.ndarray
    """int64 [example]: the loops behind each."""
    done: np.ndarray
    """bool [example]: whether it has left."""
    places: Places
    table: Tensor
    """float64 [example, loop, width]: what the meter has kept."""
    window: dict[str, list[Tensor]]
    """The last loops' readings, [example, ...], by name; empty before the first."""

    def step(self) -> None:
        """One loop more."""
        self.state = self.run.model.step(self.state)
        self.at += 1

    def read(self, names: frozenset[str]) -> dict[str, Tensor]:
        """These readings of the loop that was just run, [example, ...]."""
        return read(self.run, self.state, self.places, names)

    def remember(self, readings: Mapping[str, Tensor]) -> None:
        """Put the loop's readings in the window, and what the meter makes of it in the table."""
        meter = self.run.rule.meter
        for name, latest in readings.items():
            before = self.window.get(name) or [torch.zeros_like(latest)] * meter.window
            self.window[name] = [*before[1:], latest]
        loop = self.loop
        kept = meter.keep(self.window, self.table, loop)
        self.table[torch.arange(len(loop), device=loop.device), loop - 1] = kept

    @property
    def loop(self) -> Tensor:
        """int64 [example], on the model's device: the loop at which each stands. Those that have
        left may have been through more loops than there are."""
        return torch.from_numpy(np.minimum(self.at, self.run.rule.loops)).to(self.run.model.device)

    @property
    def units(self) -> np.ndarray:
        """int64: those with an example that has not left, ascending."""
        return np.unique(_unit_of(self.run.work.unit_examples, self.numbers[~self.done]))

    def take(self, units: np.ndarray) -> "Pool":
        """These units alone, of their examples those that have not left."""
        work, device = self.run.work, self.run.model.device
        row = np.flatnonzero(np.isin(_unit_of(work.unit_rows, self.rows), units))
        of_units = np.isin(_unit_of(work.unit_examples, self.numbers), units)
        example = np.flatnonzero(of_units & ~self.done)
        picked = torch.from_numpy(example).to(device)
        assert self.run.compacts is not None
        with _running("take", self.run):
            state = self.run.compacts.take(self.state, torch.from_numpy(row).to(device))
        rows, numbers = self.rows[row], self.numbers[example]
        return Pool(
            run=self.run,
            state=state,
            rows=rows,
            positions=self.positions,
            numbers=numbers,
            at=self.at[example],
            done=self.done[example],
            places=places_of(work, numbers, rows, device),
            table=self.table[picked],
            window={name: [x[picked] for x in loops] for name, loops in self.window.items()},
        )


def begin_pool(run: Run, units: np.ndarray, positions: int | None = None) -> Pool:
    """Units that have not been through a loop, padded to so many positions."""
    work, device = run.work, run.model.device
    batch = batch_of(work, units, positions)
    numbers = work.examples(units)
    shape = len(numbers), run.rule.loops, run.rule.meter.width
    return Pool(
        run=run,
        state=begun(run.model, batch),
        rows=batch.rows,
        positions=batch.input_ids.shape[1],
        numbers=numbers,
        at=np.zeros(len(numbers), np.int64),
        done=np.zeros(len(numbers), bool),
        places=places_of(work, numbers, batch.rows, device),
        table=torch.zeros(shape, dtype=torch.float64, device=device),
        window={},
    )


def join_pools(pools: Sequence[Pool]) -> Pool:
    """One pool of all their units; they have as many positions."""
    first = pools[0]
    run = first.run
    assert run.compacts is not None
    with _running("join", run):
        state = run.compacts.join([pool.state for pool in pools])
    rows, numbers, at, done = (
        np.concatenate([getattr(pool, name) for pool in pools])
        for name in ("rows", "numbers", "at", "done")
    )
    window = {
        name: [torch.cat(loops) for loops in zip(*_filled(pools, name), strict=True)]
        for name in first.window
    }
    return Pool(
        run=run,
        state=state,
        rows=rows,
        positions=first.positions,
        numbers=numbers,
        at=at,
        done=done,
        places=places_of(run.work, numbers, rows, run.model.device),
        table=torch.cat([pool.table for pool in pools]),
        window=window,
    )


def read(run: Run, state: State, places: Places, names: frozenset[str]) -> dict[str, Tensor]:
    """The readings `names` of a state, [example, ...]."""
    found = {}
    if LOGITS in names:
        found[LOGITS] = places.task_logits(run.model, state)
    if STATES in names:
        found[STATES] = places.states(run.model, state, run.state_pool)
    if gates := names - {LOGITS, STATES}:
        logits = places.gate_logits(run.model, state)
        found |= {name: logits[name] for name in gates}
    return found


def _running(method: str, run: Run) -> AbstractContextManager[None]:
    """Around a method of Compacts, as Checked does with those of LoopedModel."""
    what = f"{method}() of model {run.model.record.name}"
    return running(what, passing=(torch.OutOfMemoryError,))


def _filled(pools: Sequence[Pool], name: str) -> list[list[Tensor]]:
    """Each pool's window of a reading, zeros where it has none yet."""
    like = pools[0].window[name]
    return [
        pool.window.get(name) or [x.new_zeros(len(pool.numbers), *x.shape[1:]) for x in like]
        for pool in pools
    ]


def _unit_of(start: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The unit that each row or example is in; unit u begins at start[u]."""
    return np.searchsorted(start, numbers, side="right") - 1
