"""The frontier of a stopping signal from summaries of parts of its examples, which add up.

As a threshold eases, an example's exit moves at the running records of its values and nowhere else.
On a fixed grid of thresholds each record falls into one cell, with the loops that leaving there
saves and the right answer that it wins or loses. Histograms of the three over cells are whole
numbers: those of parts add up to those of all, in whatever order, and their running sums are the
mean depth and the accuracy at every threshold of the grid, exactly.

What is missing is the thresholds between two neighbours of the grid. Of a point there, with the
deeper neighbour's depth d and accuracy a, the cell between them tells that the depth lies within
[d - saved, d] and the accuracy within [a - lost, a + won]. The largest such movement is the error:

    every point of the exact frontier has a point of this one that is deeper by at most `depth`
    loops and less accurate by at most `accuracy`

so that the budget curves H, exact, and G, of the grid, have G <= H and H(x) <= G(x + depth) +
accuracy at every budget x; over all budgets H's area is at most accuracy + depth (G(T) - G(1)) /
(T - 1) larger. Values that equal a threshold of the grid are in a cell of their own, since there is
nothing between them: ties and saturated values cost nothing, and a grid of all records is exact.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.frontier import Frontier, best_so_far, of_sums, records

BINS = 65_536
"""Thresholds of a grid, at most."""


def threshold_grid(
    values: NDArray[np.floating], direction: str, first_loop: int = 1, bins: int = BINS
) -> NDArray[np.float64]:
    """A grid of at most `bins` thresholds, the hardest to cross first: all records of these
    `values` [example, loop] where they are that few, else that many of their order statistics,
    equals once. `direction` and `first_loop` as in `frontier`."""
    best = best_so_far(values, direction, first_loop)
    record, _ = records(best, np.zeros((len(best) + 1, best.shape[1]), np.int8))
    harder_first = np.sort(-best[record].astype(np.float64))
    found = np.unique(harder_first)
    if len(found) > bins:
        at = np.linspace(0, len(harder_first) - 1, bins).round().astype(np.int64)
        found = np.unique(harder_first[at])
    return _unsigned(found, direction)


@dataclass(frozen=True, kw_only=True)
class FrontierError:
    """How far the exact frontier may be from the one of a grid; 0 where that is exact."""

    depth: float
    """Loops."""
    accuracy: float
    area: float
    """Of the mean accuracy over budgets in [1, T]."""


@dataclass(frozen=True, kw_only=True)
class FrontierSummary:
    """Histograms of a signal's records; `a + b` is the summary of both parts' examples.

    Cell 2 j + 1 holds what equals threshold j, cell 2 j what lies between it and the one before;
    the last cell is beyond the grid.
    """

    direction: str
    grid: NDArray[np.float64]
    """[threshold], the hardest to cross first."""
    loops: int
    examples: int
    right_at_first: int
    """Examples that are right at loop 1."""
    right_at_last: int
    """Examples that are right at loop T."""
    easiest: float
    """The record that is the easiest to cross; the hardest there can be where there is none."""
    saved: NDArray[np.int64]
    """[cell]: loops saved by leaving at its records, each against the example's next record."""
    won: NDArray[np.int64]
    """[cell]: records at which leaving is right, and at the next one wrong."""
    lost: NDArray[np.int64]
    """[cell]: records at which leaving is wrong, and at the next one right."""

    def __add__(self, other: "FrontierSummary") -> "FrontierSummary":
        """Raises ValueError for a summary of another grid, direction or number of loops."""
        same = (self.direction, self.loops) == (other.direction, other.loops)
        if not same or not np.array_equal(self.grid, other.grid):
            raise ValueError("summaries add up where grid, direction and loops are the same")
        return FrontierSummary(
            direction=self.direction,
            grid=self.grid,
            loops=self.loops,
            examples=self.examples + other.examples,
            right_at_first=self.right_at_first + other.right_at_first,
            right_at_last=self.right_at_last + other.right_at_last,
            easiest=(min if self.direction == "high" else max)(self.easiest, other.easiest),
            saved=self.saved + other.saved,
            won=self.won + other.won,
            lost=self.lost + other.lost,
        )

    def frontier(self) -> Frontier:
        """The operating points at the thresholds of the grid and at the easiest record, each
        exact, those left out that move nothing."""
        saved = _at_thresholds(self.saved)
        moved = np.diff(saved, prepend=0) > 0
        return of_sums(
            np.append(self.grid, self.easiest)[moved],
            saved[moved],
            _at_thresholds(self.won - self.lost)[moved],
            self.right_at_last,
            self.examples,
            self.loops,
        )

    def error(self) -> FrontierError:
        """How much may lie between the thresholds of the grid."""
        depth = float(self.saved[::2].max()) / self.examples
        accuracy = float(np.maximum(self.won, self.lost)[::2].max()) / self.examples
        first = self.right_at_first / self.examples
        rise = max(0.0, float(self.frontier().accuracy.max()) - first)
        return FrontierError(
            depth=depth, accuracy=accuracy, area=accuracy + depth * rise / max(self.loops - 1, 1)
        )


def summarise(
    values: NDArray[np.floating],
    correct: NDArray[np.bool_],
    grid: NDArray[np.float64],
    direction: str,
    first_loop: int = 1,
) -> FrontierSummary:
    """The summary of these examples on a grid that `threshold_grid` made; `values`, `correct`
    [example, loop], `direction` and `first_loop` as in `frontier`."""
    examples, loops = correct.shape
    best = best_so_far(values, direction, first_loop)
    right = np.ascontiguousarray(correct.T).view(np.int8)[min(first_loop, loops) - 1 :]
    record, step = records(best, right)
    step = step[record]
    harder_first = -best[record].astype(np.float64)
    cell = _cells(harder_first, -grid if direction == "high" else grid)
    cells = 2 * len(grid) + 1
    change = (step & 3).astype(np.int8) - 1
    saved = np.bincount(cell, weights=step >> 2, minlength=cells)
    return FrontierSummary(
        direction=direction,
        grid=grid,
        loops=loops,
        examples=examples,
        right_at_first=int(correct[:, 0].sum()),
        right_at_last=int(correct[:, -1].sum()),
        easiest=float(_unsigned(harder_first.max(initial=-np.inf), direction)),
        saved=np.rint(saved).astype(np.int64),
        won=np.bincount(cell[change > 0], minlength=cells),
        lost=np.bincount(cell[change < 0], minlength=cells),
    )


def _cells(harder_first: NDArray[np.float64], ascending: NDArray[np.float64]) -> NDArray[np.int64]:
    """The cell of each value, [value]; values and thresholds signed so that the hardest to cross is
    the least."""
    if not len(ascending):
        return np.zeros(len(harder_first), np.int64)
    place = np.searchsorted(ascending, harder_first, side="left")
    equal = ascending[np.minimum(place, len(ascending) - 1)] == harder_first
    return 2 * place + equal


def _at_thresholds(histogram: NDArray[np.int64]) -> NDArray[np.int64]:
    """A histogram over cells, summed up to each threshold, the easiest record the last."""
    total = np.cumsum(histogram)
    return np.append(total[1::2], total[-1])


def _unsigned(harder_first: NDArray[np.float64], direction: str) -> NDArray[np.float64]:
    """Thresholds in the signal's unit, without negative zeros."""
    return (-harder_first if direction == "high" else harder_first) + 0.0
