"""The rows that are in the model together, each at a loop of its own, and what is kept of them."""

from collections.abc import Sequence
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
from trajdiag.latency.rule_memory import RuleMemory, gathered_memory
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
    memory: RuleMemory

    def step(self) -> None:
        """One loop more."""
        self.state = self.run.model.step(self.state)
        self.at += 1

    def read(self, names: frozenset[str]) -> dict[str, Tensor]:
        """These readings of the loop that was just run, [example, ...]."""
        return read(self.run, self.state, self.places, names)

    @property
    def loop(self) -> Tensor:
        """int64 [example], on the model's device: the loop at which each stands. Those that have
        left may have been through more loops than there are."""
        return torch.from_numpy(np.minimum(self.at, self.run.rule.loops)).to(self.run.model.device)

    @property
    def units(self) -> np.ndarray:
        """int64: those with an example that has not left, ascending."""
        return np.unique(_unit_of(self.run.work.unit_examples, self.numbers[~self.done]))


def begin_pool(run: Run, units: np.ndarray, positions: int | None = None) -> Pool:
    """Units that have not been through a loop, padded to so many positions."""
    work, device = run.work, run.model.device
    batch = batch_of(work, units, positions)
    numbers = work.examples(units)
    return Pool(
        run=run,
        state=begun(run.model, batch),
        rows=batch.rows,
        positions=batch.input_ids.shape[1],
        numbers=numbers,
        at=np.zeros(len(numbers), np.int64),
        done=np.zeros(len(numbers), bool),
        places=places_of(work, numbers, batch.rows, device),
        memory=RuleMemory.of(run.rule, len(numbers), device),
    )


def gathered_pool(parts: Sequence[tuple[Pool, np.ndarray]]) -> Pool:
    """One pool of the wanted units of every part, of their examples those that have not left; all
    parts have as many positions."""
    first = parts[0][0]
    run, device = first.run, first.run.model.device
    picked = [_places_in(pool, units) for pool, units in parts]

    def gathered(name: str, at: int) -> np.ndarray:
        return np.concatenate(
            [getattr(pool, name)[p[at]] for (pool, _), p in zip(parts, picked, strict=True)]
        )

    rows, numbers = gathered("rows", 0), gathered("numbers", 1)
    on_device = [[torch.from_numpy(x).to(device) for x in places] for places in picked]
    assert run.compacts is not None
    what = f"gather() of model {run.model.record.name}"
    with running(what, passing=(torch.OutOfMemoryError,)):
        state = run.compacts.gather(
            [(pool.state, row) for (pool, _), (row, _) in zip(parts, on_device, strict=True)]
        )
    return Pool(
        run=run,
        state=state,
        rows=rows,
        positions=first.positions,
        numbers=numbers,
        at=gathered("at", 1),
        done=np.zeros(len(numbers), bool),
        places=places_of(run.work, numbers, rows, device),
        memory=gathered_memory(
            [(pool.memory, e) for (pool, _), (_, e) in zip(parts, on_device, strict=True)]
        ),
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


def _places_in(pool: Pool, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the rows of these units stand in the pool, and their examples that have not left."""
    work = pool.run.work
    row = np.isin(_unit_of(work.unit_rows, pool.rows), units)
    example = np.isin(_unit_of(work.unit_examples, pool.numbers), units) & ~pool.done
    return np.flatnonzero(row), np.flatnonzero(example)


def _unit_of(start: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The unit that each row or example is in; unit u begins at start[u]."""
    return np.searchsorted(start, numbers, side="right") - 1
