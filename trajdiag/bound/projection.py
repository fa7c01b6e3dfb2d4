"""A few columns that tell what wide states tell, for trees, which read one column at a time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.bound.directions import centred_gram, main_directions
from trajdiag.bound.ridge import LinearRule, RidgeFit, centred_product, solve
from trajdiag.bound.sample import Sample

_COMPONENTS = 16
_SCORES = 4
_ROWS = 20_000
"""States that the principal directions are taken from at most."""


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Features to columns: signals as they are, the states' principal components and their changes
    since the loop before, what ridge makes of everything, the past too, and the loop."""

    signals: int
    """Features that are of signals; they come first."""
    apart: int
    """Features that are no state of this loop; the signals, then the past."""
    axes: NDArray[np.float32]
    """[state feature, component]."""
    score: LinearRule

    def __call__(
        self, features: NDArray[np.float32], scores: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """[(loop < T) x example, column] of features [loop < T, example, feature]; with `scores`
        [loop < T, example, score] in place of its own."""
        loops, examples, _ = features.shape
        states = features[:, :, self.apart :] @ self.axes
        change = np.zeros_like(states)
        np.subtract(states[1:], states[:-1], out=change[1:])
        scores = self.score(features) if scores is None else scores
        loop = np.broadcast_to(
            np.arange(loops, dtype=np.float32)[:, None, None], (loops, examples, 1)
        )
        parts = [features[:, :, : self.signals], states, change, scores, loop]
        return np.concatenate(parts, axis=2).reshape(loops * examples, -1)


def fit_projection(
    fit: Sample,
    ridge: RidgeFit,
    goal: NDArray[np.float32],
    fold: NDArray[np.int64],
    signals: int,
    apart: int,
) -> tuple[Projection, NDArray[np.float32]]:
    """The projection, and the columns of the fit examples. Theirs are the scores of ridge fitted on
    the other folds, since on the examples it was fitted on it looks better than it is.

    `goal` [loop < T, example, price] is what the scores are to tell of; `fold` is [example].
    """
    states = fit.features[:, :, apart:]
    loops, examples, width = states.shape
    stride = max(1, loops * examples // _ROWS)
    axes = main_directions(states[:, ::stride].reshape(-1, width), _COMPONENTS)
    basis = main_directions(goal.reshape(loops * examples, -1), _SCORES)
    score = LinearRule(weight=ridge.rule.weight @ basis, offset=ridge.rule.offset @ basis)
    projection = Projection(signals=signals, apart=apart, axes=axes, score=score)
    scores = [
        _of_other_folds(x, y @ basis, fold, penalty)
        for x, y, penalty in zip(fit.features, goal, ridge.penalty, strict=True)
    ]
    return projection, projection(fit.features, np.stack(scores))


def _of_other_folds(
    x: NDArray[np.float32], goal: NDArray[np.float32], fold: NDArray[np.int64], penalty: float
) -> NDArray[np.float32]:
    """Ridge predictions of `goal` [example, output] at one loop, each from the other folds."""
    found = np.empty_like(goal)
    for part in np.unique(fold):
        others = fold != part
        if not others.any():
            others = ~others
        inner, target = x[others], goal[others]
        share = len(inner) / len(x)
        weight = solve(centred_gram(inner), centred_product(inner, target), share * penalty)
        weight = weight.astype(np.float32)
        found[fold == part] = (x[fold == part] - inner.mean(0)) @ weight + target.mean(0)
    return found
