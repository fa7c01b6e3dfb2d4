"""One readout on one store: operating points chosen on val, everything measured on test, the choice
made again in every resample."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.attribution import PARTS
from trajdiag.metrics.bootstrap import Estimate, Resample
from trajdiag.metrics.difficulty import Bins, means_by_bin, spearman, spearman_of_table
from trajdiag.metrics.frontier import TIE, Frontier, exit_depth, frontier, thin
from trajdiag.metrics.frontier_summary import FrontierError
from trajdiag.metrics.points import Path, Points
from trajdiag.metrics.random_blocks import about
from trajdiag.readout import Readout
from trajdiag.scoring.point_sums import PointSums
from trajdiag.scoring.samples import Outcomes
from trajdiag.scoring.selection import (
    FINAL,
    GRID,
    MATCHED,
    THRESHOLD,
    Candidates,
    Targets,
    accuracy_name,
    candidates,
    grid_thresholds,
)

REAL = ("signal", "native", "gate", "fixed")
"""Kinds of readouts that are rules to choose: not hindsight, the bound, or variants of the native
gate."""
MOST_POINTS = 198
"""Operating points kept of a frontier."""


@dataclass(frozen=True, kw_only=True)
class Resamples:
    """The draws of a store's two samples, made independently."""

    val: Resample
    test: Resample


@dataclass(frozen=True, kw_only=True)
class Exits:
    """Where a readout's test examples leave at its operating point, and at any other."""

    readout: Readout
    values: NDArray[np.floating]
    """On test, [example, loop]."""
    leaves: NDArray[np.int16]
    """Exit loop at the operating point, [test example]."""
    budget: float
    """Mean depth on val there."""
    threshold: NDArray[np.floating]
    """[point], of every point of the exact val frontier; float32 where that holds the values."""
    val_depth: NDArray[np.float64]
    """[point], strictly falling."""

    def within(self, depth: float) -> NDArray[np.int16]:
        """Exit loops at the deepest point of all whose val depth is at most `depth`; all leave at
        loop 1 where no threshold is that shallow."""
        point = int(np.searchsorted(-self.val_depth, -(depth + TIE)))
        if point == len(self.val_depth):
            return np.ones(len(self.values), dtype=np.int16)
        rule = self.readout.direction, self.readout.first_loop
        return exit_depth(self.values, float(self.threshold[point]), *rule)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A readout's numbers on test."""

    readout: Readout
    points: Points
    path: Path
    val_area: float
    """Area of its curve on val, by which readouts are chosen."""
    at: str
    """The point of shares, exits and rank correlation: FINAL, or the user's THRESHOLD."""
    estimates: Mapping[str, Estimate]
    """Each metric's estimate [row]; NaN where undefined, infinite depths where not reached."""
    reached: Mapping[str, bool]
    """Whether val reaches each target accuracy, by the name of its point."""
    frontier: Frontier
    """Its operating points on test, thinned to MOST_POINTS; of hindsight and the bound their
    curve's."""
    test_chosen: Mapping[str, float] = field(default_factory=dict)
    """The least depth of all operating points that reaches each target accuracy on test itself, by
    the name of its point, infinite where none does; empty for hindsight and the bound."""
    threshold: float | None = None
    """The threshold at `at`, in the readout's unit, NaN runs to T; None for what has none."""
    drift: Mapping[str, Estimate] | None = None
    """`depth` and `accuracy` at that threshold, test less val, the threshold held; None for what
    has none."""
    shares: Estimate | None = None
    """[row, part] in the order of PARTS; None for hindsight and the bound."""
    by_bin: NDArray[np.float64] | None = None
    """[bin, loop]: the share of each bin of difficulty that leaves at each loop."""
    signal: NDArray[np.float64] | None = None
    """[bin, loop]: its mean value; None for readouts whose values say nothing."""
    exits: Exits | None = None
    """None for hindsight, the bound, and examples that were read part by part."""
    error: FrontierError | None = None
    """How far the exact val frontier may be from the one that points were chosen on; None where
    they were chosen on the exact one."""


@dataclass(frozen=True, kw_only=True)
class OnTest:
    """What a readout does on test at its candidates, and at its operating point."""

    means: Estimate
    """[row, column]: of each quantity of PointSums every point, and at_point's columns."""
    leaves: NDArray[np.int16]
    """Exit loop at the operating point, [test example]."""
    frontier: Frontier
    by_bin: NDArray[np.float64]
    """As in Evaluation."""
    signal: NDArray[np.float64] | None
    """As in Evaluation."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One store's evaluations."""

    outcomes: Outcomes
    evaluations: Sequence[Evaluation]
    targets: Targets
    resamples: Resamples
    final: Estimate
    """Test accuracy of each loop, [row, loop]."""
    val_final: Estimate
    """Val accuracy of each loop, [row, loop]."""
    by_score: Mapping[str, Estimate]
    """The same by each score of continuations, under lm-evaluation-harness's names: acc,
    acc_tokens, acc_norm; empty without."""
    by_bin: NDArray[np.float64]
    """Test accuracy of each loop by bin of difficulty, [bin, loop]."""
    null: Path | None = None
    """The oracle's curve by luck; None where no bound was fitted."""

    @property
    def name(self) -> str:
        return self.outcomes.store.name

    @property
    def loops(self) -> int:
        return self.outcomes.store.loops

    def get(self, readout: str) -> Evaluation | None:
        """The evaluation of the readout of this name, if it was scored."""
        return next((e for e in self.evaluations if e.readout.name == readout), None)


def evaluate(
    readout: Readout,
    outcomes: Outcomes,
    resamples: Resamples,
    targets: Targets,
    threshold: float | None = None,
) -> Evaluation:
    """Everything about one readout; `threshold` is the user's, in the readout's unit."""
    val, test = outcomes.val, outcomes.test
    on_val = readout.values(outcomes.store, "val")
    rule = readout.direction, readout.first_loop
    found_on_val = frontier(on_val, val.correct, *rule)
    chosen = candidates(
        readout,
        found_on_val,
        float(val.correct[:, 0].mean()),
        grid_thresholds(readout, on_val),
        targets,
        threshold,
    )
    val_means = resamples.val.means_of(PointSums(on_val, val, chosen, rule).of)
    point = operating_point(chosen, val_means, targets)
    values = readout.values(outcomes.store, "test")
    leaves = leave(values, chosen, point, rule)
    sums = PointSums(
        values, test, chosen, rule, also=at_point(leaves, test.correct, outcomes.levels)
    )
    exits = leaves[:, None] == np.arange(1, test.loops + 1)
    on_test = OnTest(
        means=resamples.test.means_of(sums.of),
        leaves=leaves,
        frontier=frontier(values, test.correct, *rule),
        by_bin=means_by_bin(exits, outcomes.bins),
        signal=means_by_bin(values, outcomes.bins) if readout.kind != "fixed" else None,
    )
    found = evaluation(readout, outcomes, chosen, point, val_means, on_test, targets)
    exits = Exits(
        readout=readout,
        values=values,
        leaves=leaves,
        budget=float(val_means[0, point]),
        threshold=found_on_val.threshold.astype(np.promote_types(on_val.dtype, np.float32)),
        val_depth=found_on_val.depth,
    )
    return replace(found, exits=exits)


def operating_point(chosen: Candidates, val_means: Estimate, targets: Targets) -> int:
    """The user's own point; else, of the sample, FINAL."""
    if chosen.given is not None:
        return chosen.given
    own = _val_points(val_means[:1], len(chosen.threshold)).take(chosen.own)
    return int(own.shallowest(targets.final[:1])[0])


def leave(
    values: NDArray[np.floating], chosen: Candidates, point: int, rule: tuple[str, int]
) -> NDArray[np.int16]:
    """Exit loops [example] at a point; point 0 leaves at loop 1."""
    if point == 0:
        return np.ones(len(values), dtype=np.int16)
    return exit_depth(values, float(chosen.threshold[point]), *rule)


def at_point(
    leaves: NDArray[np.int16], correct: NDArray[np.bool_], levels: Bins
) -> NDArray[np.bool_]:
    """The columns [example, column] that only the operating point has: right at no loop, then the
    cells of the table exit loop x level of difficulty."""
    never = np.logical_not(correct.any(axis=1))
    cells = table_cells(leaves, levels.code, len(levels.centre), correct.shape[1])
    return np.concatenate([never[:, None], cells], axis=1)


def evaluation(
    readout: Readout,
    outcomes: Outcomes,
    chosen: Candidates,
    point: int,
    val_means: Estimate,
    on_test: OnTest,
    targets: Targets,
) -> Evaluation:
    """The numbers of a readout that was measured at its candidates: on val [row, column], exit
    loops and right answers at every point, and on test."""
    loops, width, means = outcomes.test.loops, len(chosen.threshold), on_test.means
    depth, accuracy, early, rest = np.split(means, [width, 2 * width, 3 * width], axis=1)
    points = Points(
        val_depth=val_means[:, :width],
        val_accuracy=val_means[:, width:],
        depth=depth,
        accuracy=accuracy,
    )
    own = points.take(chosen.own)
    path = own.path()
    at = FINAL if chosen.given is None else THRESHOLD
    estimates, picks = _estimates(path, own, points, chosen, targets, loops)
    if len(outcomes.levels.centre):
        correlation = spearman_of_table(rest[:, 1:].reshape(len(means), loops, -1))
        exact = spearman(on_test.leaves, outcomes.difficulty)
        estimates["spearman"] = about(exact, correlation)
    return Evaluation(
        readout=readout,
        points=own,
        path=path,
        val_area=path.val_area(loops),
        at=at,
        estimates=estimates,
        reached={
            name: bool(picked[0] >= 0)
            for name, picked in picks.items()
            if name not in (FINAL, THRESHOLD)
        },
        frontier=thin(on_test.frontier, MOST_POINTS),
        test_chosen={
            accuracy_name(accuracy): _least_depth(on_test.frontier, accuracy)
            for accuracy in targets.accuracies
        },
        threshold=float(chosen.threshold[point]),
        drift={
            "depth": depth[:, point] - val_means[:, point],
            "accuracy": accuracy[:, point] - val_means[:, width + point],
        },
        shares=_shares(picks[at], accuracy, early, rest[:, 0]),
        by_bin=on_test.by_bin,
        signal=on_test.signal,
    )


def _val_points(means: Estimate, width: int) -> Points:
    """Points of which only val is known."""
    depth, accuracy = means[:, :width], means[:, width:]
    return Points(val_depth=depth, val_accuracy=accuracy, depth=depth, accuracy=accuracy)


def _estimates(
    path: Path, own: Points, points: Points, chosen: Candidates, targets: Targets, loops: int
) -> tuple[dict[str, Estimate], dict[str, NDArray[np.int64]]]:
    """Every metric's estimate, and the point behind each operating point, [row], -1 where none."""
    picks = {FINAL: own.shallowest(targets.final)}
    for accuracy in targets.accuracies:
        wanted = np.full(len(targets.final), accuracy)
        picks[accuracy_name(accuracy)] = own.shallowest(wanted)
        if len(chosen.grid) > 1:
            on_grid = points.take(chosen.grid).shallowest(wanted)
            picks[accuracy_name(accuracy) + GRID] = np.where(on_grid < 0, -1, chosen.grid[on_grid])
    if chosen.given is not None:
        picks[THRESHOLD] = np.full(len(targets.final), chosen.given)
    estimates = curve_estimates(path, targets, loops)
    for name, picked in picks.items():
        estimates[f"depth@{name}"] = _picked(points.depth, picked, np.inf)
        estimates[f"accuracy@{name}"] = _picked(points.accuracy, picked, np.nan)
    return estimates, picks


def curve_estimates(path: Path, targets: Targets, loops: int) -> dict[str, Estimate]:
    """What a budget curve tells: its area, accuracies at whole depths, and the point MATCHED."""
    matched = path.reaching(targets.matched)
    estimates = {
        "area": path.area(loops),
        f"depth@{MATCHED}": matched.depth,
        f"accuracy@{MATCHED}": matched.accuracy,
    }
    budgets = np.arange(1.0, loops + 1)
    by_budget = path.accuracy_at(budgets)
    return estimates | {f"accuracy@depth={d:g}": by_budget[:, i] for i, d in enumerate(budgets)}


def _picked(values: Estimate, picked: NDArray[np.int64], missed: float) -> Estimate:
    """`values` [row, point] at the picked point of each row."""
    found = values[np.arange(len(values)), picked]
    return np.where(picked < 0, missed, found)


def _least_depth(found: Frontier, accuracy: float) -> float:
    point = found.least_depth(accuracy)
    return np.inf if point is None else float(found.depth[point])


def _shares(
    picked: NDArray[np.int64], accuracy: Estimate, early: Estimate, never: Estimate
) -> Estimate:
    """[row, part]: parts sum to 1 in every row."""
    right, too_early = (_picked(x, picked, np.nan) for x in (accuracy, early))
    parts = {"ok": right, "trajectory": never, "early": too_early}
    late = 1.0 - right - never - too_early
    parts["late"] = np.where(np.abs(late) < TIE, 0.0, late)  # what rounding leaves of nothing
    return np.stack([parts[part] for part in PARTS], axis=1)


def table_cells(
    leaves: NDArray[np.int16], code: NDArray[np.int64], levels: int, loops: int
) -> NDArray[np.bool_]:
    """One column for each cell of the table exit loop x level of difficulty, [example, cell];
    examples of code -1 are in none."""
    cell = np.where(code < 0, -1, (leaves - 1) * levels + code)
    return cell[:, None] == np.arange(loops * levels)


def best(evaluations: Iterable[Evaluation]) -> Evaluation:
    """The rule that val prefers by area, hindsight, the bound and variants of the native gate
    apart; the first of equals."""
    return max((e for e in evaluations if e.readout.kind in REAL), key=lambda e: e.val_area)
