"""What val decides about a readout: the operating points among which everything is chosen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.bootstrap import Estimate
from trajdiag.metrics.curve import budget_curve
from trajdiag.metrics.frontier import NEVER, TIE, Frontier
from trajdiag.metrics.quantile_grid import (
    PROBABILITIES,
    hazard_thresholds,
    logit_thresholds,
    quantile_thresholds,
)
from trajdiag.readout import Readout

FINAL, MATCHED, THRESHOLD = "final", "matched", "threshold"
"""Operating points: least val depth within the slack of the last loop's val accuracy; least val
depth that reaches the accuracy at which stores are compared; the user's own threshold."""
GRID = "/quantile-grid"

EVENLY = 32
"""Operating points, evenly spaced in depth, among which resamples choose beside the sample's own
choices."""
NEARBY = (0.01, 0.02, 0.04, 0.08, 0.16)
"""Distances in loops of further ones on both sides of each choice."""
GRID_NEARBY = 8
"""Points of the quantile grid, on both sides of its choice, among which resamples choose."""


@dataclass(frozen=True, kw_only=True)
class Targets:
    """What operating points are to reach."""

    accuracies: tuple[float, ...]
    final: Estimate
    """Val accuracy that the point FINAL is to have: the last loop's, less the slack. [row]."""
    matched: Estimate
    """The accuracy of the point MATCHED on val, [row]."""


def accuracy_name(accuracy: float) -> str:
    """How metrics name a target accuracy: `95` for .95."""
    return f"{100 * accuracy:g}"


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The operating points that are measured; the first leaves at loop 1, whatever the value."""

    threshold: NDArray[np.float64]
    """[point], in the readout's unit; NaN runs to T."""
    own: NDArray[np.int64]
    """All points but the user's."""
    grid: NDArray[np.int64]
    """Those on the paper's grid of thresholds, and the first."""
    given: int | None
    """The user's own threshold."""


def candidates(
    readout: Readout,
    found: Frontier,
    leave_at_once: float,
    protocol: NDArray[np.float64],
    targets: Targets,
    threshold: float | None = None,
) -> Candidates:
    """The points of a readout with this frontier on val, where loop 1 has the accuracy
    `leave_at_once`, `protocol` being its grid_thresholds: all that the sample itself would choose,
    and around them what resamples may choose instead."""
    curve = budget_curve(found, leave_at_once)
    chosen = [found.least_depth(a) for a in (float(targets.final[0]), *targets.accuracies)]
    known = sorted({point for point in chosen if point is not None})
    wanted = np.concatenate(
        [
            np.linspace(found.depth[0], found.depth[-1], EVENLY),
            *(found.depth[point] + np.array([*NEARBY, *(-d for d in NEARBY)]) for point in known),
        ]
    )
    near = np.searchsorted(-found.depth, -wanted).clip(0, len(found) - 1)
    grid = np.zeros(0, dtype=np.int64)
    if len(protocol):
        grid = _near_grid(found, np.unique(found.at(protocol, readout.direction)), targets)
    vertices = found.at(curve.threshold[1:], readout.direction)
    points = np.unique(np.concatenate([[0], vertices, known, near, grid])).astype(np.int64)[::-1]
    thresholds = np.concatenate([[NEVER], found.threshold[points]])
    given = None
    if threshold is not None:
        given = len(thresholds)
        thresholds = np.append(thresholds, threshold)
    return Candidates(
        threshold=thresholds,
        own=np.arange(len(points) + 1),
        grid=np.concatenate([[0], 1 + np.flatnonzero(np.isin(points, grid))]),
        given=given,
    )


def _near_grid(found: Frontier, grid: NDArray[np.int64], targets: Targets) -> NDArray[np.int64]:
    """The points of the grid around those that it would choose."""
    kept = []
    for accuracy in targets.accuracies:
        reached = np.flatnonzero(found.accuracy[grid] >= accuracy - TIE)
        last = reached[-1] if len(reached) else int(found.accuracy[grid].argmax())
        kept.append(grid[max(0, last - GRID_NEARBY) : last + GRID_NEARBY + 1])
    return np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)


def grid_thresholds(readout: Readout, values: NDArray[np.floating]) -> NDArray[np.float64]:
    """The thresholds of the paper's protocol; of a signal, from its val `values` [example, loop].
    None of the forced exits, which are all measured."""
    if readout.kind == "fixed":
        return np.zeros(0)
    if readout.scale == "hazard":
        return hazard_thresholds()
    if readout.scale == "cdf":
        return PROBABILITIES
    if readout.scale == "logit":
        return logit_thresholds()
    return quantile_thresholds(values, readout.first_loop)
