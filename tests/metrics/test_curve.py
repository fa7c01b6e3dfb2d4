"""Budget curves: against linear programs, dense grids and hand-made cases."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from trajdiag.metrics.curve import MOST_VERTICES, accuracy_at, area, budget_curve
from trajdiag.metrics.frontier import NEVER, Frontier, exit_depth, frontier, right_at


def points(*pairs):
    """A frontier with these (depth, accuracy), deepest first."""
    depth, accuracy = np.array(pairs, dtype=float).T
    threshold = np.concatenate([[NEVER], np.arange(len(pairs) - 1, 0, -1.0)])
    return Frontier(threshold=threshold, depth=depth, accuracy=accuracy)


def best_randomised(depth, accuracy, budget):
    """The accuracy of the best mixture of operating points of mean depth at most `budget`."""
    ones = np.ones((1, len(depth)))
    solved = linprog(-accuracy, A_ub=[depth], b_ub=[budget], A_eq=ones, b_eq=[1.0])
    return -solved.fun


def test_the_curve_is_the_best_randomised_policy_at_every_budget():
    rng = np.random.default_rng(0)
    for first_loop in (1, 2):
        values, correct = rng.normal(size=(60, 5)), rng.random((60, 5)) < np.linspace(0.2, 0.7, 5)
        found = frontier(values, correct, "high", first_loop)
        curve = budget_curve(found, correct[:, 0].mean())
        depth = np.append(found.depth, 1.0)
        accuracy = np.append(found.accuracy, correct[:, 0].mean())
        budgets = np.linspace(1, 5, 23)
        expected = [best_randomised(depth, accuracy, budget) for budget in budgets]
        np.testing.assert_allclose(
            accuracy_at(curve.depth, curve.accuracy, budgets), expected, atol=1e-9
        )


def test_the_area_is_the_mean_accuracy_over_budgets():
    curve = budget_curve(points((4, 0.9), (3, 0.8), (2, 0.85), (1, 0.1)), leave_at_once=0.1)
    budgets = np.linspace(1, 4, 300_001)
    mean = accuracy_at(curve.depth, curve.accuracy, budgets).mean()
    assert area(curve.depth, curve.accuracy, 4) == pytest.approx(mean, abs=1e-5)


def test_a_budget_need_not_be_spent_on_overthinking():
    curve = budget_curve(points((4, 0.6), (2, 0.8)), leave_at_once=0.4)
    np.testing.assert_array_equal(curve.depth, [1, 2])
    assert area(curve.depth, curve.accuracy, 4) == pytest.approx((0.6 + 0.8 + 0.8) / 3)


def test_a_collapsed_rule_still_has_a_curve_over_all_budgets():
    curve = budget_curve(points((4, 0.9)), leave_at_once=0.3)
    np.testing.assert_array_equal(curve.depth, [1, 4])
    assert np.isnan(curve.threshold[1])
    assert area(curve.depth, curve.accuracy, 4) == pytest.approx(0.6)


def test_one_loop_has_its_accuracy_as_area():
    curve = budget_curve(points((1, 0.7)), leave_at_once=0.7)
    assert area(curve.depth, curve.accuracy, 1) == 0.7
    np.testing.assert_array_equal(accuracy_at(curve.depth, curve.accuracy, np.array([1.0])), [0.7])


def test_several_curves_at_once_are_each_alone():
    rng = np.random.default_rng(1)
    depth, accuracy = np.sort(rng.uniform(1, 5, (3, 4))), np.sort(rng.random((3, 4)))
    budgets = np.array([1.0, 2.5, 5.0])
    together = accuracy_at(depth, accuracy, budgets)
    for row in range(3):
        np.testing.assert_array_equal(
            together[row], accuracy_at(depth[row], accuracy[row], budgets)
        )
        assert area(depth, accuracy, 5)[row] == area(depth[row], accuracy[row], 5)


def test_vertices_chosen_on_one_sample_keep_their_order_on_another():
    rng = np.random.default_rng(2)
    values, correct = rng.normal(size=(400, 6)), rng.random((400, 6)) < np.linspace(0.2, 0.9, 6)
    curve = budget_curve(frontier(values, correct, "low", 2), correct[:, 0].mean())
    other = exit_depth(rng.normal(size=(50, 6)), curve.threshold[1:], "low", 2)
    assert (np.diff(other, axis=1) >= 0).all()


def test_thinning_a_long_hull_costs_hardly_any_area():
    rng = np.random.default_rng(3)
    margin = np.arange(6) - rng.uniform(0, 6, (100_000, 1))
    correct = margin > 0
    confidence = margin + rng.normal(size=(100_000, 6))
    found = frontier(confidence, correct, "high")
    curve = budget_curve(found, correct[:, 0].mean())
    assert len(curve) == MOST_VERTICES
    budgets = np.linspace(1, 6, 101)
    depth, accuracy = np.append(found.depth, 1.0), np.append(found.accuracy, correct[:, 0].mean())
    every = np.argsort(depth, kind="stable")
    full = np.interp(budgets, depth[every], accuracy[every])
    assert (full - accuracy_at(curve.depth, curve.accuracy, budgets)).max() < 2e-3
    exits = exit_depth(confidence, curve.threshold[1:], "high")
    np.testing.assert_allclose(exits.mean(axis=0), curve.depth[1:])
    np.testing.assert_allclose(right_at(correct, exits).mean(axis=0), curve.accuracy[1:])


@pytest.mark.parametrize("most", [2, 3, 8, 33])
def test_a_curve_of_few_vertices_keeps_its_ends_and_what_it_keeps(most):
    rng = np.random.default_rng(5)
    depth = np.sort(rng.uniform(1.5, 6, 200))
    found = points(*zip(depth[::-1], np.sqrt(depth[::-1] - 1) / 3, strict=True))
    every, curve = budget_curve(found, 0.0, most=500), budget_curve(found, 0.0, most=most)
    assert len(every) == 201
    assert len(curve) == most
    at = np.searchsorted(every.depth, curve.depth)
    for name in ("threshold", "depth", "accuracy"):
        np.testing.assert_array_equal(getattr(curve, name), getattr(every, name)[at])
    assert at[0] == 0 and at[-1] == 200
    lost = area(every.depth, every.accuracy, 6) - area(curve.depth, curve.accuracy, 6)
    # The best placed chords of a concave arc lose as the square of their number.
    assert 0 <= lost < 0.25 / (most - 1) ** 2


def test_the_vertex_that_costs_the_least_area_goes_first():
    bent = points((5, 0.9), (4, 0.85), (3, 0.75), (2, 0.5))
    lost = {}
    for left_out in range(1, 4):
        kept = [v for v in range(5) if v != left_out]
        depth, accuracy = np.array([1, 2, 3, 4, 5.0])[kept], np.array([0, 50, 75, 85, 90.0])[kept]
        lost[left_out] = -np.trapezoid(accuracy, depth)
    cheapest = min(lost, key=lambda v: lost[v])
    kept = [v for v in range(5) if v != cheapest]
    np.testing.assert_array_equal(
        budget_curve(bent, 0.0, most=4).depth, np.array([1, 2, 3, 4, 5.0])[kept]
    )


def test_small_curves_are_concave_and_above_every_point():
    levels = [0.0, 0.5, 1.0]
    for accuracies in itertools.product(levels, repeat=4):
        curve = budget_curve(points(*zip([4, 3, 2, 1], accuracies, strict=True)), accuracies[3])
        slopes = np.diff(curve.accuracy) / np.diff(curve.depth)
        assert (slopes > 0).all()
        assert (np.diff(slopes) < 1e-12).all()
        above = accuracy_at(curve.depth, curve.accuracy, np.array([4.0, 3.0, 2.0, 1.0]))
        assert (above >= np.array(accuracies) - 1e-12).all()


def test_accuracy_at_a_budget_agrees_with_interpolation():
    rng = np.random.default_rng(4)
    depth = 1 + np.sort(rng.integers(0, 4, (20, 6)), axis=1).astype(np.float64)
    depth[:, 0] = 1.0
    accuracy = rng.random((20, 6))
    budgets = np.linspace(1.05, 5, 13)
    expected = [np.interp(budgets, *curve) for curve in zip(depth, accuracy, strict=True)]
    np.testing.assert_allclose(accuracy_at(depth, accuracy, budgets), expected)
