"""Intervals of bins against scipy, a regression's closed form, and simulation."""

import numpy as np
import pytest
from scipy import stats

from trajdiag.metrics.bin_intervals import BinIntervals
from trajdiag.metrics.difficulty import difficulty_bins


def test_shares_of_single_examples_have_wilsons_interval():
    rng = np.random.default_rng(0)
    difficulty = rng.integers(0, 4, 300).astype(float)
    right = rng.random((300, 3)) < [0.1, 0.9, 1.0]
    bins = difficulty_bins(difficulty, 40)
    low, high = BinIntervals(bins, np.arange(300), 0.9).of_shares(right)
    for b, column in np.ndindex(low.shape):
        of = right[difficulty == b, column]
        wanted = stats.binomtest(int(of.sum()), len(of)).proportion_ci(0.9, method="wilson")
        assert (low[b, column], high[b, column]) == pytest.approx((wanted.low, wanted.high))


def test_examples_that_repeat_each_other_count_once():
    rng = np.random.default_rng(1)
    right = rng.random((50, 1)) < 0.7
    bins, twice = difficulty_bins(np.zeros(50), 40), difficulty_bins(np.zeros(100), 40)
    once = BinIntervals(bins, np.arange(50), 0.95)
    copied = BinIntervals(twice, np.repeat(np.arange(50), 2), 0.95)
    numbers = rng.normal(size=(50, 1))
    for one, other in (
        (once.of_shares(right), copied.of_shares(np.repeat(right, 2, axis=0))),
        (once.of_means(numbers), copied.of_means(np.repeat(numbers, 2, axis=0))),
    ):
        assert np.allclose(one, other)


def test_means_have_the_cluster_robust_error_and_leave_out_what_is_not_finite():
    rng = np.random.default_rng(2)
    group, difficulty = rng.integers(0, 12, 80), rng.integers(0, 2, 80).astype(float)
    values = rng.normal(size=(80, 2))
    values[rng.random((80, 2)) < 0.2] = np.nan
    difficulty[:5] = np.nan
    low, high = BinIntervals(difficulty_bins(difficulty, 40), group, 0.95).of_means(values)
    for b, column in np.ndindex(low.shape):
        here = (difficulty == b) & np.isfinite(values[:, column])
        x, g = values[here, column], group[here]
        sums = [(x[g == k] - x.mean()).sum() for k in np.unique(g)]
        error = np.sqrt(len(sums) / (len(sums) - 1) * np.sum(np.square(sums))) / len(x)
        half = stats.norm.ppf(0.975) * error
        assert (low[b, column], high[b, column]) == pytest.approx(
            (x.mean() - half, x.mean() + half)
        )


def test_one_group_tells_nothing_of_a_mean():
    bins = difficulty_bins(np.zeros(5), 40)
    low, high = BinIntervals(bins, np.zeros(5, int), 0.95).of_means(np.arange(5.0)[:, None])
    assert np.isnan([low, high]).all()


def test_intervals_of_grouped_shares_cover_as_often_as_they_say():
    rng, held = np.random.default_rng(3), 0
    bins, group = difficulty_bins(np.zeros(240), 40), np.repeat(np.arange(60), 4)
    for _ in range(400):
        chance = rng.beta(4, 2, 60)
        right = rng.random(240) < np.repeat(chance, 4)
        low, high = BinIntervals(bins, group, 0.95).of_shares(right[:, None])
        held += low[0, 0] <= 4 / 6 <= high[0, 0]
    assert 0.92 <= held / 400 <= 0.98
