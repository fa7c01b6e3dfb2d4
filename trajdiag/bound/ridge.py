"""Ridge regression of the advantages, loop by loop from the last, all prices at once.

Each loop's weights are shrunk towards 0 or towards the weights that suit all loops together,
whichever the held-out examples prefer, and as strongly: all loops pooled, with free interactions of
every feature with the loop. One Gram matrix a loop serves all prices and strengths.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.bound.directions import centred_gram
from trajdiag.bound.sample import Sample
from trajdiag.bound.stopping import at_last, step_back, targets

_STRENGTHS = np.geomspace(1e-4, 30.0, 9)
"""Of the penalty, in average eigenvalues of the Gram matrix."""
_POOLED_STRENGTH = 1e-2
_FITTED = 0.5
"""Weight of the fitted value in the targets."""


@dataclass(frozen=True, kw_only=True)
class LinearRule:
    """Advantages that are linear at each loop."""

    weight: NDArray[np.float32]
    """[loop < T, feature, output]."""
    offset: NDArray[np.float32]
    """[loop < T, output]."""

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """[loop < T, example, output] of features [loop < T, example, feature]."""
        return features @ self.weight + self.offset[:, None]


@dataclass(frozen=True, kw_only=True)
class RidgeFit:
    rule: LinearRule
    penalty: list[float]
    """[loop < T]: the best one when shrinking towards 0."""


class _Loop:
    """One loop's regression, made ready for any targets and any strength."""

    def __init__(self, fit: NDArray[np.float32], held: NDArray[np.float32]) -> None:
        self.fit, self.mean = fit, fit.mean(0)
        self.gram = centred_gram(fit)
        value, self.vector = np.linalg.eigh(self.gram)
        self.value = value.clip(min=0.0)
        self.unit = float(self.value.mean()) or 1.0
        self.held = (held - self.mean) @ self.vector.astype(np.float32)

    def choose(
        self,
        goal: NDArray[np.float32],
        held_goal: NDArray[np.float32],
        towards: NDArray[np.float64],
    ) -> tuple[float, NDArray[np.float64], float]:
        """The least error on `held_goal` [example, output] over strengths of shrinking `towards`
        [feature, output], the weights that have it, and their penalty."""
        level = goal.mean(0)
        start = self.held @ (self.vector.T @ towards).astype(np.float32) + level - held_goal
        left = self.vector.T @ (centred_product(self.fit, goal) - self.gram @ towards)
        found = []
        for penalty in _STRENGTHS * self.unit:
            change = left / (self.value[:, None] + penalty)
            error = start + self.held @ change.astype(np.float32)
            found.append((float(np.vdot(error, error)), penalty, change))
        error, penalty, change = min(found, key=lambda entry: entry[0])
        return error, towards + self.vector @ change, penalty


def fit_ridge(
    fit: Sample, held: Sample, prices: NDArray[np.float32], *, min_depth: int = 1
) -> RidgeFit:
    """The advantages at all prices. Two sweeps from the last loop back, as only the second knows
    the targets of all loops, and so which weights suit all."""
    loops = [_Loop(*pair) for pair in zip(fit.features, held.features, strict=True)]
    first = _sweep(loops, fit, held, prices, None, min_depth)
    goal, _ = targets(first.rule(fit.features), fit.correct, prices, min_depth=min_depth)
    gram = np.sum([loop.gram for loop in loops], axis=0)
    product = np.sum([centred_product(loop.fit, y) for loop, y in zip(loops, goal, strict=True)], 0)
    pooled = solve(gram, product, _POOLED_STRENGTH * (np.trace(gram) / len(gram) or 1.0))
    return _sweep(loops, fit, held, prices, pooled, min_depth)


def centred_product(x: NDArray[np.float32], goal: NDArray[np.float32]) -> NDArray[np.float64]:
    """X'Y of rows `x` and of `goal` [example, output] less its mean."""
    return (x.T @ (goal - goal.mean(0))).astype(np.float64)


def solve(
    gram: NDArray[np.float64], product: NDArray[np.float64], penalty: float
) -> NDArray[np.float64]:
    """Ridge weights, [feature, output]."""
    weight = np.linalg.solve(gram + penalty * np.eye(len(gram)), product)
    return weight.astype(np.float64, copy=False)


def _sweep(
    loops: list[_Loop],
    fit: Sample,
    held: Sample,
    prices: NDArray[np.float32],
    pooled: NDArray[np.float64] | None,
    min_depth: int,
) -> RidgeFit:
    """Loop by loop from the last."""
    weights, offsets, penalties = [], [], []
    samples = (fit, held)
    values = [at_last(sample.correct, prices) for sample in samples]
    for t in reversed(range(len(loops))):
        rights = [sample.correct[:, t].astype(np.float32) for sample in samples]
        goals = [v - prices - right[:, None] for v, right in zip(values, rights, strict=True)]
        nothing = np.zeros((fit.features.shape[2], len(prices)))
        error, weight, penalty = loops[t].choose(goals[0], goals[1], nothing)
        if pooled is not None:
            other = loops[t].choose(goals[0], goals[1], pooled)
            weight = other[1] if other[0] < error else weight
        weights.append(weight.astype(np.float32))
        offsets.append(goals[0].mean(0) - loops[t].mean @ weights[-1])
        penalties.append(penalty)
        for i, sample in enumerate(samples):
            values[i] = step_back(
                sample.features[t] @ weights[-1] + offsets[-1],
                goals[i],
                rights[i],
                forced=t + 1 < min_depth,
                fitted=_FITTED,
            )
    rule = LinearRule(weight=np.stack(weights[::-1]), offset=np.stack(offsets[::-1]))
    return RidgeFit(rule=rule, penalty=penalties[::-1])
