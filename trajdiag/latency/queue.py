"""What still waits to be run: units in extraction's batches, begun ahead of their turn."""

from collections.abc import Iterator

import numpy as np

from trajdiag.extraction.batching import PADDING, TokenBudget, batches
from trajdiag.latency.pool import Pool, Run, begin_pool, gathered_pool


class Queue:
    """The batches of a run's work, longest rows first, just as extraction makes them.

    A batch of which only some units are needed is begun whole and waits at loop 0, since beginning
    costs more a batch than a row.
    """

    def __init__(self, run: Run, batch_tokens: int, block_examples: int) -> None:
        self._run, self._budget, self._block = run, batch_tokens, block_examples
        self._pads = "right" in run.model.padding
        self._batches = self._in_batches()
        self._next = next(self._batches, None)
        self._begun: Pool | None = None
        self._taken = 0
        """Units of the begun batch that have been run."""

    def first(self) -> Pool | None:
        """The next batch as a pool of its own; None at the end."""
        if self._begun is None and not self._begin():
            return None
        begun, units = self._front(len(self._waiting))
        return begun if len(units) == len(begun.units) else gathered_pool([(begun, units)])

    def fitting(self, positions: int, rows: int) -> list[tuple[Pool, np.ndarray]]:
        """The units next in turn that fit beside so many rows of so many positions, with the pools
        that they stand in."""
        found = []
        while rows < self._budget // positions:
            if self._begun is None:
                if self._next is None or not self._fits(self._next, positions):
                    break
                self._begin(positions)
            assert self._begun is not None
            if self._begun.positions != positions:
                break
            starts, units = self._run.work.unit_rows, self._waiting
            ends = np.cumsum(starts[units + 1] - starts[units])
            count = int(np.searchsorted(ends, self._budget // positions - rows, "right"))
            if count == 0:
                break
            found.append(self._front(count))
            rows += int(ends[count - 1])
        return found

    def _begin(self, positions: int | None = None) -> bool:
        """Begin the next batch, of so many positions; False where there is none."""
        if self._next is None:
            return False
        self._begun, self._taken = begin_pool(self._run, self._next, positions), 0
        self._next = next(self._batches, None)
        return True

    @property
    def _waiting(self) -> np.ndarray:
        """The units of the begun batch that have not been run."""
        assert self._begun is not None
        return self._begun.units[self._taken :]

    def _front(self, count: int) -> tuple[Pool, np.ndarray]:
        """So many of them, from the first on, and their pool; the others go on waiting."""
        assert self._begun is not None
        begun, units = self._begun, self._waiting
        self._taken += count
        if count == len(units):
            self._begun = None
        return begun, units[:count]

    def _in_batches(self) -> Iterator[np.ndarray]:
        """Ascending units of each batch, block by block of examples."""
        work, budget = self._run.work, TokenBudget(self._budget)
        first_example, rows = work.unit_examples[:-1], np.diff(work.unit_rows)
        for start in range(0, len(work), self._block):
            first, last = np.searchsorted(first_example, [start, start + self._block])
            length = work.unit_length[first:last]
            for places in batches(length, rows[first:last], budget, pads=self._pads):
                yield first + places

    def _fits(self, units: np.ndarray, positions: int) -> bool:
        """Whether rows of these units may stand beside rows of so many positions, padded."""
        length = self._run.work.unit_length[units]
        shortest = (1 - PADDING) * positions if self._pads else positions
        return length.max() <= positions and length.min() >= shortest
