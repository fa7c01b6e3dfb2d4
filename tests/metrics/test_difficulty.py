"""Spearman's correlation against scipy, and bins of difficulty."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from trajdiag.metrics.difficulty import difficulty_bins, spearman, spearman_of_table


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
