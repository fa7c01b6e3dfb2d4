"""Work over a sample part by part, in this process or as Ray tasks, its results added up.

Parts are dealt into at most RANGES runs, by the sample alone. Within a run results are added in
order, then neighbouring runs pairwise, like a tree: both launchers add in the same order, so that
even sums of floats are the same to the bit.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.bootstrap import Estimate, Resample, summed
from trajdiag.ray_cluster import Launcher
from trajdiag.scoring.ray_tasks import run_on_ray
from trajdiag.scoring.samples import Sample

RANGES = 32
"""Runs of parts, at most: as many tasks can be done at once."""

Task = Callable[[Sample, slice], Sequence[Any]]
"""Of a part, and which of the sample's examples it is: results each of which knows how to `+`."""
Columns = Callable[[Sample], NDArray[np.generic]]
"""Whole numbers or truths of a part's examples, [example, column]."""


def over_parts(task: Task, sample: Sample, launcher: Launcher) -> Sequence[Any]:
    """The results of `task` over all parts of `sample`, added up."""
    parts = len(sample.cuts) - 1
    size = -(-parts // RANGES)
    ranges = [range(first, min(first + size, parts)) for first in range(0, parts, size)]
    if launcher == "ray" and sample.part_examples is not None:
        return run_on_ray(_over_range, add, task, sample, ranges)
    pending: list[tuple[int, Sequence[Any]]] = []
    for each in ranges:
        height, found = 0, _over_range(task, sample, each)
        while pending and pending[-1][0] == height:
            height, found = height + 1, add(pending.pop()[1], found)
        pending.append((height, found))
    total = pending.pop()[1]
    while pending:
        total = add(pending.pop()[1], total)
    return total


def means_over(
    columns: Columns, sample: Sample, resample: Resample, launcher: Launcher
) -> Estimate:
    """The mean of every column over each resample, [row, column]."""
    if sample.part_examples is None:
        return resample.means(columns(sample))
    (sums,) = over_parts(_UnitSums(columns, resample), sample, launcher)
    return resample.means_by_unit(sums)


class UnitTable:
    """Where the examples of a part stand among a resample's units."""

    def __init__(self, units: NDArray[np.int32], n_units: int) -> None:
        """`units` [example of the part]: the unit of each."""
        self.present, self.unit = np.unique(units, return_inverse=True)
        self.order = np.argsort(self.unit, kind="stable")
        self.n_units = n_units

    def whole(self, sums: NDArray[np.number]) -> NDArray[np.int32]:
        """Sums over the part's examples of the units that are present [present unit, column], as
        those of all units, [unit, column]."""
        table = np.zeros((self.n_units, sums.shape[1]), np.int32)
        table[self.present] = np.rint(sums)
        return table


class _UnitSums:
    """Columns summed over the examples of each unit."""

    def __init__(self, columns: Columns, resample: Resample) -> None:
        self._columns = columns
        self._units, self._n_units = resample.units(), resample.n_units

    def __call__(self, part: Sample, at: slice) -> Sequence[NDArray[np.int32]]:
        table = UnitTable(self._units[at], self._n_units)
        found = self._columns(part)[table.order]
        return [table.whole(summed(found, table.unit[table.order], len(table.present)))]


def add(one: Sequence[Any], other: Sequence[Any]) -> Sequence[Any]:
    """Each result of two parts added."""
    return [a + b for a, b in zip(one, other, strict=True)]


def _over_range(task: Task, sample: Sample, indices: range) -> Sequence[Any]:
    """The task over a run of parts, added up in order."""
    total: Sequence[Any] | None = None
    for index in indices:
        at = slice(sample.cuts[index], sample.cuts[index + 1])
        found = task(sample.part(index), at)
        total = found if total is None else add(total, found)
    assert total is not None
    return total
