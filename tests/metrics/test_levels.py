"""Distinct values, their mid-ranks and their bins, on columns written out by hand."""

import numpy as np
import pytest
from scipy.stats import rankdata

from trajdiag.metrics.levels import levels_of, quantile_bin


def test_a_score_that_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        levels_of(np.array([1.0, np.nan]))


def test_levels_run_from_most_to_least_ready_with_mid_ranks():
    levels = levels_of(np.array([1.0, 5.0, 1.0, -np.inf]))
    np.testing.assert_array_equal(levels.code, [1, 0, 1, 2])
    np.testing.assert_array_equal(levels.counts, [1, 2, 1])
    np.testing.assert_allclose(levels.ranks(), [0, -0.375, 0, 0.375])
    ranks = rankdata([1.0, 5.0, 1.0, -9.0])
    np.testing.assert_allclose(levels.ranks(), (ranks.mean() - ranks) / 4)
    part = levels.of(np.array([True, True, False, True]))
    np.testing.assert_array_equal(part.counts, [1, 1, 1])


def test_bins_are_of_like_size_and_part_no_level():
    even = quantile_bin(np.ones(1000, int), 10)
    np.testing.assert_array_equal(np.bincount(even), np.full(10, 100))
    heavy = quantile_bin(np.array([1, 1, 96, 1, 1]), 4)
    np.testing.assert_array_equal(heavy, [0, 0, 2, 3, 3])
    np.testing.assert_array_equal(quantile_bin(np.array([9, 1]), 4), [0, 1])
