"""The hindsight oracle against enumeration of every exit of every example."""

import itertools

import numpy as np
import pytest

from trajdiag.metrics.frontier import right_at
from trajdiag.metrics.oracle import first_right, oracle_depth


def test_the_first_right_loop():
    correct = np.array([[1, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)
    np.testing.assert_array_equal(first_right(correct), [1, 3, 4])


@pytest.mark.parametrize("seed", range(20))
def test_no_choice_of_exits_beats_the_oracle_at_its_depth(seed):
    correct = np.random.default_rng(seed).random((5, 3)) < 0.4
    exits = oracle_depth(correct)
    depth, accuracy = exits.mean(axis=0), right_at(correct, exits).mean(axis=0)
    for choice in itertools.product(range(1, 4), repeat=5):
        reached = np.mean([row[d - 1] for row, d in zip(correct, choice, strict=True)])
        assert reached <= np.interp(np.mean(choice), depth, accuracy) + 1e-12


def test_each_policy_is_one_that_an_oracle_could_choose():
    correct = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0], [0, 0, 1]], dtype=bool)
    np.testing.assert_array_equal(
        oracle_depth(correct), [[1, 2, 2], [1, 1, 1], [1, 1, 1], [1, 1, 3]]
    )


def test_one_loop_leaves_no_choice():
    np.testing.assert_array_equal(oracle_depth(np.array([[True], [False]])), [[1], [1]])
