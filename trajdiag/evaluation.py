"""One readout on one store: operating points chosen on val, everything measured on test, with
paired resamples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics import curve as curves
from trajdiag.metrics.attribution import PARTS, part_of
from trajdiag.metrics.bootstrap import Estimate, Resample
from trajdiag.metrics.difficulty import (
    Bins,
    difficulty_bins,
    means_by_bin,
    spearman,
    spearman_of_table,
)
from trajdiag.metrics.frontier import Frontier, exit_depth, frontier, right_at, thin
from trajdiag.metrics.oracle import oracle_depth
from trajdiag.readout import Readout
from trajdiag.selection import (
    FINAL,
    MATCHED,
    THRESHOLD,
    Choice,
    Outcomes,
    Targets,
    choose,
    choose_oracle,
    policies,
    policy_frontier,
)

MOST_LEVELS = 20
"""Levels of difficulty in the intervals of its rank correlation; more are binned."""
MOST_POINTS = 198
"""Operating points kept of a frontier."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A readout's numbers on test."""

    readout: Readout
    val_area: float
    """Area of its curve on val, by which readouts are chosen."""
    val_matched_depth: float
    """Depth of MATCHED on val, infinite where not reached."""
    at: str
    """The point of shares, exits and rank correlation: FINAL, or the user's THRESHOLD."""
    threshold: float
    """The threshold there, in the readout's unit; NaN runs to T."""
    reached: Mapping[str, bool]
    """Whether val reaches each target accuracy, by the name of its point."""
    estimates: Mapping[str, Estimate]
    """Each metric's estimate [1 + resample]; NaN where not reached or undefined."""
    shares: Estimate
    """[1 + resample, part] in the order of PARTS."""
    exits: NDArray[np.float64]
    """[bin, loop]: the share of each bin of difficulty that leaves at each loop."""
    signal: NDArray[np.float64] | None
    """[bin, loop]: its mean value; None for readouts whose values say nothing."""
    frontier: Frontier
    """Its operating points on test, thinned."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One store's evaluations."""

    outcomes: Outcomes
    evaluations: Sequence[Evaluation]
    matched: float
    """The accuracy of its operating point MATCHED."""
    final: Estimate
    """Test accuracy of each loop, [1 + resample, loop]."""
    by_score: Mapping[str, Estimate]
    """The same by each score of continuations, under lm-evaluation-harness's names: acc,
    acc_tokens, acc_norm; empty without."""

    @property
    def name(self) -> str:
        return self.outcomes.store.name

    def get(self, readout: str) -> Evaluation | None:
        """The evaluation of the readout of this name, if it was scored."""
        return next((e for e in self.evaluations if e.readout.name == readout), None)


def evaluate(
    readout: Readout,
    outcomes: Outcomes,
    resample: Resample,
    targets: Targets,
    threshold: float | None = None,
) -> Evaluation:
    """Everything about one readout; `threshold` is the user's, in the readout's unit."""
    at = FINAL if threshold is None else THRESHOLD
    signal = None
    if readout.kind == "oracle":
        chosen = choose_oracle(outcomes, targets)
        exits = oracle_depth(outcomes.test)
        points = policy_frontier(exits, outcomes.test)
        exits = exits[:, policies(chosen.columns)].astype(np.int16)
    else:
        values = readout.values(outcomes.store, "val")
        chosen = choose(readout, values, outcomes, targets, threshold)
        values = readout.values(outcomes.store, "test")
        rule = readout.direction, readout.first_loop
        exits = exit_depth(values, chosen.columns, *rule)
        exits[:, 0] = 1
        points = thin(frontier(values, outcomes.test, *rule), MOST_POINTS)
        if readout.kind != "fixed":
            signal = means_by_bin(values, outcomes.bins)
    return _measure(readout, outcomes, resample, chosen, exits, at, signal, points)


def _measure(
    readout: Readout,
    outcomes: Outcomes,
    resample: Resample,
    chosen: Choice,
    exits: NDArray[np.int16],
    at: str,
    signal: NDArray[np.float64] | None,
    points: Frontier,
) -> Evaluation:
    loops, width, vertices = outcomes.test.shape[1], exits.shape[1], len(chosen.curve)
    point = chosen.points[at]
    assert point is not None
    leaves = exits[:, point.vertex]
    bins = difficulty_bins(outcomes.difficulty, MOST_LEVELS)
    parts = part_of(leaves, outcomes.test)[:, None] == np.arange(len(PARTS))
    columns = [exits, right_at(outcomes.test, exits), parts, _cells(leaves, bins, loops)]
    means = resample.means(np.concatenate(columns, axis=1, dtype=np.int16))
    depth, accuracy = means[:, :width], means[:, width : 2 * width]
    shares, table = np.split(means[:, 2 * width :], [len(PARTS)], axis=1)
    on_curve = depth[:, :vertices], accuracy[:, :vertices]
    estimates = {"area": curves.area(*on_curve, loops)}
    for name, mixture in chosen.points.items():
        missed = np.full(len(means), np.nan)
        of = {f"depth@{name}": depth, f"accuracy@{name}": accuracy}
        estimates |= {n: mixture.of(x) if mixture is not None else missed for n, x in of.items()}
    budgets = np.arange(1.0, loops + 1)
    by_budget = curves.accuracy_at(*on_curve, budgets)
    estimates |= {f"accuracy@depth={d:g}": by_budget[:, i] for i, d in enumerate(budgets)}
    if readout.kind != "oracle" and len(bins.centre):
        correlation = spearman_of_table(table.reshape(len(means), loops, -1))
        correlation[0] = spearman(leaves, outcomes.difficulty)
        estimates["spearman"] = correlation
    matched = chosen.points[MATCHED]
    curve = chosen.curve
    return Evaluation(
        readout=readout,
        val_area=float(curves.area(curve.depth, curve.accuracy, loops)),
        val_matched_depth=float("inf") if matched is None else float(matched.of(curve.depth)),
        at=at,
        threshold=float(chosen.columns[point.vertex]),
        reached={
            name: mixture is not None
            for name, mixture in chosen.points.items()
            if name not in (FINAL, MATCHED, THRESHOLD)
        },
        estimates=estimates,
        shares=shares,
        exits=means_by_bin(leaves[:, None] == np.arange(1, loops + 1), outcomes.bins),
        signal=signal,
        frontier=points,
    )


def _cells(leaves: NDArray[np.int16], bins: Bins, loops: int) -> NDArray[np.bool_]:
    """One column for each cell of the table exit loop x difficulty, [example, cell]; examples of
    unknown difficulty are in none."""
    levels = len(bins.centre)
    cell = np.where(bins.code < 0, -1, (leaves - 1) * levels + bins.code)
    return cell[:, None] == np.arange(loops * levels)


def best(evaluations: Iterable[Evaluation], metric: str) -> Evaluation:
    """The readout that val prefers by `area` or `depth@matched`, hindsight and variants of the
    native gate apart; the first of equals."""
    real = [e for e in evaluations if e.readout.kind not in ("oracle", "variant")]
    if metric == "area":
        return max(real, key=lambda e: e.val_area)
    return min(real, key=lambda e: e.val_matched_depth)
