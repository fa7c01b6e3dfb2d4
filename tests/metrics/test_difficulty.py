"""Spearman's correlation against scipy, and bins of difficulty."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from trajdiag.metrics.bootstrap import interval
from trajdiag.metrics.difficulty import (
    correlation_of_bins,
    difficulty_bins,
    mean_of_sums,
    means_by_bin,
    rank_correlation,
    rank_correlation_given,
    spearman,
    spearman_of_table,
    sums_by_bin,
)
from trajdiag.metrics.levels import levels_of
from trajdiag.metrics.random_blocks import RandomBlocks


def reference(a, b):
    found: Any = stats.spearmanr(a, b)
    return found.statistic


@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_spearman_agrees_with_scipy(levels):
    rng = np.random.default_rng(levels)
    a = rng.integers(1, 6, 300)
    b = np.round(a + rng.normal(size=300) * 2) % levels
    assert spearman(a, b) == pytest.approx(reference(a, b), abs=1e-12)


def test_a_table_of_weights_agrees_with_scipy_on_the_replicated_sample():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, 100), rng.integers(0, 5, 100)
    weights = rng.integers(0, 4, (3, 100))
    table = np.zeros((3, 4, 5))
    for row in range(3):
        np.add.at(table[row], (a, b), weights[row])
    expected = [reference(np.repeat(a, w), np.repeat(b, w)) for w in weights]
    np.testing.assert_allclose(spearman_of_table(table), expected, atol=1e-12)
    np.testing.assert_allclose(spearman_of_table(table / 100), expected, atol=1e-12)


def test_examples_without_a_difficulty_are_left_out():
    difficulty = np.array([1.0, np.nan, 2.0, 3.0])
    assert spearman(np.array([1, 9, 2, 3]), difficulty) == pytest.approx(1.0)


def test_a_constant_column_has_no_rank_correlation():
    assert np.isnan(spearman(np.ones(5), np.arange(5.0)))
    assert np.isnan(spearman(np.arange(5), np.full(5, np.nan)))
    assert np.isnan(spearman_of_table(np.array([[3.0, 4.0]])))


def test_few_levels_are_their_own_bins():
    bins = difficulty_bins(np.array([3.0, 1.0, np.nan, 3.0]), most=4)
    np.testing.assert_array_equal(bins.code, [1, 0, -1, 1])
    np.testing.assert_array_equal(bins.centre, [1.0, 3.0])


def test_many_levels_become_quantile_bins_of_like_size():
    difficulty = np.random.default_rng(1).exponential(size=1000)
    bins = difficulty_bins(difficulty, most=10)
    assert (np.bincount(bins.code) == 100).all()
    assert (np.diff(bins.centre) > 0).all()
    assert bins.centre[0] == pytest.approx(np.sort(difficulty)[:100].mean())


def test_no_known_difficulty_gives_no_bins():
    bins = difficulty_bins(np.full(3, np.nan), most=4)
    np.testing.assert_array_equal(bins.code, [-1, -1, -1])
    assert len(bins.centre) == 0


def correlations(a, b, given=None, n_resamples=300, group=None):
    blocks = RandomBlocks.deal(np.arange(len(a)) if group is None else group, n_resamples)
    if given is None:
        return rank_correlation(levels_of(a), levels_of(b), blocks)
    return rank_correlation_given(levels_of(a), levels_of(b), given, blocks)


def by_residuals(a, b, given):
    """Correlation of what is left of the ranks after taking off the mean of each class."""
    left = []
    for x in (a, b):
        ranks = stats.rankdata(x)
        means = {c: ranks[given == c].mean() for c in set(given)}
        left.append(ranks - np.array([means[c] for c in given]))
    return np.corrcoef(*left)[0, 1]


@pytest.mark.parametrize("distinct", [3, 1000])
def test_correlations_of_levels_agree_with_scipy_and_with_residuals(distinct):
    rng = np.random.default_rng(distinct)
    b = rng.integers(1, 8, 300).astype(float)
    given = rng.random(300) < b / 10
    a = np.round((rng.normal(size=300) + 0.3 * b - given) * distinct)
    plain, partial = correlations(a, b, given)
    assert plain[0] == pytest.approx(reference(a, b), abs=1e-12)
    assert correlations(a, b)[0] == pytest.approx(reference(a, b), abs=1e-12)
    assert partial[0] == pytest.approx(by_residuals(a, b, given), abs=1e-12)


@pytest.mark.parametrize("always", [True, False])
def test_the_partial_correlation_given_a_constant_is_the_plain_one(always):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=50), rng.normal(size=50)
    plain, partial = correlations(a, b, np.full(50, always))
    np.testing.assert_allclose(plain, partial)


def test_what_correctness_decides_leaves_nothing_to_correlate():
    rng = np.random.default_rng(0)
    for examples in range(5, 40):
        given = np.arange(examples) % 3 == 0
        _, partial = correlations(given * 7.0, rng.normal(size=examples), given)
        assert np.isnan(partial[0])


def test_constant_levels_have_no_correlation():
    assert np.isnan(correlations(np.ones(9), np.arange(9.0))).all()
    assert np.isnan(correlations(np.arange(9.0), np.ones(9), np.arange(9) < 4)[1]).all()


@pytest.mark.parametrize(("hard", "right", "noise"), [(4, 6, 4), (2, 8, 1)])
def test_the_spread_of_a_correlation_is_that_of_ranking_each_resample_anew(hard, right, noise):
    rng = np.random.default_rng(1)
    b = rng.integers(1, 8, 1000).astype(float)
    given = rng.random(1000) < b / 10
    a = np.round(hard * b + noise * rng.normal(size=1000) + right * given)
    plain, partial = correlations(a, b, given, n_resamples=2000)
    anew = []
    for _ in range(600):
        i = rng.integers(0, 1000, 1000)
        anew.append([reference(a[i], b[i]), by_residuals(a[i], b[i], given[i])])
    expected = np.std(anew, axis=0)
    assert plain[1:].std() == pytest.approx(expected[0], rel=0.12)
    assert partial[1:].std() == pytest.approx(expected[1], rel=0.12)


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_intervals_of_a_correlation_hold_the_truth_as_often_as_they_say(rho):
    rng = np.random.default_rng(2)
    truth, held = 6 / np.pi * np.arcsin(rho / 2), 0
    for _ in range(400):
        a, noise = rng.normal(size=(2, 300))
        estimate = correlations(a, rho * a + np.sqrt(1 - rho**2) * noise)
        _, low, high = interval(estimate)
        held += low <= truth <= high
    assert 0.92 <= held / 400 <= 0.98


def test_bins_are_ordered_by_their_means_as_scipy_does():
    rng = np.random.default_rng(3)
    difficulty = rng.integers(1, 9, 400).astype(float)
    difficulty[:20] = np.nan
    values = (
        rng.normal(size=(400, 3)) + np.array([0, 0.1, 0.3]) * np.nan_to_num(difficulty)[:, None]
    )
    values[30:60, 1] = np.inf
    values[:, 2][difficulty == 4] = np.nan
    bins = difficulty_bins(difficulty, most=20)
    blocks = RandomBlocks.deal(np.arange(400), n_resamples=20)
    found = correlation_of_bins(values, bins, blocks)
    for row in range(21):
        i = np.repeat(np.arange(400), blocks.weights[row, blocks.code].astype(int))
        means = means_by_bin(values[i], replace(bins, code=bins.code[i]))
        for loop in range(3):
            of = np.isfinite(means[:, loop])
            expected = reference(bins.centre[of], means[of, loop])
            assert found[row, loop] == pytest.approx(expected, abs=1e-9)


def test_sums_over_parts_of_the_examples_give_the_means_of_all():
    rng = np.random.default_rng(5)
    bins = difficulty_bins(rng.integers(0, 4, 200).astype(float), most=20)
    values = np.where(rng.random((200, 3)) < 0.1, np.nan, rng.integers(0, 9, (200, 3)))
    values[bins.code == 2, 1] = np.inf
    parts = (slice(0, 50), slice(50, 200))
    sums = sum(sums_by_bin(values[at], replace(bins, code=bins.code[at])) for at in parts)
    expected = [
        [np.mean(x[np.isfinite(x)]) if np.isfinite(x).any() else np.nan for x in of_bin.T]
        for of_bin in (values[bins.code == code] for code in range(4))
    ]
    np.testing.assert_allclose(mean_of_sums(sums), expected)


def test_bins_of_equal_mean_tie_and_one_bin_has_no_order():
    blocks = RandomBlocks.deal(np.arange(4), n_resamples=2)
    bins = difficulty_bins(np.array([1.0, 2, 3, 4]), most=20)
    found = correlation_of_bins(np.array([[1.0], [1], [1], [2]]), bins, blocks)
    assert found[0, 0] == pytest.approx(reference([1, 2, 3, 4], [1, 1, 1, 2]))
    single = difficulty_bins(np.full(4, 2.0), most=20)
    assert np.isnan(correlation_of_bins(np.arange(4.0)[:, None], single, blocks)).all()
