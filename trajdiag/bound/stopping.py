"""Optimal stopping at a price a loop: what going on is worth, given a rule for the loops to come.

The value at loop t is V_t = max(P(right at t), E[V_{t+1}] - price), with V_T = P(right at T). The
advantage of going on is A_t = E[V_{t+1} - price - right_t | what is seen at t]: the best rule
leaves at the first loop whose advantage is not above 0. V_{t+1} is not observed, but two things
are, and their mean given what is seen is V_{t+1} once the later advantages are right:

    realised    what the rule for the loops to come brings on this very trajectory (Longstaff and
                Schwartz 2001, Review of Financial Studies 14): unbiased for that rule, but noisy
    fitted      right_{t+1} + max(A_{t+1}, 0) (Tsitsiklis and Van Roy 2001, IEEE Transactions on
                Neural Networks 12): less noisy, but too high where A is in error
"""

import numpy as np
from numpy.typing import NDArray

PRICES: tuple[float, ...] = (0.0, *(round(float(x), 4) for x in np.geomspace(0.002, 0.6, 15)))
"""What a loop costs, in accuracy."""


def targets(
    advantage: NDArray[np.float32],
    correct: NDArray[np.bool_],
    prices: NDArray[np.float32],
    *,
    min_depth: int = 1,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What the advantages are to be regressed on, and the value at loop 1 of the rule they make.

    `advantage` [loop < T, example, price] is the rule, `correct` is [example, loop]; the targets
    are as `advantage`, the value is [example, price]. A rule never leaves before `min_depth`.
    """
    right = correct.astype(np.float32)
    goal = np.empty_like(advantage)
    value = at_last(correct, prices)
    for t in reversed(range(len(advantage))):
        goal[t] = value - prices - right[:, t, None]
        value = step_back(advantage[t], goal[t], right[:, t], forced=t + 1 < min_depth)
    return goal, value


def at_last(correct: NDArray[np.bool_], prices: NDArray[np.float32]) -> NDArray[np.float32]:
    """The value at loop T, [example, price]: being right."""
    return np.repeat(correct[:, -1:].astype(np.float32), len(prices), axis=1)


def step_back(
    advantage: NDArray[np.float32],
    goal: NDArray[np.float32],
    right: NDArray[np.float32],
    *,
    forced: bool,
    fitted: float = 0.0,
) -> NDArray[np.float32]:
    """The value at a loop, [example, price], from what going on brought, `goal` [example, price].

    `right` is [example]; where `forced`, the rule goes on whatever its advantage. `fitted` weighs
    the fitted value against the realised one, where the rule goes on.
    """
    if forced:
        return right[:, None] + goal
    brought = goal if fitted == 0 else (1 - fitted) * goal + fitted * advantage
    return right[:, None] + np.where(advantage > 0, brought, np.float32(0))


def mean_value(
    advantage: NDArray[np.float32],
    correct: NDArray[np.bool_],
    prices: NDArray[np.float32],
    min_depth: int,
) -> float:
    """The mean over examples and prices of what the rule brings, accuracy less what loops cost."""
    _, value = targets(advantage, correct, prices, min_depth=min_depth)
    return float(value.mean(dtype=np.float64))
