"""Oracles on one store: what hindsight reaches at every budget, and how much of it is luck."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from trajdiag.bound.rules import Rule
from trajdiag.metrics import oracle
from trajdiag.metrics.bootstrap import Estimate
from trajdiag.metrics.curve import budget_curve
from trajdiag.metrics.frontier import NEVER, Frontier, exit_depth, frontier, right_at
from trajdiag.metrics.luck import null_first_right
from trajdiag.metrics.points import Points, pooled
from trajdiag.readout import Readout
from trajdiag.readout_registry import ORACLE, ORACLE_LOSS, ORACLE_SATURATION, ORACLE_STAYS
from trajdiag.scoring.evaluation import Evaluation, Resamples, curve_estimates
from trajdiag.scoring.samples import Outcomes, Sample
from trajdiag.scoring.selection import FINAL, Targets, accuracy_name

RULE_POINTS = 12
"""Thresholds of each learned rule that are kept for the bound, beside its own, 0."""

Policies = tuple[NDArray[np.generic], NDArray[np.generic]]
"""Exit loops and whether right there, [example, policy], or their expectations."""


def evaluate_oracle(readout: Readout, points: Points, targets: Targets, loops: int) -> Evaluation:
    """An oracle's curve, its policies' `points` weighed on val like any readout's."""
    return _curve(readout, points, targets, loops)


def evaluate_bound(
    readout: Readout, points: Sequence[Points], targets: Targets, loops: int
) -> Evaluation:
    """The best that can be learned or scored, budget by budget: the common curve of `points`."""
    return _curve(readout, pooled(points, loops), targets, loops)


def rule_points(rules: Iterable[Rule], outcomes: Outcomes, resamples: Resamples) -> list[Points]:
    """Of learned stopping rules, the points that the sample's val curve would use."""
    return [_rule_points(rule, outcomes, resamples) for rule in rules]


def _rule_points(rule: Rule, outcomes: Outcomes, resamples: Resamples) -> Points:
    val = outcomes.val
    found = frontier(rule.values["val"], val.correct, "low")
    curve = budget_curve(found, float(val.correct[:, 0].mean()), most=RULE_POINTS)
    thresholds = np.unique(np.append(curve.threshold[1:], 0.0))

    def leave(sample: Sample) -> Policies:
        exits = exit_depth(rule.values[sample.split], thresholds, "low")
        exits = np.concatenate([np.ones((len(exits), 1), exits.dtype), exits], axis=1)
        return exits, right_at(sample.correct, exits)

    return _points(outcomes, resamples, leave)


def null_points(outcomes: Outcomes, resamples: Resamples) -> Points:
    """The earliest-right oracle by luck: of examples wrong at T, targets permuted among those that
    share their last prediction, in expectation."""
    return _points(outcomes, resamples, _null_policies)


def policies(name: str, sample: Sample) -> Policies:
    """Those of an oracle."""
    correct = sample.correct
    if name == ORACLE:
        exits = oracle.hindsight_exits(oracle.first_right(correct), sample.loops)
    elif name == ORACLE_STAYS:
        # Those that never stay right count as wrong wherever they leave.
        correct = oracle.stays_right(correct)
        exits = oracle.hindsight_exits(oracle.first_right(correct), sample.loops)
    elif name == ORACLE_LOSS:
        exits = oracle.hindsight_exits(oracle.least_loss(sample.cross_entropy), sample.loops)
    elif name == ORACLE_SATURATION:
        exits = oracle.hindsight_exits(oracle.saturation(sample.predictions), sample.loops)
    else:
        raise ValueError(f"no oracle is named {name}")
    return exits, right_at(correct, exits)


def _null_policies(sample: Sample) -> Policies:
    first = null_first_right(sample.predictions, sample.target)
    later = np.arange(sample.loops) * first
    return 1 + np.cumsum(later, axis=1), np.cumsum(first, axis=1)


def _points(
    outcomes: Outcomes, resamples: Resamples, of_sample: Callable[[Sample], Policies]
) -> Points:
    means = {}
    for sample, resample in ((outcomes.val, resamples.val), (outcomes.test, resamples.test)):
        columns = np.concatenate(of_sample(sample), axis=1, dtype=np.float32)
        means[sample.split] = np.split(resample.means(columns), 2, axis=1)
    return Points(
        val_depth=means["val"][0],
        val_accuracy=means["val"][1],
        depth=means["test"][0],
        accuracy=means["test"][1],
    )


def _curve(readout: Readout, points: Points, targets: Targets, loops: int) -> Evaluation:
    path = points.path()
    estimates: dict[str, Estimate] = curve_estimates(path, targets, loops)
    wanted = {FINAL: targets.final}
    for accuracy in targets.accuracies:
        wanted[accuracy_name(accuracy)] = np.full(len(targets.final), accuracy)
    reached = {}
    for name, accuracy in wanted.items():
        at = path.reaching(accuracy)
        estimates |= {f"depth@{name}": at.depth, f"accuracy@{name}": at.accuracy}
        reached[name] = bool(np.isfinite(at.depth[0]))
    del reached[FINAL]
    return Evaluation(
        readout=readout,
        points=points,
        path=path,
        val_area=path.val_area(loops),
        at=FINAL,
        estimates=estimates,
        reached=reached,
        frontier=_frontier(path.depth[0], path.accuracy[0]),
    )


def _frontier(depth: NDArray[np.float64], accuracy: NDArray[np.float64]) -> Frontier:
    """The curve's vertices on test, deepest first; no threshold makes them."""
    kept = np.flatnonzero(np.diff(depth, prepend=-np.inf) > 0)[::-1]
    return Frontier(threshold=np.full(len(kept), NEVER), depth=depth[kept], accuracy=accuracy[kept])
