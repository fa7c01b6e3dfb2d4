"""The luck of trajectories in closed form, against every permutation there is."""

from itertools import permutations

import numpy as np
import pytest

from trajdiag.metrics.luck import null_first_right


def over_all_permutations(predictions, target):
    """The mean over all permutations of each set of wrong examples with one last prediction."""
    examples, loops = predictions.shape
    expected = np.zeros((examples, loops))
    sets = {}
    for i in range(examples):
        if predictions[i, -1] == target[i]:
            expected[i, list(predictions[i]).index(target[i])] = 1
        else:
            sets.setdefault(predictions[i, -1], []).append(i)
    for members in sets.values():
        orders = list(permutations(members))
        for order in orders:
            for i, j in zip(members, order, strict=True):
                met = [t for t in range(loops) if predictions[i, t] == target[j]]
                if met:
                    expected[i, met[0]] += 1 / len(orders)
    return expected


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("loops", [1, 2, 4])
def test_it_is_the_mean_over_all_permutations(seed, loops):
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(2, 5))
    predictions = rng.integers(-1, classes, (9, loops))
    target = rng.integers(-1, classes, 9)
    found = null_first_right(predictions, target)
    np.testing.assert_allclose(found, over_all_permutations(predictions, target), atol=1e-12)


def test_examples_right_at_the_end_keep_their_first_right_loop():
    found = null_first_right(np.array([[2, 1, 2], [1, 1, 1], [0, 0, 2]]), np.array([2, 1, 2]))
    np.testing.assert_array_equal(found, [[1, 0, 0], [1, 0, 0], [0, 0, 1]])


def test_a_lone_wrong_example_keeps_its_own_target():
    found = null_first_right(np.array([[3, 3, 1], [0, 0, 0]]), np.array([3, 0]))
    np.testing.assert_array_equal(found, [[1, 0, 0], [1, 0, 0]])


def test_guesses_are_all_luck_and_the_null_is_as_often_right_as_they_are():
    rng = np.random.default_rng(0)
    predictions, target = rng.integers(0, 4, (40_000, 4)), rng.integers(0, 4, 40_000)
    by_luck = null_first_right(predictions, target).sum(axis=1).mean()
    assert by_luck == pytest.approx(1 - 0.75**4, abs=0.01)
    assert by_luck == pytest.approx((predictions == target[:, None]).any(axis=1).mean(), abs=0.01)


def test_right_answers_that_are_lost_count_as_luck_no_more_often_than_guesses_would():
    rng = np.random.default_rng(1)
    target = rng.integers(0, 5, 20_000)
    predictions = np.stack([target, (target + rng.integers(1, 5, 20_000)) % 5], axis=1)
    assert null_first_right(predictions, target).sum(axis=1).mean() == pytest.approx(
        1 / 4, abs=0.01
    )


def test_large_vocabularies_and_small_integers_are_counted_alike():
    rng = np.random.default_rng(2)
    predictions, target = rng.integers(0, 5, (200, 3)), rng.integers(0, 5, 200)
    expected = null_first_right(predictions, target)
    small = null_first_right(predictions.astype(np.uint8), target.astype(np.int8))
    spread = null_first_right(predictions * 10_000 + 9_000, target * 10_000 + 9_000)
    np.testing.assert_array_equal(small, expected)
    np.testing.assert_array_equal(spread, expected)


def test_no_examples_give_no_rows():
    assert null_first_right(np.zeros((0, 4), int), np.zeros(0, int)).shape == (0, 4)
