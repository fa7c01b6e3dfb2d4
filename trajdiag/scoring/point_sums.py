"""What is summed over examples at every operating point of a readout."""

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.bootstrap import summed
from trajdiag.metrics.crossings import Crossings
from trajdiag.scoring.samples import Sample
from trajdiag.scoring.selection import Candidates


class PointSums:
    """A readout's columns at every point, summed over units: exit loops, right answers and, with
    further columns `also`, early exits and those."""

    def __init__(
        self,
        values: NDArray[np.floating],
        sample: Sample,
        chosen: Candidates,
        rule: tuple[str, int],
        also: NDArray[np.bool_] | None = None,
    ) -> None:
        self._crossings = Crossings(values, sample.correct, chosen.threshold[1:], *rule)
        self._also = also
        first = sample.correct[:, :1]
        columns = [np.ones_like(first, dtype=np.int8), first]
        if also is not None:
            columns.append(sample.correct.any(axis=1, keepdims=True) & ~first)
        self._at_once = np.concatenate(columns, axis=1, dtype=np.int8)

    def of(
        self, rows: NDArray[np.int64], unit: NDArray[np.int64], units: int
    ) -> NDArray[np.floating]:
        """[unit, column]: of each quantity the point that leaves at loop 1, then the others."""
        by_point = self._crossings.sums(rows, unit, units, early=self._also is not None)
        quantities = self._at_once.shape[1]
        at_once = summed(self._at_once[rows], unit, units)
        found = np.concatenate(
            [at_once[:, :, None], by_point.reshape(units, quantities, -1)], axis=2
        ).reshape(units, -1)
        if self._also is None:
            return found
        return np.concatenate([found, summed(self._also[rows], unit, units)], axis=1)
