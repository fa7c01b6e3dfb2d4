"""Targets of the advantages: what going on brings, by hand and by brute force."""

import numpy as np
import pytest

from trajdiag.bound.stopping import PRICES, mean_value, step_back, targets
from trajdiag.metrics.frontier import exit_depth, right_at


def case(seed=0, examples=200, loops=5, prices=(0.0, 0.1, 0.4)):
    rng = np.random.default_rng(seed)
    advantage = rng.normal(size=(loops - 1, examples, len(prices))).astype(np.float32)
    return advantage, rng.random((examples, loops)) < 0.5, np.array(prices, np.float32)


def test_there_are_at_least_fifteen_prices_and_they_rise():
    assert len(PRICES) >= 15
    assert np.all(np.diff(PRICES) > 0)


def test_the_value_is_accuracy_at_the_exit_less_the_price_of_the_loops_taken_after_the_first():
    advantage, correct, prices = case()
    _, value = targets(advantage, correct, prices)
    for k, price in enumerate(prices):
        with_last = np.concatenate([advantage[:, :, k].T, np.zeros((len(correct), 1))], 1)
        depth = exit_depth(with_last, 0.0, "low")
        expected = right_at(correct, depth) - price * (depth - 1)
        np.testing.assert_allclose(value[:, k], expected, atol=1e-5)
    assert mean_value(advantage, correct, prices, 1) == pytest.approx(value.mean(), abs=1e-6)


def test_a_target_is_the_later_rule_s_value_less_the_price_less_being_right_at_once():
    advantage, correct, prices = case()
    goal, _ = targets(advantage, correct, prices)
    _, from_second = targets(advantage[1:], correct[:, 1:], prices)
    np.testing.assert_allclose(goal[0], from_second - prices - correct[:, :1], atol=1e-6)


def test_the_fitted_value_is_being_right_and_the_advantage_where_it_is_above_0():
    advantage, correct, prices = case()
    right = correct.astype(np.float32)
    goal, _ = targets(advantage, correct, prices)
    for t in range(len(goal)):
        value = step_back(advantage[t], goal[t], right[:, t], forced=False, fitted=1.0)
        expected = right[:, t, None] + np.maximum(advantage[t], 0)
        np.testing.assert_allclose(value, expected, atol=1e-6)


def test_before_the_minimum_depth_a_rule_goes_on_whatever_its_advantage():
    advantage, correct, prices = case()
    advantage[:] = -1
    _, value = targets(advantage, correct, prices, min_depth=3)
    np.testing.assert_allclose(value, correct[:, 2:3] - 2 * prices, atol=1e-6)
