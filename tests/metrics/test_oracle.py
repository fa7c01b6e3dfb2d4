"""Hindsight against enumeration of every exit of every example."""

import itertools

import numpy as np
import pytest

from trajdiag.metrics.frontier import right_at
from trajdiag.metrics.oracle import (
    first_right,
    hindsight_exits,
    least_loss,
    saturation,
    stays_right,
)


def best_at_each_total(right):
    """The most right answers of all assignments of a loop to each example, by total of loops."""
    examples, loops = right.shape
    best = np.full(examples * loops + 1, -1)
    for choice in itertools.product(range(1, loops + 1), repeat=examples):
        reached = sum(int(row[d - 1]) for row, d in zip(right, choice, strict=True))
        best[sum(choice)] = max(best[sum(choice)], reached)
    return best


def concave_envelope(best, examples):
    """Accuracy at each mean depth of the best mixture of assignments, as a function of it."""
    totals = np.flatnonzero(best >= 0)

    def at(budget):
        within = [t for t in totals if t <= budget + 1e-9]
        beyond = [t for t in totals if t > budget + 1e-9]
        mixtures = [
            best[i] + (best[j] - best[i]) * (budget - i) / (j - i) for i in within for j in beyond
        ]
        return max([best[i] for i in within] + mixtures) / examples

    return at


@pytest.mark.parametrize("seed", range(12))
def test_waiting_for_the_first_right_loop_is_the_best_of_all_assignments(seed):
    correct = np.random.default_rng(seed).random((5, 4)) < 0.35
    exits = hindsight_exits(first_right(correct), 4)
    depth, accuracy = exits.mean(axis=0), right_at(correct, exits).mean(axis=0)
    best = concave_envelope(best_at_each_total(correct), 5)
    for total in range(5, 21):
        assert np.interp(total / 5, depth, accuracy) == pytest.approx(best(total))


@pytest.mark.parametrize("seed", range(12))
def test_waiting_until_it_stays_right_is_the_best_where_only_staying_counts(seed):
    correct = np.random.default_rng(seed).random((5, 4)) < 0.6
    counts = stays_right(correct)
    exits = hindsight_exits(first_right(counts), 4)
    depth, accuracy = exits.mean(axis=0), right_at(counts, exits).mean(axis=0)
    best = concave_envelope(best_at_each_total(counts), 5)
    for total in range(5, 21):
        assert np.interp(total / 5, depth, accuracy) == pytest.approx(best(total))


def test_the_first_right_loop():
    correct = np.array([[1, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)
    np.testing.assert_array_equal(first_right(correct), [1, 3, 4])


@pytest.mark.parametrize("loops", [1, 2, 5])
def test_each_oracle_is_what_a_search_loop_by_loop_finds(loops):
    rng = np.random.default_rng(loops)
    correct = rng.random((300, loops)) < 0.6
    predictions = rng.integers(0, 3, (300, loops))
    cross_entropy = rng.integers(0, 4, (300, loops)) / 4
    stays, least, settled = (
        stays_right(correct),
        least_loss(cross_entropy),
        saturation(predictions),
    )
    for i in range(300):
        for t in range(loops):
            assert stays[i, t] == all(correct[i, u] for u in range(t, loops))
        lowest = min(cross_entropy[i].tolist())
        assert least[i] == 1 + cross_entropy[i].tolist().index(lowest)
        assert settled[i] == min(
            t for t in range(1, loops + 1) if len(set(predictions[i, t - 1 :].tolist())) == 1
        )


def test_what_is_right_early_and_wrong_at_the_end_never_stays_right():
    counts = stays_right(np.array([[True, True, False], [False, True, True]]))
    np.testing.assert_array_equal(first_right(counts), [4, 2])


def test_each_policy_waits_up_to_its_loop_and_leaves_at_once_where_that_does_not_help():
    np.testing.assert_array_equal(
        hindsight_exits(np.array([2, 1, 4, 3]), 3), [[1, 2, 2], [1, 1, 1], [1, 1, 1], [1, 1, 3]]
    )


def test_one_loop_leaves_no_choice():
    depth = first_right(np.array([[True], [False]]))
    np.testing.assert_array_equal(hindsight_exits(depth, 1), [[1], [1]])
