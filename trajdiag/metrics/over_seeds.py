"""Numbers of several trainings: their mean and their median, with intervals over training seeds."""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.bootstrap import Estimate

Interval = tuple[float | None, float | None, float | None]
"""Value and bounds, as `bootstrap.interval` gives them."""


def mean_over_seeds(
    estimates: Sequence[Estimate],
    confidence: float = 0.95,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> Interval:
    """The mean of the trainings' estimates [1 + resample], whose resamples are of the same
    examples, and its interval over trainings and examples; `within` are the bounds of what is
    estimated.

    What trainings and what examples add, each with the quantile of its own distribution (as Zou and
    Donner 2008 put the limits of two means together):

        seeds = max(s^2 - v, 0) / n     s^2 of the n own values; v, what examples add to it: the
                                        variance over resamples of a training's distance from
                                        the trainings' mean
        reach^2 = t^2 seeds + z^2 w     w the variance of the mean over resamples; t of Student's
                                        n - 1, z of the normal distribution

    A bootstrap of n trainings would hold the truth too seldom: of 3 in 74 of 100 where trainings
    alone differ, by (n - 1) / n in their variance and by the normal tails. None for the value where
    a training has none; None for the bounds where resamples are undefined, and for the upper one
    where too many of them are infinite. Raises ValueError for fewer than two trainings.
    """
    from scipy.special import stdtrit

    table = np.stack(estimates)
    own, n = table[:, 0], len(table)
    if n < 2:
        raise ValueError(f"an interval over seeds needs two of them, got {n}")
    if not np.isfinite(own).all():
        return None, None, None
    value = float(own.mean())
    missed = np.isinf(table[:, 1:]).any(axis=0)
    drawn = table[:, 1:][:, np.isfinite(table[:, 1:]).all(axis=0)]
    if drawn.shape[1] < 2:
        return value, None, None
    mean = drawn.mean(axis=0)
    apart = float((drawn - mean).var(axis=1, ddof=1).sum()) / (n - 1)
    seeds = max(float(own.var(ddof=1)) - apart, 0.0) / n
    common = float(mean.var(ddof=1))
    upper = (1 + confidence) / 2
    t, z = float(stdtrit(n - 1, upper)), NormalDist().inv_cdf(upper)
    reach = math.sqrt(t**2 * seeds + z**2 * common)
    low, high = max(value - reach, within[0]), min(value + reach, within[1])
    too_often = missed.mean() > (1 - confidence) / 2
    return value, low, None if too_often else high


def median_over_seeds(values: NDArray[np.float64], confidence: float = 0.95) -> Interval:
    """The median of the trainings' own values, infinite where not reached, and its interval of
    order statistics, which assumes nothing of their distribution (Conover 1999, 3.2).

    Between the k-th least and the k-th greatest of n lies the median with probability
    1 - 2 P(Bin(n, 1/2) < k). Fewer than six trainings have no such interval of 95%.
    """
    ordered, n = np.sort(values), len(values)
    k, tail = 0, 0.0
    while (tail := tail + math.comb(n, k) / 2**n) <= (1 - confidence) / 2:
        k += 1
    value = _finite((ordered[(n - 1) // 2] + ordered[n // 2]) / 2)
    if k == 0 or value is None:
        return value, None, None
    return value, _finite(ordered[k - 1]), _finite(ordered[n - k])


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
