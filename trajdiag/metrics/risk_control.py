"""Thresholds that promise a risk: Learn-then-Test and conformal risk control.

A risk is the mean over groups (questions, documents: what is drawn independently) of a group's mean
loss; a loss lies in [0, 1]. Candidates are the operating points of a frontier, from the safest, run
to T, to the boldest. Since those are all that a threshold can do on the examples at hand, testing
them one after another tests every threshold there is, and the promise holds for a grid-free choice.
"""

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.frontier import Frontier, best_so_far

_ROUNDING = 1e-9
"""Of a loss: what summing floats may add to a whole number of failures."""


def risk_path(
    found: Frontier,
    values: NDArray[np.floating],
    loss: NDArray[np.generic],
    weight: NDArray[np.float64],
    direction: str,
    first_loop: int = 1,
    *,
    monotone: bool = False,
) -> NDArray[np.float64]:
    """The weighted sum of the loss at every operating point of `found`: [point].

    `values` and `loss` are [example, loop], `weight` [example]; `found`, `direction` and
    `first_loop` as in `frontier(values, ...)`. With `monotone` an example that has lost once keeps
    that loss at all bolder points, so that the sum never falls: conformal risk control needs it.
    """
    sign = 1.0 if direction == "high" else -1.0
    best = best_so_far(values, direction, first_loop)
    last = np.asarray(loss[:, -1], dtype=np.float64)
    change = np.zeros(len(found))
    for loop in range(len(best) - 1, -1, -1):
        readier = ~np.isnan(best[loop])
        if loop:
            readier &= ~(best[loop] <= best[loop - 1])
        here = np.asarray(loss[readier, first_loop - 1 + loop], dtype=np.float64)
        if monotone:
            here = np.maximum(here, last[readier])
        point = found.at(sign * best[loop][readier], direction)
        step = weight[readier] * (here - last[readier])
        change += np.bincount(point, weights=step, minlength=len(found))
        last[readier] = here
    return float(weight @ np.asarray(loss[:, -1], dtype=np.float64)) + np.cumsum(change)


def group_weights(group: NDArray[np.integer]) -> tuple[NDArray[np.float64], int]:
    """1 / the size of an example's group, [example], and the number of groups: a sum with these
    weights, over that number, is the mean over groups of a group's mean."""
    _, inverse, sizes = np.unique(group, return_inverse=True, return_counts=True)
    return 1.0 / sizes[inverse], len(sizes)


def binomial_p(risk: NDArray[np.float64], n: int, level: float) -> NDArray[np.float64]:
    """p that the true risk exceeds `level`, given the share `risk` [candidate] of `n` independent
    examples that failed, 0 or 1 each: P(Bin(n, level) <= n risk), exact (2110.01052, section 2)."""
    from scipy.special import bdtr

    return bdtr(np.floor(n * risk + _ROUNDING), n, level)


def hoeffding_bentkus_p(risk: NDArray[np.float64], n: int, level: float) -> NDArray[np.float64]:
    """p that the true risk exceeds `level`, given the mean `risk` [candidate] of `n` independent
    losses anywhere in [0, 1].

    min(exp(-n h(min(risk, level), level)), e P(Bin(n, level) <= ceil(n risk))) with h(a, b) =
    a log(a/b) + (1 - a) log((1 - a)/(1 - b)): Hoeffding's bound and Bentkus' (2110.01052, section
    2; 2101.02703, theorem 1).
    """
    from scipy.special import bdtr, rel_entr

    low = np.clip(risk, 0.0, level)
    hoeffding = np.exp(-n * (rel_entr(low, level) + rel_entr(1 - low, 1 - level)))
    failures = np.minimum(np.ceil(n * risk - _ROUNDING), n)
    return np.minimum(1.0, np.minimum(hoeffding, np.e * bdtr(np.maximum(failures, 0), n, level)))


def fixed_sequence(p: NDArray[np.float64], delta: float) -> int:
    """How many candidates, from the safest on, pass before the first whose `p` exceeds `delta`.

    The chance that any of them breaks the promise is at most `delta`: to get there, the first true
    null of the sequence would have to be rejected (2110.01052, section 3; CALM, 2207.07061).
    """
    failing = np.flatnonzero(~(p <= delta))
    return int(failing[0]) if len(failing) else len(p)


def conformal(risk: NDArray[np.float64], n: int, level: float) -> int:
    """How many candidates, from the safest on, keep the risk of one more group at `level` or below
    in expectation: n/(n + 1) risk + 1/(n + 1) <= level, for a `risk` [candidate] that never falls
    and whose loss is at most 1 (conformal risk control, 2208.02814, theorem 1)."""
    failing = np.flatnonzero(~((n * risk + 1) / (n + 1) <= level + _ROUNDING / (n + 1)))
    return int(failing[0]) if len(failing) else len(risk)
