"""The paper's grids."""

import numpy as np
import pytest

from trajdiag.metrics.quantile_grid import hazard_thresholds, logit_thresholds, quantile_thresholds


def test_the_grid_is_51_quantiles_from_half_a_percent_up():
    values = np.arange(1001, dtype=np.float32).reshape(-1, 1)
    found = quantile_thresholds(values)
    assert len(found) == 51
    assert found[0] == pytest.approx(5.0)
    assert found[25] == pytest.approx(500.0)
    assert found[-1] == pytest.approx(995.0)


def test_values_that_cannot_be_used_are_left_out():
    values = np.array([[9e9, 1.0, np.nan], [9e9, 1.0, np.inf]])
    np.testing.assert_array_equal(quantile_thresholds(values, first_loop=2), np.ones(51))
    assert len(quantile_thresholds(np.full((3, 2), np.nan))) == 0


def test_a_gate_is_thresholded_at_1_to_100_percent():
    np.testing.assert_allclose(1 - np.exp(-hazard_thresholds()), np.arange(1, 101) / 100)
    np.testing.assert_allclose(1 / (1 + np.exp(-logit_thresholds())), np.arange(1, 101) / 100)
