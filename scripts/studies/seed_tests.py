"""p values over training seeds, on the inputs as they were drawn."""

from collections.abc import Sequence
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy import stats


def difference_p(first: Sequence[float], second: Sequence[float], *, paired: bool) -> float:
    """Two-sided p that the means over seeds are the same: Student's t of the differences where both
    are numbers of the same models, else Welch's. Where nothing varies, by how many of the ways to
    swap signs or seeds are as extreme. Raises ValueError for fewer than two seeds.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if min(len(a), len(b)) < 2 or (paired and len(a) != len(b)):
        raise ValueError(f"a test over seeds needs two or more of each, got {len(a)} and {len(b)}")
    constant = _still(a - b) if paired else _still(a) and _still(b)
    if constant:
        ways = 2 ** len(a) if paired else comb(len(a) + len(b), len(a))
        return 1.0 if np.isclose(a[0], b[0]) else min(1.0, 2 / ways)
    test = stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)
    return float(test.pvalue)


def difference_interval(
    first: Sequence[float], second: Sequence[float], *, paired: bool
) -> tuple[float, float, float]:
    """The mean of the first less that of the second over seeds, and the 95% interval of the same
    test."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    value = float(a.mean() - b.mean())
    if _still(a - b) if paired else _still(a) and _still(b):
        return value, value, value
    test = stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)
    low, high = test.confidence_interval(0.95)
    return value, float(low), float(high)


def within_p(values: Sequence[float], margin: float) -> tuple[float, bool]:
    """p that the mean over seeds is not on that side of the margin on which it was found, and
    whether it was found within: two one-sided t tests (Schuirmann 1987), or one for beyond."""
    found = np.asarray(values, np.float64)
    mean = float(found.mean())
    if _still(found):
        return 2.0 ** (1 - len(found)), abs(mean) <= margin
    if abs(mean) <= margin:
        above = stats.ttest_1samp(found, -margin, alternative="greater").pvalue
        below = stats.ttest_1samp(found, margin, alternative="less").pvalue
        return float(max(above, below)), True
    return float(stats.ttest_1samp(np.abs(mean) / mean * found, margin).pvalue), False


def _still(values: NDArray[np.float64]) -> bool:
    """Whether they differ by rounding alone."""
    return bool(np.ptp(values) < 1e-9)
