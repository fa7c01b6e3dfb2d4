"""The frontier from summaries of parts, against the exact one of all examples at once."""

import functools
import operator

import numpy as np
import pytest

from trajdiag.metrics.curve import accuracy_at, area, budget_curve
from trajdiag.metrics.frontier import frontier
from trajdiag.metrics.frontier_summary import summarise, threshold_grid

EXAMPLES = 3000


def continuous(rng, examples, loops):
    return rng.normal(size=(examples, loops)).astype(np.float32)


def drifting(rng, examples, loops):
    return (rng.normal(size=(examples, loops)) + 0.4 * np.arange(loops)).cumsum(axis=1)


def tied(rng, examples, loops):
    return rng.integers(0, 4, (examples, loops)).astype(np.float32)


def saturated(rng, examples, loops):
    return np.tanh(4 * rng.normal(size=(examples, loops))).astype(np.float16).astype(np.float32)


def infinite(rng, examples, loops):
    values = continuous(rng, examples, loops)
    values[rng.random(values.shape) < 0.2] = np.inf
    values[rng.random(values.shape) < 0.2] = -np.inf
    return values


def missing(rng, examples, loops):
    """NaN at first, then here and there."""
    values = continuous(rng, examples, loops)
    values[:, 0] = np.nan
    values[rng.random(values.shape) < 0.1] = np.nan
    return values


def never(rng, examples, loops):
    return np.full((examples, loops), np.nan, np.float32)


def signed_zeros(rng, examples, loops):
    return rng.choice(np.float32([-0.0, 0.0, 1.0]), (examples, loops))


WORLDS = (continuous, drifting, tied, saturated, infinite, missing, never, signed_zeros)


def planted(world, examples=EXAMPLES, loops=6, seed=0):
    rng = np.random.default_rng(seed)
    return world(rng, examples, loops), rng.random((examples, loops)) < 0.3 + 0.5 * (
        np.arange(loops) / loops
    )


def summary_of(values, correct, rule, grid, parts=1):
    """The summary of all examples, added up from parts of unequal sizes."""
    edges = np.sort(np.random.default_rng(1).integers(0, len(values) + 1, parts - 1))
    rows = np.split(np.arange(len(values)), edges)
    return functools.reduce(
        operator.add, (summarise(values[at], correct[at], grid, *rule) for at in rows)
    )


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("direction", ["high", "low"])
@pytest.mark.parametrize("first_loop", [1, 2])
def test_on_a_grid_of_all_records_it_is_the_exact_frontier_to_the_bit(world, direction, first_loop):
    values, correct = planted(world)
    rule = direction, first_loop
    summary = summary_of(values, correct, rule, threshold_grid(values, *rule), parts=7)
    found, exact = summary.frontier(), frontier(values, correct, *rule)
    np.testing.assert_array_equal(found.threshold, exact.threshold)
    np.testing.assert_array_equal(found.depth, exact.depth)
    np.testing.assert_array_equal(found.accuracy, exact.accuracy)
    assert summary.error().depth == summary.error().accuracy == summary.error().area == 0


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("direction", ["high", "low"])
@pytest.mark.parametrize(("examples", "loops"), [(EXAMPLES, 6), (EXAMPLES, 2), (1, 4)])
def test_on_a_coarse_grid_the_exact_frontier_is_within_the_error(world, direction, examples, loops):
    values, correct = planted(world, examples, loops)
    rule = direction, 1
    summary = summary_of(values, correct, rule, threshold_grid(values, *rule, bins=40), parts=3)
    found, exact, error = summary.frontier(), frontier(values, correct, *rule), summary.error()
    at = np.searchsorted(-exact.depth, -found.depth)
    np.testing.assert_array_equal(exact.depth[at], found.depth)
    np.testing.assert_array_equal(exact.accuracy[at], found.accuracy)
    deeper = np.searchsorted(-found.depth, -exact.depth, side="right") - 1
    assert (found.depth[deeper] - exact.depth <= error.depth + 1e-12).all()
    assert (np.abs(found.accuracy[deeper] - exact.accuracy) <= error.accuracy + 1e-12).all()


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("direction", ["high", "low"])
def test_on_a_coarse_grid_the_exact_curve_is_within_the_error(world, direction):
    values, correct = planted(world)
    rule, loops, at_once = (direction, 1), correct.shape[1], correct[:, 0].mean()
    summary = summary_of(values, correct, rule, threshold_grid(values, *rule, bins=40))
    error = summary.error()
    coarse = budget_curve(summary.frontier(), at_once, most=10**6)
    exact = budget_curve(frontier(values, correct, *rule), at_once, most=10**6)
    behind = area(exact.depth, exact.accuracy, loops) - area(coarse.depth, coarse.accuracy, loops)
    assert -1e-12 <= behind <= error.area + 1e-12
    budgets = np.linspace(1, loops, 500)
    reached = accuracy_at(coarse.depth, coarse.accuracy, np.minimum(budgets + error.depth, loops))
    wanted = accuracy_at(exact.depth, exact.accuracy, budgets)
    assert (wanted <= reached + error.accuracy + 1e-12).all()


def test_the_least_depth_for_an_accuracy_is_bracketed():
    values, correct = planted(drifting)
    summary = summary_of(values, correct, ("high", 1), threshold_grid(values, "high", bins=40))
    coarse, exact, error = summary.frontier(), frontier(values, correct, "high"), summary.error()
    for accuracy in np.linspace(coarse.accuracy.min(), coarse.accuracy.max(), 50):
        least = exact.depth[exact.least_depth(accuracy)]
        assert least <= coarse.depth[coarse.least_depth(accuracy)]
        eased = coarse.least_depth(accuracy - error.accuracy)
        assert coarse.depth[eased] <= least + error.depth + 1e-12


def test_the_error_in_depth_is_no_more_than_what_lies_between_two_thresholds():
    values, correct = planted(continuous)
    summary = summary_of(values, correct, ("high", 1), threshold_grid(values, "high", bins=40))
    found, exact = summary.frontier(), frontier(values, correct, "high")
    deeper = np.searchsorted(-found.depth, -exact.depth, side="right") - 1
    furthest = (found.depth[deeper] - exact.depth).max()
    assert furthest > 0.95 * summary.error().depth


def test_ties_cost_nothing():
    values, correct = planted(saturated)
    values[: EXAMPLES // 2, 0] = 1.0
    tied, plain = (
        summary_of(v, correct, ("high", 1), threshold_grid(v, "high", bins=200)).error()
        for v in (values, planted(continuous)[0])
    )
    assert tied.depth < 2 * plain.depth


def test_a_grid_has_as_many_thresholds_as_asked_for_and_each_once():
    values, _ = planted(continuous)
    grid = threshold_grid(values, "high", bins=100)
    assert len(grid) == 100
    assert (np.diff(grid) < 0).all()
    assert len(threshold_grid(planted(tied)[0], "low", bins=100)) == 4


def test_values_beyond_the_grid_count_too():
    values, correct = planted(continuous)
    grid = threshold_grid(values[:50], "low", bins=20)
    summary = summary_of(values, correct, ("low", 1), grid)
    found, exact = summary.frontier(), frontier(values, correct, "low")
    assert found.threshold[-1] == exact.threshold[-1] > grid[-1]
    assert (found.depth[-1], found.accuracy[-1]) == (exact.depth[-1], exact.accuracy[-1])
    assert exact.depth[0] - exact.depth[1] < summary.error().depth


def test_the_order_of_the_parts_does_not_matter():
    values, correct = planted(drifting)
    grid = threshold_grid(values, "high", bins=50)
    parts = [summarise(values[i::7], correct[i::7], grid, "high") for i in range(7)]
    one, other = (functools.reduce(operator.add, order) for order in (parts, parts[::-1]))
    np.testing.assert_array_equal(one.saved, other.saved)
    np.testing.assert_array_equal(one.frontier().accuracy, other.frontier().accuracy)
    assert one.error() == other.error()


def test_summaries_on_other_grids_do_not_add_up():
    values, correct = planted(continuous)
    one, other = (
        summarise(values, correct, threshold_grid(values, "high", bins=bins), "high")
        for bins in (20, 30)
    )
    with pytest.raises(ValueError, match="add up"):
        one + other
