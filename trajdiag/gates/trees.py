"""Boosted regression trees as plain arrays, evaluated exactly as scikit-learn evaluates them.

A row goes left at a node where x[feature] <= threshold, and where x[feature] is NaN if the node
sends missing values left; the output is the baseline plus each tree's leaf, added in order.

Instead of walking the trees, each node that sends a row right rules out the leaves under its left
child; the leftmost leaf that is left is the row's ("QuickScorer", Lucchese et al., SIGIR 2015,
doi 10.1145/2766462.2767733). What a feature's value rules out in all trees is one row of a table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

MOST_LEAVES = 32
"""Of a tree: one bit each."""
BLOCK = 2048
"""Rows evaluated at a time, so that what is ruled out stays in the processor's cache."""

_DTYPES = {
    "start": np.int64,
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
    "leaf_value": np.float64,
    "baseline": np.float64,
}
_ALL = np.uint32(2**32 - 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trees:
    """An ensemble. All trees' nodes stand in one row, each tree's root first, children after their
    parents; `left` and `right` count in that row."""

    start: np.ndarray
    """int64 [tree]: the root."""
    feature: np.ndarray
    """int32 [node]; -1 at a leaf."""
    threshold: np.ndarray
    """float64 [node]; infinite where only missing values go right."""
    left: np.ndarray
    """int32 [node]."""
    right: np.ndarray
    """int32 [node]."""
    missing_left: np.ndarray
    """bool [node]."""
    leaf_value: np.ndarray
    """float64 [node]; 0 at inner nodes."""
    baseline: np.ndarray
    """float64 [1]."""

    @classmethod
    def constant(cls, value: float) -> "Trees":
        """No tree: `value` for every row."""
        arrays: dict[str, np.ndarray] = {key: np.zeros(0, dtype) for key, dtype in _DTYPES.items()}
        return cls(**{**arrays, "baseline": np.array([value])})

    @classmethod
    def from_sklearn(cls, model: Any) -> "Trees":
        """The trees of a fitted HistGradientBoostingRegressor or binary Classifier without
        categorical features."""
        tables = [predictor.nodes for (predictor,) in model._predictors]
        baseline = np.ravel(model._baseline_prediction).astype(np.float64)
        start = np.cumsum([0, *(len(table) for table in tables[:-1])])
        offset = np.repeat(start, [len(table) for table in tables])
        nodes = np.concatenate(tables)
        leaf = nodes["is_leaf"].astype(bool)
        return cls(
            start=start.astype(np.int64),
            feature=np.where(leaf, -1, nodes["feature_idx"]).astype(np.int32),
            threshold=np.where(leaf, 0.0, nodes["num_threshold"]),
            left=np.where(leaf, 0, nodes["left"] + offset).astype(np.int32),
            right=np.where(leaf, 0, nodes["right"] + offset).astype(np.int32),
            missing_left=~leaf & nodes["missing_go_to_left"].astype(bool),
            leaf_value=np.where(leaf, nodes["value"], 0.0),
            baseline=baseline,
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], features: int) -> "Trees":
        """What `arrays` gave; raises ValueError where they are no trees of `features` features."""
        if set(arrays) != set(_DTYPES):
            raise ValueError(f"trees are the arrays {', '.join(_DTYPES)}; got {', '.join(arrays)}")
        for name, dtype in _DTYPES.items():
            if arrays[name].dtype != dtype or arrays[name].ndim != 1:
                raise ValueError(f"{name} is no row of {np.dtype(dtype)}")
        trees = cls(**arrays)
        trees._require_sound(features)
        return trees

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def first(self, count: int) -> "Trees":
        """The first `count` trees alone."""
        nodes = int(np.append(self.start, len(self.feature))[count])
        kept = {name: array[:nodes] for name, array in self.arrays().items()}
        return Trees(**{**kept, "start": self.start[:count], "baseline": self.baseline})

    def __len__(self) -> int:
        return len(self.start)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The output, float64 [row], of `x`, float64 [row, feature], which may hold NaN and
        infinities."""
        return self.staged(x, max(1, len(self)))[:, -1]

    def staged(self, x: np.ndarray, every: int) -> np.ndarray:
        """The outputs of the first 0, `every`, 2 `every` ... trees, float64 [row, stage]."""
        found = np.empty((len(x), 1 + len(self) // every))
        slot = MOST_LEAVES * np.arange(len(self))
        for at in range(0, len(x), BLOCK):
            part = x[at : at + BLOCK]
            possible = np.full((len(part), len(self)), _ALL)
            for feature, thresholds, remaining in self._bands:
                column = part[:, feature]
                band = np.searchsorted(thresholds, column)
                band[np.isnan(column)] = len(thresholds) + 1
                possible &= remaining[band]
            lowest = possible & (~possible + np.uint32(1))
            # A power of two's exponent is its bit's number, and float32 holds all 32 exactly.
            leaf = (lowest.astype(np.float32).view(np.int32) >> 23) - 127
            terms = np.empty((len(part), 1 + len(self)))
            terms[:, 0] = self.baseline
            terms[:, 1:] = self._leaves.ravel()[leaf + slot]
            # A running sum adds from left to right, as scikit-learn does; np.sum would not.
            found[at : at + BLOCK] = terms.cumsum(1)[:, ::every]
        return found

    @cached_property
    def _spans(self) -> tuple[np.ndarray, np.ndarray]:
        """The leaves under each node: the first one's number in its tree, and their count."""
        count = np.where(self.feature < 0, 1, 0)
        for node in range(len(count) - 1, -1, -1):
            if self.feature[node] >= 0:
                count[node] = count[self.left[node]] + count[self.right[node]]
        first = np.zeros(len(count), np.int64)
        for node in np.flatnonzero(self.feature >= 0):
            first[self.left[node]] = first[node]
            first[self.right[node]] = first[node] + count[self.left[node]]
        return first, count

    @cached_property
    def _leaves(self) -> np.ndarray:
        """float64 [tree, leaf number]."""
        first, _ = self._spans
        leaf = np.flatnonzero(self.feature < 0)
        found = np.zeros((len(self), MOST_LEAVES))
        found[self._tree[leaf], first[leaf]] = self.leaf_value[leaf]
        return found

    @cached_property
    def _bands(self) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """For each feature that is asked for: its thresholds, ascending, and the leaves that remain
        possible, uint32 [band, tree] of bits. A value's band is the number of thresholds below it;
        the last band is NaN's."""
        first, count = self._spans
        found = []
        for feature in np.unique(self.feature[self.feature >= 0]):
            nodes = np.flatnonzero(self.feature == feature)
            under, tree = self.left[nodes], self._tree[nodes]
            bits = ((1 << count[under]) - 1) << first[under]
            keep = (~bits & int(_ALL)).astype(np.uint32)
            thresholds, at = np.unique(self.threshold[nodes], return_inverse=True)
            remaining = np.full((len(thresholds) + 2, len(self)), _ALL)
            np.bitwise_and.at(remaining, (at + 1, tree), keep)
            np.bitwise_and.accumulate(remaining[:-1], axis=0, out=remaining[:-1])
            right = ~self.missing_left[nodes]
            np.bitwise_and.at(remaining[-1], tree[right], keep[right])
            found.append((int(feature), thresholds, remaining))
        return found

    @property
    def _tree(self) -> np.ndarray:
        """The tree of each node, int64."""
        return np.searchsorted(self.start, np.arange(len(self.feature)), side="right") - 1

    def _require_sound(self, features: int) -> None:
        nodes = len(self.feature)
        if any(len(array) != nodes for array in (self.threshold, self.left, self.right,
                                                 self.missing_left, self.leaf_value)):  # fmt: skip
            raise ValueError("the trees' arrays differ in length")
        finite = np.isfinite(self.baseline).all() and np.isfinite(self.leaf_value).all()
        if len(self.baseline) != 1 or not finite or np.isnan(self.threshold).any():
            raise ValueError("the trees hold NaN or infinity, or not one baseline")
        if (self.feature >= features).any():
            raise ValueError(f"the trees ask for more than {features} features")
        inner = np.flatnonzero(self.feature >= 0)
        children = np.concatenate([self.left[inner], self.right[inner]])
        parents = np.concatenate([inner, inner])
        # Every node is a root or one node's child, in its tree and after its parent: no cycle.
        reached = np.sort(np.concatenate([self.start, children]))
        if not np.array_equal(reached, np.arange(nodes)) or (self.start[:1] != 0).any():
            raise ValueError("the trees' nodes are not each one root or one node's child")
        tree = self._tree
        if (np.diff(self.start) <= 0).any() or (children <= parents).any() or (
            tree[children] != tree[parents]
        ).any():  # fmt: skip
            raise ValueError("the trees' nodes are out of order")
        if (self._spans[1] > MOST_LEAVES).any():
            raise ValueError(f"a tree has more than {MOST_LEAVES} leaves")
