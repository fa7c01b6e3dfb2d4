"""Readouts of a store that is read part by part: val's frontier from summaries that add up, points
chosen on it, and sums of each unit measured at them. Beside the columns of the store it holds a few
thousand examples at a time, and 2 bytes an example for each readout."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.difficulty import mean_of_sums, sums_by_bin
from trajdiag.metrics.frontier_summary import BINS, FrontierSummary, summarise, threshold_grid
from trajdiag.ray_cluster import Launcher
from trajdiag.readout import Readout
from trajdiag.scoring.evaluation import (
    Evaluation,
    OnTest,
    Resamples,
    at_point,
    evaluation,
    leave,
    operating_point,
)
from trajdiag.scoring.parts import RANGES, UnitTable, over_parts
from trajdiag.scoring.point_sums import PointSums
from trajdiag.scoring.samples import Outcomes, Sample, of_part
from trajdiag.scoring.selection import Candidates, Targets, candidates, grid_thresholds

GRID_VALUES = 2**21
"""Values of a readout whose order statistics are a split's grid, at most: of examples that are
evenly spaced in the store."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A readout, and at which points it is measured."""

    readout: Readout
    test_grid: NDArray[np.float64]
    """Thresholds at which test's frontier is told."""
    chosen: Candidates
    summary: FrontierSummary
    """Of val."""

    @property
    def rule(self) -> tuple[str, int]:
        """Direction and first loop."""
        return self.readout.direction, self.readout.first_loop


def evaluate_streamed(
    readouts: Sequence[Readout],
    outcomes: Outcomes,
    resamples: Resamples,
    targets: Targets,
    thresholds: Mapping[str, float],
    *,
    memory: float,
    launcher: Launcher,
) -> list[Evaluation]:
    """As `evaluate`, of all `readouts`; `thresholds` are the user's, by readout. As many at once as
    may take half of `memory`, GiB."""
    measures = _chosen(readouts, outcomes, targets, thresholds, launcher)
    found: list[Evaluation] = []
    for together in _batches(measures, outcomes, resamples, memory * 2**30 / 2):
        units = resamples.val.units(), resamples.val.n_units
        val_sums = over_parts(_ValSums(together, *units), outcomes.val, launcher)
        val_means = [resamples.val.means_by_unit(sums) for sums in val_sums]
        points = [
            operating_point(measure.chosen, means, targets)
            for measure, means in zip(together, val_means, strict=True)
        ]
        units = resamples.test.units(), resamples.test.n_units
        test = over_parts(_TestSums(together, points, outcomes, *units), outcomes.test, launcher)
        for measure, point, means, sums in zip(together, points, val_means, test, strict=True):
            on_test = OnTest(
                means=resamples.test.means_by_unit(sums.by_unit),
                leaves=sums.leaves,
                frontier=sums.summary.frontier(),
                by_bin=mean_of_sums(sums.exits),
                signal=None if measure.readout.kind == "fixed" else mean_of_sums(sums.values),
            )
            evaluated = evaluation(
                measure.readout, outcomes, measure.chosen, point, means, on_test, targets
            )
            found.append(dataclasses.replace(evaluated, error=measure.summary.error()))
    return found


def _chosen(
    readouts: Sequence[Readout],
    outcomes: Outcomes,
    targets: Targets,
    thresholds: Mapping[str, float],
    launcher: Launcher,
) -> list[Measure]:
    """Each readout's points, from its summary on val."""
    val, test = outcomes.val, outcomes.test
    grids, protocols = [], []
    for readout, values in _some_values(readouts, val):
        grids.append(_grid(readout, values))
        protocols.append(grid_thresholds(readout, values))
    test_grids = [_grid(readout, values) for readout, values in _some_values(readouts, test)]
    summaries = over_parts(_Summaries(readouts, grids), val, launcher)
    return [
        Measure(
            readout=readout,
            test_grid=grid,
            chosen=candidates(
                readout,
                summary.frontier(),
                summary.right_at_first / summary.examples,
                protocol,
                targets,
                thresholds.get(readout.name),
            ),
            summary=summary,
        )
        for readout, grid, protocol, summary in zip(
            readouts, test_grids, protocols, summaries, strict=True
        )
    ]


def _some_values(
    readouts: Sequence[Readout], sample: Sample
) -> Iterator[tuple[Readout, NDArray[np.floating]]]:
    """Each readout's values of evenly spaced examples, [example, loop]."""
    most = min(len(sample), max(1, GRID_VALUES // sample.loops))
    some = sample.only(np.linspace(0, len(sample) - 1, most).astype(np.int64))
    return ((readout, readout.values(some.store, some.split)) for readout in readouts)


def _grid(readout: Readout, values: NDArray[np.floating]) -> NDArray[np.float64]:
    return threshold_grid(values, readout.direction, readout.first_loop, BINS)


def _batches(
    measures: Sequence[Measure], outcomes: Outcomes, resamples: Resamples, room: float
) -> Iterator[Sequence[Measure]]:
    """Runs of readouts whose sums fit into `room` bytes, one readout at least."""
    held = RANGES.bit_length() + 2  # partial sums that wait for their neighbours
    cells = outcomes.test.loops * len(outcomes.levels.centre)
    units = max(resamples.val.n_units, resamples.test.n_units)
    width = max(len(measure.chosen.threshold) for measure in measures)
    of_one = held * 4 * units * (3 * width + 1 + cells) + 4 * len(outcomes.test)
    size = max(1, int(room / of_one))
    return (measures[first : first + size] for first in range(0, len(measures), size))


@dataclass(frozen=True)
class _Summaries:
    """Each readout's summary."""

    readouts: Sequence[Readout]
    grids: Sequence[NDArray[np.float64]]

    def __call__(self, part: Sample, at: slice) -> Sequence[FrontierSummary]:
        return [
            summarise(
                readout.values(part.store, part.split),
                part.correct,
                grid,
                readout.direction,
                readout.first_loop,
            )
            for readout, grid in zip(self.readouts, self.grids, strict=True)
        ]


@dataclass(frozen=True)
class _ValSums:
    """Of each readout the sums of PointSums over every unit, [unit, column]."""

    measures: Sequence[Measure]
    units: NDArray[np.int32]
    n_units: int

    def __call__(self, part: Sample, at: slice) -> Sequence[NDArray[np.int32]]:
        table = UnitTable(self.units[at], self.n_units)
        found = []
        for measure in self.measures:
            values = measure.readout.values(part.store, part.split)
            found.append(_point_sums(table, values, part, measure))
        return found


@dataclass(frozen=True)
class _TestSums:
    """Of each readout what its operating point and the others do on test."""

    measures: Sequence[Measure]
    points: Sequence[int]
    outcomes: Outcomes
    units: NDArray[np.int32]
    n_units: int

    def __call__(self, part: Sample, at: slice) -> Sequence["_OnPart"]:
        table = UnitTable(self.units[at], self.n_units)
        bins, levels = of_part(self.outcomes.bins, at), of_part(self.outcomes.levels, at)
        found = []
        for measure, point in zip(self.measures, self.points, strict=True):
            values = measure.readout.values(part.store, part.split)
            leaves = leave(values, measure.chosen, point, measure.rule)
            also = at_point(leaves, part.correct, levels)
            exits = leaves[:, None] == np.arange(1, part.loops + 1)
            found.append(
                _OnPart(
                    by_unit=_point_sums(table, values, part, measure, also),
                    leaves=leaves,
                    summary=summarise(values, part.correct, measure.test_grid, *measure.rule),
                    exits=sums_by_bin(exits, bins),
                    values=sums_by_bin(values, bins),
                )
            )
        return found


@dataclass(frozen=True, kw_only=True)
class _OnPart:
    """What a readout does on test examples that follow each other; `+` appends the next ones."""

    by_unit: NDArray[np.int32]
    """[unit, column]."""
    leaves: NDArray[np.int16]
    """[example]: the exit loop at the operating point."""
    summary: FrontierSummary
    exits: NDArray[np.float64]
    """Those that leave at each loop, by bin of difficulty: see sums_by_bin."""
    values: NDArray[np.float64]
    """Of the readout itself."""

    def __add__(self, other: "_OnPart") -> "_OnPart":
        return _OnPart(
            by_unit=self.by_unit + other.by_unit,
            leaves=np.concatenate([self.leaves, other.leaves]),
            summary=self.summary + other.summary,
            exits=self.exits + other.exits,
            values=self.values + other.values,
        )


def _point_sums(
    table: UnitTable,
    values: NDArray[np.floating],
    part: Sample,
    measure: Measure,
    also: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    sums = PointSums(values, part, measure.chosen, measure.rule, also)
    unit = table.unit[table.order]
    return table.whole(sums.of(table.order, unit, len(table.present)))
