"""What val decides about a readout: its curve's vertices and its operating points."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.errors import StoreError
from trajdiag.metrics.curve import Curve, Mixture, budget_curve
from trajdiag.metrics.difficulty import Bins, difficulty_bins
from trajdiag.metrics.frontier import Frontier, frontier, right_at
from trajdiag.metrics.oracle import oracle_depth
from trajdiag.metrics.quantile_grid import (
    PROBABILITIES,
    hazard_thresholds,
    logit_thresholds,
    quantile_thresholds,
)
from trajdiag.readout import Readout
from trajdiag.store.reader import Store

FINAL, MATCHED, THRESHOLD = "final", "matched", "threshold"
"""Operating points: least val depth within the slack of the last loop's val accuracy; least val
depth that reaches the accuracy at which stores are compared; the user's own threshold."""
GRID = "/quantile-grid"

MOST_BINS = 40
"""Levels of difficulty in the profile; more are binned."""


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """Which loops are right, on the two splits that scoring uses."""

    store: Store
    val: NDArray[np.bool_]
    """[example, loop]."""
    test: NDArray[np.bool_]
    """[example, loop]."""
    difficulty: NDArray[np.float64]
    """[test example]; NaN where unknown."""
    bins: Bins
    """Test examples by difficulty, for the profile."""
    group: NDArray[np.int64]
    """[test example]: the resampling unit."""

    @property
    def final_val(self) -> float:
        """Accuracy of the last loop on val."""
        return float(self.val[:, -1].mean())


@dataclass(frozen=True, kw_only=True)
class Targets:
    """What operating points are to reach."""

    accuracies: tuple[float, ...]
    slack: float
    """Accuracy below the last loop's that the point FINAL may give up."""
    matched: float
    """The accuracy of the point MATCHED."""


def outcomes(store: Store) -> Outcomes:
    """Raises StoreError where there is nothing to select on, or nothing to report on."""
    for split, use in (("val", "thresholds are chosen on"), ("test", "results are reported on")):
        if split not in store.splits:
            raise StoreError(
                f"store {store.name} has no {split} split, which {use}; it has "
                f"{', '.join(store.splits) or 'no examples'}. Extract with that split too"
            )
    rows = store.rows("test")
    return Outcomes(
        store=store,
        val=store.correct("val"),
        test=store.correct("test"),
        difficulty=store.difficulty[rows],
        bins=difficulty_bins(store.difficulty[rows], MOST_BINS),
        group=store.group[rows],
    )


def accuracy_name(accuracy: float) -> str:
    """How metrics name a target accuracy: `95` for .95."""
    return f"{100 * accuracy:g}"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What val decides: columns of policies, the first of which are the curve's vertices."""

    curve: Curve
    columns: NDArray[np.float64]
    """[column]: thresholds, or the oracle's policies."""
    points: Mapping[str, Mixture | None]
    """Each operating point as a mixture of columns; None where val does not reach it."""


def choose(
    readout: Readout,
    values: NDArray[np.floating],
    outcomes: Outcomes,
    targets: Targets,
    threshold: float | None,
) -> Choice:
    val = outcomes.val
    found = frontier(values, val, readout.direction, readout.first_loop)
    curve = budget_curve(found, float(val[:, 0].mean()))
    thresholds = {FINAL: _threshold(found, found.least_depth(outcomes.final_val - targets.slack))}
    grid = found.at(_grid(readout, values), readout.direction)
    for accuracy in targets.accuracies:
        name = accuracy_name(accuracy)
        thresholds[name] = _threshold(found, found.least_depth(accuracy))
        if readout.kind != "fixed":
            reaching = [point for point in grid if found.accuracy[point] >= accuracy - 1e-9]
            thresholds[name + GRID] = _threshold(found, max(reaching, default=None))
    if threshold is not None:
        thresholds[THRESHOLD] = float(threshold)
    reached = {name: at for name, at in thresholds.items() if at is not None}
    order = list(reached)
    points = {
        name: Mixture(vertex=len(curve) + order.index(name), weight=0.0)
        if name in reached
        else None
        for name in thresholds
    }
    return Choice(
        curve=curve,
        columns=np.concatenate([curve.threshold, list(reached.values())]),
        points={**points, MATCHED: curve.reaching(targets.matched)},
    )


def choose_oracle(outcomes: Outcomes, targets: Targets) -> Choice:
    curve = budget_curve(
        policy_frontier(oracle_depth(outcomes.val), outcomes.val), float(outcomes.val[:, 0].mean())
    )
    points = {
        FINAL: curve.reaching(outcomes.final_val - targets.slack),
        MATCHED: curve.reaching(targets.matched),
        **{accuracy_name(a): curve.reaching(a) for a in targets.accuracies},
    }
    return Choice(curve=curve, columns=curve.threshold, points=points)


def _threshold(found: Frontier, point: int | None) -> float | None:
    return None if point is None else float(found.threshold[point])


def _grid(readout: Readout, values: NDArray[np.floating]) -> NDArray[np.float64]:
    """The thresholds of the paper's protocol."""
    if readout.scale == "hazard":
        return hazard_thresholds()
    if readout.scale == "cdf":
        return PROBABILITIES
    if readout.scale == "logit":
        return logit_thresholds()
    return quantile_thresholds(values, readout.first_loop)


def policy_frontier(exits: NDArray[np.int64], correct: NDArray[np.bool_]) -> Frontier:
    """Policies [example, policy], from shallow to deep, as operating points numbered from 1."""
    return Frontier(
        threshold=np.arange(exits.shape[1], 0, -1.0),
        depth=exits.mean(axis=0)[::-1],
        accuracy=right_at(correct, exits).mean(axis=0)[::-1],
    )


def policies(columns: NDArray[np.float64]) -> NDArray[np.int64]:
    """The oracle's policies that a curve's vertices name; the first leaves at loop 1."""
    return np.where(np.isnan(columns), 1, columns).astype(np.int64) - 1
