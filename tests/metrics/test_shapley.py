"""The two-by-two swap on tables whose answer is known, and against the average over orders."""

import itertools

import numpy as np
import pytest

from trajdiag.metrics.shapley import swap


def test_a_table_worked_by_hand():
    # trajectory first: +10, then the readout +20; readout first: +5, then the trajectory +25
    found = swap(np.array([[0.60, 0.65], [0.70, 0.90]]))
    assert found.trajectory == pytest.approx((0.10 + 0.25) / 2)
    assert found.readout == pytest.approx((0.20 + 0.05) / 2)
    assert found.interaction == pytest.approx(0.15)
    assert found.total == pytest.approx(0.30)


def test_what_differs_in_one_thing_only_is_that_things():
    by_trajectory = swap(np.array([[0.2, 0.2], [0.7, 0.7]]))
    assert (by_trajectory.readout, by_trajectory.interaction) == (0.0, 0.0)
    assert by_trajectory.trajectory == pytest.approx(0.5)
    by_readout = swap(np.array([[0.2, 0.7], [0.2, 0.7]]))
    assert (by_readout.trajectory, by_readout.interaction) == (0.0, 0.0)
    assert by_readout.readout == pytest.approx(0.5)


def test_what_only_works_together_is_shared_equally():
    found = swap(np.array([[0.0, 0.0], [0.0, 1.0]]))
    assert (found.trajectory, found.readout, found.interaction) == (0.5, 0.5, 1.0)


def test_shares_are_the_mean_over_both_orders_and_sum_in_every_resample():
    value = np.random.default_rng(0).normal(size=(500, 2, 2))
    found = swap(value)
    steps = np.zeros((500, 2))
    for order in itertools.permutations((0, 1)):
        state = [0, 0]
        for player in order:
            before = value[:, state[0], state[1]]
            state[player] = 1
            steps[:, player] += (value[:, state[0], state[1]] - before) / 2
    np.testing.assert_allclose(found.trajectory, steps[:, 0])
    np.testing.assert_allclose(found.readout, steps[:, 1])
    np.testing.assert_array_equal(found.trajectory + found.readout, found.total)
    np.testing.assert_allclose(found.total, value[:, 1, 1] - value[:, 0, 0])


def test_an_undefined_resample_is_undefined_in_every_part():
    value = np.zeros((2, 2, 2))
    value[1, 0, 1] = np.nan
    found = swap(value)
    assert np.isnan(found.total[1]) and np.isnan(found.interaction[1])
    assert found.total[0] == 0


def test_a_table_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="2, 2"):
        swap(np.zeros((3, 2)))
