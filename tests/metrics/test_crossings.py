"""Sums at many thresholds against one exit at a time."""

import numpy as np
import pytest

from trajdiag.metrics.crossings import Crossings
from trajdiag.metrics.frontier import exit_depth, right_at
from trajdiag.metrics.oracle import first_right


def by_hand(values, correct, thresholds, direction, first_loop):
    """Exit loops, right there, and early, [example, threshold] each."""
    loops = correct.shape[1]
    exits = np.full((len(values), len(thresholds)), loops)
    for i, row in enumerate(values):
        for k, threshold in enumerate(thresholds):
            for loop in range(first_loop, loops):
                value = row[loop - 1]
                crossed = value >= threshold if direction == "high" else value <= threshold
                if crossed:
                    exits[i, k] = loop
                    break
    first = first_right(correct)[:, None]
    right = np.take_along_axis(correct, exits - 1, axis=1)
    return exits, right, (exits < first) & (first <= loops)


@pytest.mark.parametrize("direction", ["high", "low"])
@pytest.mark.parametrize("first_loop", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_are_those_of_one_exit_at_a_time(direction, first_loop, dtype):
    rng = np.random.default_rng(first_loop)
    values = np.round(rng.normal(size=(60, 5)), 1).astype(dtype)
    values[rng.random(values.shape) < 0.1] = np.nan
    values[rng.random(values.shape) < 0.05] = np.inf
    values[:, : first_loop - 1] = np.nan
    correct = rng.random((60, 5)) < 0.5
    thresholds = np.concatenate(
        [rng.choice(values[np.isfinite(values)], 9), [np.nan, 0.05, np.inf]]
    )
    unit = np.sort(rng.integers(0, 7, 40))
    _, unit = np.unique(unit, return_inverse=True)
    units, rows = unit.max() + 1, rng.permutation(60)[:40]
    found = Crossings(values, correct, thresholds, direction, first_loop).sums(
        rows, unit, units, early=True
    )
    columns = by_hand(values[rows], correct[rows], thresholds, direction, first_loop)
    expected = np.zeros((units, 3 * len(thresholds)))
    np.add.at(expected, unit, np.concatenate(columns, axis=1))
    np.testing.assert_array_equal(found, expected)


def test_exits_agree_with_the_frontier_s_own():
    rng = np.random.default_rng(4)
    values, correct = rng.normal(size=(300, 6)), rng.random((300, 6)) < 0.5
    thresholds = rng.normal(size=20)
    found = Crossings(values, correct, thresholds, "low", 1).sums(
        np.arange(300), np.zeros(300, int), 1
    )
    exits = exit_depth(values, thresholds, "low")
    np.testing.assert_array_equal(found[0, :20], exits.sum(axis=0))
    np.testing.assert_array_equal(found[0, 20:], right_at(correct, exits).sum(axis=0))


def test_two_loops_and_a_single_example():
    found = Crossings(
        np.array([[1.0, 9.0]]), np.array([[False, True]]), np.array([0.5, 2.0]), "high", 1
    ).sums(np.array([0]), np.array([0]), 1, early=True)
    np.testing.assert_array_equal(found, [[1, 2, 0, 1, 1, 0]])
