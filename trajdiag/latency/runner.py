"""Running a stopping rule live: loop by loop, each example until it leaves."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trajdiag.errors import ConfigError
from trajdiag.extraction.batching import TokenBudget
from trajdiag.extraction.config import Pool as StatePool
from trajdiag.extraction.places import places_of
from trajdiag.extraction.work import Continuations, Work
from trajdiag.latency.meter import LOGITS
from trajdiag.latency.pool import Pool, Run, gathered_pool, read
from trajdiag.latency.queue import Queue
from trajdiag.latency.rule import LiveRule, refuse_continuations
from trajdiag.latency.rule_memory import finite
from trajdiag.models.base import Compacts, LoopedModel
from trajdiag.models.checked import Checked
from trajdiag.store.block import not_finite
from trajdiag.store.device_copies import at_home

DEAD = 1 / 32
"""The share of rows from which on dropping them pays. An exchange of rows was measured, on the CPU,
at a thousandth of a loop (4 layers of width 512) to a twentieth (one layer of width 64)."""


@dataclass(frozen=True, kw_only=True)
class LiveRun:
    """What a live run gave, and what it computed."""

    exit_depth: NDArray[np.int16]
    """[example]: the loop at which it left."""
    prediction: NDArray[np.int64]
    """[example]: the class that is largest there, the first of equals."""
    logits: NDArray[np.float32] | None
    """[example, class]: the task's logits there, where they were asked for."""
    row_loops: int
    """Rows times loops that went through the block."""
    compactions: int
    """How often rows were dropped from a batch that went on."""
    refills: int
    """How often rows from the queue joined one."""
    batch_tokens: int
    """What a batch might hold: less than was asked for where the device ran out of memory."""


def run_live(
    model: LoopedModel,
    work: Work,
    rule: LiveRule,
    *,
    batch_tokens: int,
    compact: bool = True,
    refill: bool = True,
    block_examples: int | None = None,
    keep_logits: bool = False,
    state_pool: StatePool = "last",
) -> LiveRun:
    """Run every example of `work` until `rule`, made for this model, lets it leave.

    A batch holds at most `batch_tokens` tokens, but for a unit that alone exceeds them; where the
    device runs out of memory everything is run again with half as many. With `compact` finished
    rows are dropped from a batch, with `refill` too others take their place; a model that does not
    implement Compacts is run without either, each batch until its slowest row is done. With
    neither, batches are those of an extraction whose store has blocks of `block_examples` (None: of
    one), but for a document whose tokens lie in two blocks, which is run once. `state_pool` is
    extraction's `pool`.

    Raises ConfigError where the rule reads what the work lacks, where a model of one's own answers
    wrongly, and where the device has not the memory for one unit; NonFiniteError naming the example
    and the loop where a number that is read is NaN or infinite.
    """
    if not isinstance(work.decision, Continuations):
        refuse_continuations(rule)
    run = Run(
        model=Checked(model),
        compacts=model if compact and isinstance(model, Compacts) else None,
        work=work,
        rule=rule,
        state_pool=state_pool,
    )
    budget = TokenBudget(batch_tokens)
    while True:
        found = _Found(run, keep_logits, budget.tokens)
        try:
            _run_through(Queue(run, budget.tokens, block_examples or len(work)), found, refill)
            return found.result()
        except torch.OutOfMemoryError as error:
            if budget.tokens == 1:
                raise ConfigError(
                    f"{model.device} has not the memory for the longest of {len(work):,} examples "
                    "alone; use a larger device, or extract with --dtype bfloat16"
                ) from error
        # outside the handler, where what the loops held is let go
        budget.halve(int(work.row_length.sum()))
        if model.device.type == "cuda":
            torch.cuda.empty_cache()


@torch.inference_mode()
def _run_through(queue: Queue, found: "_Found", refill: bool) -> None:
    while (pool := queue.first()) is not None:
        while not pool.done.all():
            _step(pool, found)
            pool = _turned_over(pool, queue, found, refill=refill)


class _Found:
    """What is known of each example so far."""

    def __init__(self, run: Run, keep_logits: bool, batch_tokens: int) -> None:
        self.run, self.keep_logits, self.batch_tokens = run, keep_logits, batch_tokens
        self.depth = np.zeros(len(run.work), np.int16)
        device = run.model.device
        self.prediction = torch.full((len(run.work),), -1, device=device)
        self.finite = torch.ones(len(run.work), dtype=torch.bool, device=device)
        self.logits: list[tuple[np.ndarray, Tensor]] = []
        self.row_loops, self.compactions, self.refills = 0, 0, 0

    def leave(self, numbers: np.ndarray, at: np.ndarray, logits: Tensor) -> None:
        """The examples `numbers` leave at the loops `at` with the task's `logits`."""
        self.depth[numbers] = at
        where = torch.from_numpy(numbers).to(logits.device)
        self.prediction[where] = logits.argmax(1)
        self.finite[where] = finite(logits)
        if self.keep_logits:
            self.logits.append((numbers, logits))

    def result(self) -> LiveRun:
        if not bool(self.finite.all()):
            number = int((~self.finite).nonzero()[0, 0])
            raise not_finite(LOGITS, _name(self.run, number), int(self.depth[number]))
        logits = None
        if self.keep_logits:
            logits = np.empty((len(self.depth), self.logits[0][1].shape[1]), np.float32)
            for numbers, values in self.logits:
                logits[numbers] = at_home(values).numpy()
        return LiveRun(
            exit_depth=self.depth,
            prediction=at_home(self.prediction).numpy(),
            logits=logits,
            row_loops=self.row_loops,
            compactions=self.compactions,
            refills=self.refills,
            batch_tokens=self.batch_tokens,
        )


def _step(pool: Pool, found: _Found) -> None:
    """One loop, and the exits at its end."""
    rule = pool.run.rule
    pool.step()
    found.row_loops += len(pool.rows)
    leaves = pool.at >= rule.loops
    readings: dict[str, Tensor] = {}
    if (pool.memory.reads(pool.at) & ~pool.done).any():
        readings = pool.read(rule.meter.reads)
        seen = pool.memory.see(readings, pool.loop)
        for name, sound in seen.sound.items():
            bad = ~sound & ~pool.done
            if bad.any():
                example = int(bad.argmax())
                whose = _name(pool.run, int(pool.numbers[example]))
                raise not_finite(name, whose, int(pool.at[example]))
        leaves |= seen.leaves
    leaving = np.flatnonzero(leaves & ~pool.done)
    if not len(leaving):
        return
    numbers = pool.numbers[leaving]
    if LOGITS in readings:
        logits = readings[LOGITS][torch.from_numpy(leaving).to(pool.run.model.device)]
    else:
        places = places_of(pool.run.work, numbers, pool.rows, pool.run.model.device)
        logits = read(pool.run, pool.state, places, frozenset([LOGITS]))[LOGITS]
    found.leave(numbers, pool.at[leaving], logits)
    pool.done[leaving] = True


def _turned_over(pool: Pool, queue: Queue, found: _Found, *, refill: bool) -> Pool:
    """The pool without its finished rows, and with others in their place, where that pays."""
    if pool.run.compacts is None or not pool.done.any():
        return pool
    units = pool.units
    rows = pool.run.work.rows_in(units)
    dead = len(pool.rows) - rows
    if dead < DEAD * len(pool.rows) or not dead:
        return pool
    if not len(units):
        return pool
    others = queue.fitting(pool.positions, rows) if refill else []
    found.compactions += 1
    found.refills += bool(others)
    return gathered_pool([(pool, units), *others])


def _name(run: Run, number: int) -> str:
    return f"example {run.work.columns.id[number]}"
