"""Depth and accuracy at many thresholds of one readout, summed over groups of examples.

Thresholds are nested: as one eases from k to k + 1, an example's exit moves to an earlier loop or
stays. A loop's best value so far crosses the thresholds from some number k_t on, so that, with c_t
whether loop t is right,

    loops saved at k    = sum over t < T of [k >= k_t]
    right at k - c_T    = sum over t < T of [k >= k_t] (c_t - c_{t+1})

A histogram of k_t and a running sum give all thresholds at once: N T binary searches, where exits
at each of K thresholds would take N T K comparisons.
"""

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.frontier import best_so_far
from trajdiag.metrics.oracle import first_right


class Crossings:
    """The sums of one readout on one sample; columns are thresholds in the order given."""

    def __init__(
        self,
        values: NDArray[np.floating],
        correct: NDArray[np.bool_],
        thresholds: NDArray[np.float64],
        direction: str,
        first_loop: int,
    ) -> None:
        """`values` and `correct` are [example, loop]; NaN in `thresholds` [threshold] runs to T."""
        loops = correct.shape[1]
        best = best_so_far(values, direction, first_loop)
        signed = thresholds if direction == "high" else -thresholds
        self._stops = ~np.isnan(signed)
        hardest_first = np.argsort(-signed[self._stops], kind="stable")
        ascending = -signed[self._stops][hardest_first]
        self._place = np.flatnonzero(self._stops)[hardest_first]
        self._count, self._loops = len(ascending), loops
        self._columns = len(thresholds)
        self._code = np.empty(best.shape, np.int32)
        for loop, at_loop in enumerate(best):
            self._code[loop] = np.searchsorted(ascending, -at_loop, side="left")
        right = correct.T[first_loop - 1 :].astype(np.int8)
        self._gain = right[:-1] - right[1:]
        first = first_right(correct)
        used = np.arange(first_loop, loops)[:, None]
        self._leaves_early = (used == first - 1) & (first <= loops)
        self._last = correct[:, -1]

    def sums(
        self, rows: NDArray[np.int64], unit: NDArray[np.int64], units: int, *, early: bool = False
    ) -> NDArray[np.float64]:
        """Over the examples `rows` of each unit 0..units-1 (`unit` [row]): the sum of exit loops,
        the number right there and, with `early`, the number that leave before their first right
        loop: [unit, 2 or 3 times threshold]."""
        cell = (self._code[:, rows] + unit * (self._count + 1)).ravel()
        weights = [None, self._gain[:, rows].ravel()]
        if early:
            weights.append(self._leaves_early[:, rows].ravel())
        size = np.bincount(unit, minlength=units)
        start = [self._loops * size, np.bincount(unit, self._last[rows], minlength=units), 0 * size]
        found = np.empty((units, len(weights), self._columns))
        for column, (weight, at_last) in enumerate(zip(weights, start, strict=False)):
            table = np.bincount(cell, weight, minlength=units * (self._count + 1))
            table = np.cumsum(table.reshape(units, -1)[:, : self._count], axis=1)
            found[:, column, ~self._stops] = np.asarray(at_last)[:, None]
            change = -table if column == 0 else table
            found[:, column, self._place] = np.asarray(at_last)[:, None] + change
        return found.reshape(units, -1)
