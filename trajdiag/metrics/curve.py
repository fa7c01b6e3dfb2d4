"""A readout as a curve over budgets: its best accuracy at a mean depth of at most d, d in [1, T].

The curve is the upper concave hull of the readout's operating points and two anchors, leave at loop
1 and run to T, since a deployer can randomise between neighbouring vertices; right of its best
vertex it is flat, since a budget need not be spent. Its vertices are chosen on one sample (val) and
evaluated on another (test). The thresholds of one readout are nested, so that its depths keep their
order on every sample; vertices of several readouts, as the learned bound's, may change places on
test.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.frontier import Frontier

MOST_VERTICES = 33
"""Hulls of large samples are thinned to this; the area lost is of the order of 1e-4."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Vertices with strictly rising accuracy and depth; vertex 0 leaves at loop 1."""

    threshold: NDArray[np.float64]
    """[vertex]; that of vertex 0 is NaN and means nothing, elsewhere NaN means run to T."""
    depth: NDArray[np.float64]
    """[vertex], in loops."""
    accuracy: NDArray[np.float64]
    """[vertex]."""

    def __len__(self) -> int:
        return len(self.depth)


def budget_curve(points: Frontier, leave_at_once: float, most: int = MOST_VERTICES) -> Curve:
    """The curve of a readout with these operating points, thinned to `most` vertices;
    `leave_at_once` is the accuracy of loop 1."""
    threshold = np.concatenate([[np.nan], points.threshold[::-1]])
    depth = np.concatenate([[1.0], points.depth[::-1]])
    accuracy = np.concatenate([[leave_at_once], points.accuracy[::-1]])
    best_before = np.maximum.accumulate(accuracy)[:-1]
    kept = np.flatnonzero(np.concatenate([[True], accuracy[1:] > best_before]))
    kept = kept[_upper_hull(depth[kept].tolist(), accuracy[kept].tolist())]
    kept = kept[_most_telling(depth[kept], accuracy[kept], most)]
    return Curve(threshold=threshold[kept], depth=depth[kept], accuracy=accuracy[kept])


def area(
    depth: NDArray[np.float64], accuracy: NDArray[np.float64], loops: int
) -> NDArray[np.float64]:
    """Mean accuracy over budgets in [1, T] of curves with vertices `depth`, `accuracy` [...,
    vertex], in their order: where a depth falls, what lies under the stretch back is taken off."""
    if loops == 1:
        return accuracy[..., -1]
    width = np.diff(depth, axis=-1)
    under = (width * (accuracy[..., 1:] + accuracy[..., :-1]) / 2).sum(axis=-1)
    return (under + (loops - depth[..., -1]) * accuracy[..., -1]) / (loops - 1)


def accuracy_at(
    depth: NDArray[np.float64], accuracy: NDArray[np.float64], budgets: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Accuracy of curves [..., vertex] at each budget, all within [1, T]: [..., budget].

    It is read behind the last vertex within the budget, so that where depths change places the
    mixture counts that is furthest along the curve: the one preferred where it was chosen.
    """
    last = depth.shape[-1] - 1
    if last == 0:
        return np.repeat(accuracy, len(budgets), axis=-1)
    within = depth[..., None, ::-1] <= budgets[:, None]
    beyond = (last + 1 - within.argmax(axis=-1)).clip(1, last)
    d0, d1, a0, a1 = (
        np.take_along_axis(x, beyond - back, axis=-1) for x in (depth, accuracy) for back in (1, 0)
    )
    rising = d1 > d0
    weight = np.where(rising, (budgets - d0) / np.where(rising, d1 - d0, 1.0), 1.0)
    return a0 + weight.clip(0.0, 1.0) * (a1 - a0)


def _upper_hull(depth: list[float], accuracy: list[float]) -> list[int]:
    """Indices of the upper concave hull of points with rising depth; of floats, which Python reads
    several times faster one by one than an array's."""
    hull: list[int] = []
    for point in range(len(depth)):
        while len(hull) >= 2:
            first, middle = hull[-2], hull[-1]
            rise = (accuracy[middle] - accuracy[first]) * (depth[point] - depth[first])
            if rise > (accuracy[point] - accuracy[first]) * (depth[middle] - depth[first]):
                break
            hull.pop()
        hull.append(point)
    return hull


def _most_telling(
    depth: NDArray[np.float64], accuracy: NDArray[np.float64], most: int
) -> NDArray[np.int64]:
    """Indices of `most` vertices of a hull: those whose removal costs the least area go first."""
    kept = np.arange(len(depth))
    while len(kept) > most:
        d, a = depth[kept], accuracy[kept]
        lost = (a[1:-1] - a[:-2]) * (d[2:] - d[:-2]) - (a[2:] - a[:-2]) * (d[1:-1] - d[:-2])
        kept = np.delete(kept, 1 + int(np.argmin(lost)))
    return kept
