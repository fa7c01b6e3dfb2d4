"""Operating points in every resample, and what val chooses among them in each.

A row is a sample or one of its resamples, so that the choice is made again in each: intervals then
hold what choosing adds to the noise of measuring. Everything is chosen by the val columns and read
off the test columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics import curve
from trajdiag.metrics.bootstrap import Estimate
from trajdiag.metrics.frontier import TIE


@dataclass(frozen=True, kw_only=True)
class Points:
    """Operating points [row, point]; the first leaves at loop 1."""

    val_depth: Estimate
    val_accuracy: Estimate
    depth: Estimate
    """On test."""
    accuracy: Estimate
    """On test."""

    def path(self) -> "Path":
        """The upper concave hull of each row's val points, right of its best one flat."""
        vertices = upper_hull(self.val_depth, self.val_accuracy)
        # Of a val sample of one group there are no resamples, and nothing is chosen in them.
        known = ~np.isnan(self.val_accuracy[:, :1])
        taken = (
            np.where(known, np.take_along_axis(x, vertices, axis=1), np.nan)
            for x in (self.val_depth, self.val_accuracy, self.depth, self.accuracy)
        )
        val_depth, val_accuracy, depth, accuracy = taken
        return Path(val_depth=val_depth, val_accuracy=val_accuracy, depth=depth, accuracy=accuracy)

    def shallowest(self, accuracy: NDArray[np.float64]) -> NDArray[np.int64]:
        """The point of least val depth whose val accuracy reaches `accuracy` [row]; -1 where none
        does. The first point, which no threshold makes, does not count."""
        reached = self.val_accuracy[:, 1:] >= accuracy[:, None] - TIE
        depth = np.where(reached, self.val_depth[:, 1:], np.inf)
        found = depth.argmin(axis=1)
        return np.where(reached.any(axis=1), found + 1, -1)

    def take(self, columns: NDArray[np.int64]) -> "Points":
        """Some of the points."""
        return Points(
            val_depth=self.val_depth[:, columns],
            val_accuracy=self.val_accuracy[:, columns],
            depth=self.depth[:, columns],
            accuracy=self.accuracy[:, columns],
        )


@dataclass(frozen=True, kw_only=True)
class Path:
    """A readout's budget curve in each row, [row, vertex]; the last vertex fills the row up."""

    val_depth: Estimate
    val_accuracy: Estimate
    depth: Estimate
    accuracy: Estimate

    def area(self, loops: int) -> Estimate:
        """Mean test accuracy over budgets in [1, T]: [row]."""
        return curve.area(self.depth, self.accuracy, loops)

    def val_area(self, loops: int) -> float:
        """The same of the sample on val, by which readouts are chosen."""
        return float(curve.area(self.val_depth[0], self.val_accuracy[0], loops))

    def accuracy_at(self, budgets: NDArray[np.float64]) -> Estimate:
        """Test accuracy at each budget: [row, budget]."""
        return curve.accuracy_at(self.depth, self.accuracy, budgets)

    def reaching(self, accuracy: NDArray[np.float64]) -> "Reached":
        """The mixture of neighbouring vertices of least val depth that has `accuracy` [row] on
        val."""
        enough = self.val_accuracy >= accuracy[:, None] - TIE
        reached = enough.any(axis=1)
        above = enough.argmax(axis=1)
        below = np.maximum(above - 1, 0)
        rows = np.arange(len(accuracy))
        low, high = self.val_accuracy[rows, below], self.val_accuracy[rows, above]
        rises = high > low
        weight = np.where(rises, (accuracy - low) / np.where(rises, high - low, 1.0), 1.0)
        weight = weight.clip(0.0, 1.0)

        def mixed(values: Estimate, missed: float) -> Estimate:
            mean = (1 - weight) * values[rows, below] + weight * values[rows, above]
            return np.where(reached, mean, missed)

        return Reached(
            depth=mixed(self.depth, np.inf),
            accuracy=mixed(self.accuracy, np.nan),
        )


@dataclass(frozen=True, kw_only=True)
class Reached:
    """Where an accuracy is reached on val, [row]: infinite depths where it is not."""

    depth: Estimate
    """On test."""
    accuracy: Estimate
    """On test."""


def pooled(points: Sequence[Points], loops: int, most: int = 256) -> Points:
    """The points of several readouts as one choice, thinned to the `most` that the sample's val
    points put nearest to their common hull."""
    together = Points(
        val_depth=np.concatenate([p.val_depth for p in points], axis=1),
        val_accuracy=np.concatenate([p.val_accuracy for p in points], axis=1),
        depth=np.concatenate([p.depth for p in points], axis=1),
        accuracy=np.concatenate([p.accuracy for p in points], axis=1),
    )
    depth, accuracy = together.val_depth[:1], together.val_accuracy[:1]
    hull = upper_hull(depth, accuracy)
    best = curve.accuracy_at(depth[:, hull[0]], accuracy[:, hull[0]], depth[0].clip(1, loops))
    behind = best[0] - accuracy[0]
    behind[hull[0]] = -1.0  # the hull stays whole, the point that leaves at loop 1 with it
    return together.take(np.sort(np.argsort(behind, kind="stable")[:most]))


def upper_hull(depth: NDArray[np.float64], accuracy: NDArray[np.float64]) -> NDArray[np.int64]:
    """The vertices of each row's upper concave hull, by rising depth and strictly rising accuracy:
    indices [row, vertex], the last one repeated where a row has fewer.

    `depth` and `accuracy` are [row, point]; point 0 is the least depth of all.
    """
    rows, points = depth.shape
    order = np.argsort(depth, axis=1, kind="stable")
    depth, accuracy = (np.take_along_axis(x, order, axis=1).T for x in (depth, accuracy))
    stack = np.zeros((points + 1, rows), dtype=np.int64)
    size = np.zeros(rows, dtype=np.int64)
    best = np.full(rows, -np.inf)
    every = np.arange(rows)
    for point in range(points):
        rising = np.flatnonzero(accuracy[point] > best)
        best[rising] = accuracy[point, rising]
        open_rows = rising[size[rising] >= 2]
        while len(open_rows):
            first, middle = (stack[size[open_rows] - back, open_rows] for back in (2, 1))
            d0, a0 = depth[first, open_rows], accuracy[first, open_rows]
            rise = (accuracy[middle, open_rows] - a0) * (depth[point, open_rows] - d0)
            over = (accuracy[point, open_rows] - a0) * (depth[middle, open_rows] - d0)
            open_rows = open_rows[rise <= over]
            size[open_rows] -= 1
            open_rows = open_rows[size[open_rows] >= 2]
        stack[size[rising], rising] = point
        size[rising] += 1
    longest = int(size.max())
    last = stack[size - 1, every]
    inside = np.arange(longest)[:, None] < size
    vertices = np.where(inside, stack[:longest], last)
    return np.take_along_axis(order, vertices.T, axis=1)
