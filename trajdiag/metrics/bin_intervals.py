"""Intervals of means over bins of examples that come in groups."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.difficulty import Bins, means_by_bin

Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Low and high, [bin, column] each; NaN where there is no interval."""


@dataclass(frozen=True, kw_only=True)
class _Spread:
    """Of one column, by bin."""

    n: NDArray[np.float64]
    """Its examples."""
    groups: NDArray[np.float64]
    square: NDArray[np.float64]
    """sum over examples of (value - mean)^2."""
    grouped: NDArray[np.float64]
    """sum over groups of (sum over its examples of value - mean)^2."""


class BinIntervals:
    """Intervals for bins of the same examples. A group's examples count as one draw: what they
    have in common widens the interval."""

    def __init__(self, bins: Bins, group: NDArray[np.integer], confidence: float) -> None:
        """`group` [example]; `confidence` is the coverage."""
        self._bins = bins
        self._known = bins.code >= 0
        width = max(len(bins.centre), 1)
        _, number = np.unique(group, return_inverse=True)
        pairs = number.astype(np.int64) * width + np.maximum(bins.code, 0)
        self._cells, self._cell = np.unique(pairs[self._known], return_inverse=True)
        self._cell_bin = self._cells % width
        self._z = NormalDist().inv_cdf(0.5 + confidence / 2)

    def of_means(self, values: NDArray[np.generic]) -> Bounds:
        """Of means of `values` [example, column], which need not be finite: mean -+ z x the
        cluster-robust standard error sqrt(G / (G - 1) sum_g S_g^2) / n, where S_g sums a group's
        distances from the mean (Liang and Zeger, Biometrika 1986)."""
        means = means_by_bin(values, self._bins)
        low, high = np.full_like(means, np.nan), np.full_like(means, np.nan)
        for column in range(means.shape[1]):
            s = self._spread(values[:, column], means[:, column])
            enough = s.groups > 1
            factor = s.groups / np.where(enough, s.groups - 1, 1)
            error = np.sqrt(factor * s.grouped) / np.maximum(s.n, 1)
            half = np.where(enough, self._z * error, np.nan)
            low[:, column], high[:, column] = means[:, column] - half, means[:, column] + half
        return low, high

    def of_shares(self, values: NDArray[np.bool_]) -> Bounds:
        """Of shares of `values` [example, column]: Wilson's score interval (JASA 1927) for as many
        examples as would be worth as much without groups, n sum_i e_i^2 / sum_g S_g^2; where all
        agree, as many as there are groups."""
        means = means_by_bin(values, self._bins)
        low, high = np.full_like(means, np.nan), np.full_like(means, np.nan)
        z = self._z
        for column in range(means.shape[1]):
            s, p = self._spread(values[:, column], means[:, column]), means[:, column]
            agree = s.grouped <= 1e-12
            worth = np.where(agree, s.groups, s.n * s.square / np.where(agree, 1, s.grouped))
            worth = np.minimum(worth, s.n)  # groups that even out are no reason to be surer
            n = np.where(worth > 0, worth, np.nan)
            centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
            half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
            # Where all agree an end is the share itself, which rounding would put beside it.
            low[:, column] = np.minimum(np.maximum(centre - half, 0), p)
            high[:, column] = np.maximum(np.minimum(centre + half, 1), p)
        return low, high

    def _spread(self, values: NDArray[np.generic], means: NDArray[np.float64]) -> _Spread:
        code, width = self._bins.code[self._known], len(self._bins.centre)
        numbers = values[self._known].astype(np.float64)
        finite = np.isfinite(numbers)
        off = np.where(finite, numbers - means[code], 0.0)
        by_cell = np.bincount(self._cell, weights=off, minlength=len(self._cells))
        there = np.bincount(self._cell, weights=finite, minlength=len(self._cells)) > 0

        def binned(weights: NDArray[np.generic]) -> NDArray[np.float64]:
            of = weights.astype(np.float64)
            return np.bincount(self._cell_bin, weights=of, minlength=width).astype(np.float64)

        return _Spread(
            n=np.bincount(code, weights=finite, minlength=width).astype(np.float64),
            groups=binned(there),
            square=np.bincount(code, weights=off**2, minlength=width).astype(np.float64),
            grouped=binned(by_cell**2),
        )
