"""What further loops do to predictions, on trajectories written out by hand."""

from itertools import permutations, product

import numpy as np
import pytest

from trajdiag.metrics.overthinking import (
    changes,
    destructive,
    destructive_by_luck,
    settled,
)

EVERY = np.array(list(product([False, True], repeat=4)))
"""Every trajectory of four loops."""


def test_destructive_is_right_earlier_and_wrong_at_the_end():
    expected = [any(row[:-1]) and not row[-1] for row in EVERY]
    np.testing.assert_array_equal(destructive(EVERY), expected)


def test_more_loops_will_not_help_where_it_is_right_or_never_will_be():
    expected = [[row[t] or not any(row[t + 1 :]) for t in range(4)] for row in EVERY]
    np.testing.assert_array_equal(settled(EVERY), expected)


def test_changes_are_between_neighbouring_loops():
    predictions = np.array([[3, 1, 1, 2, 0], [4, 4, 1, 1, 1]])
    found = changes(predictions, predictions == 1)
    np.testing.assert_array_equal(found.flipped, [[1, 0, 1, 1], [0, 1, 0, 0]])
    np.testing.assert_array_equal(found.gained, [[1, 0, 0, 0], [0, 1, 0, 0]])
    np.testing.assert_array_equal(found.lost, [[0, 0, 1, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(found.wasted, [[0, 1, 0, 0], [0, 0, 1, 1]])


def test_a_wrong_answer_that_becomes_another_wrong_answer_flips_without_gain_or_loss():
    found = changes(np.array([[2, 3]]), np.array([[False, False]]))
    assert found.flipped.all()
    assert not (found.gained | found.lost | found.wasted).any()


@pytest.mark.parametrize("seed", range(10))
def test_luck_is_the_share_of_permutations_that_meet_an_earlier_loop(seed):
    rng = np.random.default_rng(seed)
    predictions, target = rng.integers(0, 3, (8, 3)), rng.integers(0, 3, 8)
    expected = np.zeros(8)
    for last in range(3):
        members = [i for i in range(8) if predictions[i, -1] == last != target[i]]
        orders = list(permutations(members))
        for order in orders:
            for i, j in zip(members, order, strict=True):
                expected[i] += (target[j] in predictions[i, :-1]) / len(orders)
    np.testing.assert_allclose(destructive_by_luck(predictions, target), expected, atol=1e-12)


def test_two_loops_of_one_example_are_enough():
    assert destructive(np.array([[True, False]])).tolist() == [True]
    assert destructive_by_luck(np.array([[1, 0]]), np.array([1])).tolist() == [1.0]
    assert destructive_by_luck(np.array([[1, 0]]), np.array([0])).tolist() == [0.0]
