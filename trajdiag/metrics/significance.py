"""p values: of two readouts on the same examples, of one estimate, of many comparisons at once."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

RARE = 10
"""Resamples on the other side of 0 below which their share is too coarse."""
LEAST = 1e-6
"""The least p that a normal tail is believed for."""


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided p that two classifiers are right equally often, from the examples on which they
    differ: `only_first` that the first alone has right, `only_second` that the second alone has.

    Under the null each of the n differing examples is a fair coin: p = 2 P(Bin(n, 1/2) <= min), at
    most 1 (McNemar 1947, in its exact form). Raises ValueError for a negative count.
    """
    fewer, more = sorted((int(only_first), int(only_second)))
    if fewer < 0:
        raise ValueError(f"counts must be 0 or more, got {only_first} and {only_second}")
    n = fewer + more
    if fewer == more:
        return 1.0
    # C(n, k - i) / C(n, k) is at most exp(-2 i^2 / n): what lies further down is below 1e-31
    terms = min(fewer, math.ceil(6 * math.sqrt(n)))
    k = np.arange(fewer, fewer - terms, -1, dtype=np.float64)
    below = 1.0 + np.cumprod(k / (n - k + 1)).sum()
    log_top = math.lgamma(n + 1) - math.lgamma(fewer + 1) - math.lgamma(more + 1)
    return min(1.0, 2 * below * math.exp(log_top - n * math.log(2)))


def holm(p: Sequence[float | None]) -> list[float | None]:
    """The p values after Holm's step-down correction (1979), in the order given: the family-wise
    error rate is held whatever their dependence.

    The i-th smallest of m becomes the largest of (m - j + 1) p_(j) over j <= i, at most 1. None
    stays None and does not count. Raises ValueError for a value outside [0, 1].
    """
    given = {index: value for index, value in enumerate(p) if value is not None}
    if not all(0 <= value <= 1 for value in given.values()):
        raise ValueError(f"p values must lie between 0 and 1, got {list(p)}")
    adjusted: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, index in enumerate(sorted(given, key=given.__getitem__)):
        largest = max(largest, min(1.0, (len(given) - rank) * given[index]))
        adjusted[index] = largest
    return adjusted


def bootstrap_p(estimate: NDArray[np.float64]) -> float | None:
    """Two-sided p that what is estimated, [1 + resample], is 0: twice the smaller share of
    resamples on one side of it, at most 1.

    2 min((1 + #{<= 0}) / (R + 1), (1 + #{>= 0}) / (R + 1)) over the R finite resamples, the one
    added so that it is never 0 (Davison and Hinkley 1997, section 4.2). Fewer than RARE resamples
    on that side cannot tell how small it is, and a correction for many comparisons needs to know:
    there it is the normal tail at the estimate over its bootstrap standard error, where that is
    smaller, but not below LEAST. None where the estimate, or all but one of its resamples, is
    undefined.
    """
    finite = estimate[1:][np.isfinite(estimate[1:])]
    if not np.isfinite(estimate[0]) or len(finite) < 2:
        return None
    side = min(np.count_nonzero(finite <= 0), np.count_nonzero(finite >= 0))
    p = min(1.0, 2 * (1 + side) / (len(finite) + 1))
    error = float(finite.std())
    if side < RARE and error > 0:
        tail = math.erfc(abs(float(estimate[0])) / error / math.sqrt(2))
        p = min(p, max(tail, LEAST))
    return p
