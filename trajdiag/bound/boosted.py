"""Boosted trees of all advantages, all loops pooled.

The advantages at all prices vary in few ways, so trees are grown for the targets' principal
directions over prices, and serve every price. Targets are recomputed between rounds of trees, from
the rule so far: each round corrects what the ones before were led to by a worse rule.
"""

import numpy as np
from numpy.typing import NDArray

from trajdiag.bound.directions import main_directions
from trajdiag.bound.projection import Projection
from trajdiag.bound.sample import Sample
from trajdiag.bound.stopping import mean_value, targets

_ROUNDS = (20, 20)
"""Trees a round and direction. Most of a round's time goes into sorting its columns."""
_DIRECTIONS = 3
_LEAVES, _RATE, _BINS = 12, 0.12, 63
_LEAF_SHARE, _LEAST_LEAF = 1 / 400, 20
"""Examples in a leaf at least: of all, and their number."""
_ROWS = 60_000
"""States that trees are grown on at most."""


class _Round:
    """What one round adds: a constant a price, and trees for some directions over prices."""

    def __init__(
        self, columns: NDArray[np.float32], left: NDArray[np.float32], trees: int, seed: int
    ):
        """Fit `left` [row, price] on `columns` [row, column]."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        self._offset = left.mean(0)
        self._basis = main_directions(left, _DIRECTIONS)
        leaf = max(_LEAST_LEAF, round(_LEAF_SHARE * len(columns)))
        self._models = [
            HistGradientBoostingRegressor(
                max_iter=trees,
                learning_rate=_RATE,
                max_leaf_nodes=_LEAVES,
                max_bins=_BINS,
                min_samples_leaf=leaf,
                early_stopping=False,  # pyright: ignore[reportArgumentType]
                random_state=seed,
            ).fit(columns, (left - self._offset) @ direction)
            for direction in self._basis.T
        ]

    def __call__(self, columns: NDArray[np.floating]) -> NDArray[np.float32]:
        """[row, price]."""
        found = np.repeat(self._offset[None], len(columns), axis=0)
        for direction, model in zip(self._basis.T, self._models, strict=True):
            found += model.predict(columns).astype(np.float32)[:, None] * direction
        return found


class BoostedRule:
    """Advantages as sums of trees."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self.rounds: list[_Round] = []

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """[loop < T, example, price] of features [loop < T, example, feature]."""
        columns = self._projection(features).astype(np.float64)  # once, not for each model
        found = np.sum([part(columns) for part in self.rounds], axis=0, dtype=np.float32)
        return found.reshape(*features.shape[:2], -1)


def fit_boosted(
    columns: NDArray[np.float32],
    fit: Sample,
    held: Sample,
    projection: Projection,
    start: NDArray[np.float32],
    prices: NDArray[np.float32],
    *,
    seed: int = 0,
    min_depth: int = 1,
) -> BoostedRule:
    """The advantages at all prices, with as many rounds as the held-out examples prefer.

    `columns` [(loop < T) x example, column] are those of the fit examples; `start` [loop < T,
    example, price] are the advantages that the first targets are computed from.
    """
    rule, best, best_value = BoostedRule(projection), 0, -np.inf
    held_columns = projection(held.features)
    policy, so_far = start, np.zeros((len(columns), len(prices)), np.float32)
    held_so_far = np.zeros((len(held_columns), len(prices)), np.float32)
    taken = slice(None, None, max(1, -(-len(columns) // _ROWS)))
    for trees in _ROUNDS:
        goal, _ = targets(policy, fit.correct, prices, min_depth=min_depth)
        left = goal.reshape(so_far.shape) - so_far
        part = _Round(columns[taken], left[taken], trees, seed)
        rule.rounds.append(part)
        so_far += part(columns)
        held_so_far += part(held_columns)
        policy = so_far.reshape(start.shape)
        held_policy = held_so_far.reshape(-1, len(held), len(prices))
        value = mean_value(held_policy, held.correct, prices, min_depth)
        if value > best_value:
            best, best_value = len(rule.rounds), value
    del rule.rounds[best:]
    return rule
