"""Operating points of many resamples: against one row at a time, and against enumeration."""

import numpy as np
import pytest

from trajdiag.metrics.points import Path, Points, pooled, upper_hull


def on_a_grid(rng, rows, points):
    """Depths and accuracies with many ties, exact in binary; point 0 leaves at loop 1."""
    depth = rng.integers(8, 33, (rows, points)) / 8
    depth[:, 0] = 1.0
    return depth, rng.integers(0, 17, (rows, points)) / 16


def hull_by_enumeration(depth, accuracy):
    """(depth, accuracy) of point 0 and of each point that nothing dominates and no segment covers,
    by rising accuracy."""
    n = len(depth)
    found = [(depth[0], accuracy[0])]
    for p in range(1, n):
        dominated = any(
            depth[q] <= depth[p] and accuracy[q] >= accuracy[p]
            for q in range(n)
            if (depth[q], accuracy[q]) != (depth[p], accuracy[p])
        )
        covered = any(
            depth[i] < depth[p] < depth[j]
            and (accuracy[i] - accuracy[p]) * (depth[j] - depth[p])
            + (accuracy[j] - accuracy[p]) * (depth[p] - depth[i])
            >= 0
            for i in range(n)
            for j in range(n)
        )
        if not dominated and not covered:
            found.append((depth[p], accuracy[p]))
    return sorted(set(found))


def drawn(seed, rows=12, points=9):
    """Points whose depths keep their order on test, as those of one readout do."""
    rng = np.random.default_rng(seed)
    depth = np.sort(rng.uniform(1, 5, (2, rows, points)), axis=2)
    depth[:, :, 0] = 1.0
    val_accuracy, accuracy = rng.random((2, rows, points))
    return Points(val_depth=depth[0], val_accuracy=val_accuracy, depth=depth[1], accuracy=accuracy)


def row(points, i):
    return Points(
        val_depth=points.val_depth[i : i + 1],
        val_accuracy=points.val_accuracy[i : i + 1],
        depth=points.depth[i : i + 1],
        accuracy=points.accuracy[i : i + 1],
    )


def test_the_hulls_of_many_rows_are_those_of_each_row():
    rng = np.random.default_rng(0)
    for points in (2, 3, 7, 12):
        depth, accuracy = on_a_grid(rng, 60, points)
        vertices = upper_hull(depth, accuracy)
        for d, a, v in zip(depth, accuracy, vertices, strict=True):
            found = list(zip(d[v], a[v], strict=True))
            distinct = sorted(set(found))
            assert found == distinct + [found[-1]] * (len(found) - len(distinct))
            assert distinct == hull_by_enumeration(d, a)


def test_points_in_any_order_have_the_same_hull():
    rng = np.random.default_rng(1)
    depth, accuracy = on_a_grid(rng, 40, 10)
    shuffled = np.concatenate([[0], 1 + rng.permutation(9)])
    one, other = (
        np.take_along_axis(accuracy[:, order], upper_hull(depth[:, order], accuracy[:, order]), 1)
        for order in (np.arange(10), shuffled)
    )
    np.testing.assert_array_equal(one, other)


def test_one_point_is_its_own_hull():
    np.testing.assert_array_equal(
        upper_hull(np.ones((3, 1)), np.full((3, 1), 0.5)), np.zeros((3, 1))
    )


def test_of_points_at_one_depth_the_best_stays_beside_the_one_that_leaves_at_once():
    depth = np.array([[1.0, 1.0, 1.0, 1.0]])
    accuracy = np.array([[0.25, 0.5, 0.75, 0.5]])
    np.testing.assert_array_equal(upper_hull(depth, accuracy), [[0, 2]])


def test_what_val_chooses_is_read_off_test():
    points = drawn(2)
    path = points.path()
    vertices = upper_hull(points.val_depth, points.val_accuracy)
    for i, v in enumerate(vertices):
        np.testing.assert_array_equal(path.depth[i], points.depth[i, v])
        np.testing.assert_array_equal(path.accuracy[i], points.accuracy[i, v])


def test_each_rows_curve_is_what_the_row_alone_gives():
    points = drawn(3)
    path = points.path()
    budgets = np.linspace(1, 5, 9)
    wanted = np.linspace(0.05, 1.0, 12)
    reached = path.reaching(wanted)
    for i in range(12):
        alone = row(points, i).path()
        dense = np.linspace(1, 5, 400_001)
        mean = np.interp(dense, alone.depth[0], alone.accuracy[0]).mean()
        assert path.area(5)[i] == pytest.approx(mean, abs=1e-5)
        np.testing.assert_allclose(
            path.accuracy_at(budgets)[i], np.interp(budgets, alone.depth[0], alone.accuracy[0])
        )
        alone_reached = alone.reaching(wanted[i : i + 1])
        assert reached.depth[i] == alone_reached.depth[0]
    assert path.val_area(5) == pytest.approx(
        np.interp(np.linspace(1, 5, 400_001), path.val_depth[0], path.val_accuracy[0]).mean(),
        abs=1e-5,
    )


def test_the_mixture_that_reaches_an_accuracy_is_linear_interpolation_of_the_hull():
    points = drawn(4, rows=200)
    path = points.path()
    wanted = np.random.default_rng(5).uniform(0, 1.1, 200)
    reached = path.reaching(wanted)
    missed = 0
    for i, want in enumerate(wanted):
        known = np.flatnonzero(np.diff(path.val_accuracy[i], prepend=-1.0) > 0)
        val_accuracy = path.val_accuracy[i, known]
        if want > val_accuracy[-1]:
            missed += 1
            assert reached.depth[i] == np.inf
            assert np.isnan(reached.accuracy[i])
            continue
        for found, of in ((reached.depth, path.depth), (reached.accuracy, path.accuracy)):
            assert found[i] == pytest.approx(np.interp(want, val_accuracy, of[i, known]))
    assert 0 < missed < 100


def test_an_accuracy_that_differs_by_rounding_alone_is_reached():
    path = Path(
        val_depth=np.array([[1.0, 3.0]]),
        val_accuracy=np.array([[0.2, 0.3]]),
        depth=np.array([[1.0, 2.9]]),
        accuracy=np.array([[0.1, 0.4]]),
    )
    reached = path.reaching(np.array([0.1 + 0.2]))
    assert 0.1 + 0.2 > 0.3
    assert (reached.depth[0], reached.accuracy[0]) == (2.9, 0.4)


def test_the_shallowest_point_is_that_of_a_search_of_all():
    rng = np.random.default_rng(6)
    depth, accuracy = on_a_grid(rng, 300, 6)
    points = Points(val_depth=depth, val_accuracy=accuracy, depth=depth, accuracy=accuracy)
    wanted = rng.integers(0, 18, 300) / 16
    found = points.shallowest(wanted)
    for i, want in enumerate(wanted):
        reaching = [p for p in range(1, 6) if accuracy[i, p] >= want]
        expected = min(reaching, key=lambda p, i=i: (depth[i, p], p)) if reaching else -1
        assert found[i] == expected
    assert (found == -1).any()


def test_the_point_that_leaves_at_once_never_counts_as_reached():
    found = Points(
        val_depth=np.array([[1.0, 2.0], [1.0, 2.0]]),
        val_accuracy=np.array([[0.9, 0.9], [0.9, 0.5]]),
        depth=np.ones((2, 2)),
        accuracy=np.ones((2, 2)),
    ).shallowest(np.array([0.8, 0.8]))
    np.testing.assert_array_equal(found, [1, -1])


def test_points_that_are_taken_keep_their_numbers():
    points = drawn(7)
    columns = np.array([0, 4, 2])
    some = points.take(columns)
    for name in ("val_depth", "val_accuracy", "depth", "accuracy"):
        np.testing.assert_array_equal(getattr(some, name), getattr(points, name)[:, columns])


def test_pooling_keeps_the_common_hull():
    several = [drawn(seed, rows=4, points=30) for seed in range(8, 13)]
    for readout in several:
        readout.val_accuracy[:, 0] = readout.accuracy[:, 0] = 0.1
    every = pooled(several, 5, most=10_000)
    assert every.depth.shape == (4, 150)
    few = pooled(several, 5, most=20)
    assert few.depth.shape == (4, 20)
    assert few.path().val_area(5) == every.path().val_area(5)
    assert few.path().area(5)[0] == every.path().area(5)[0]
    every_area = every.path().val_area(5)
    assert all(readout.path().val_area(5) <= every_area for readout in several)


def test_pooling_drops_repeats_before_the_hull():
    depth, accuracy = np.ones((1, 41)), np.full((1, 41), 0.25)
    depth[0, 40], accuracy[0, 40] = 3.0, 0.75
    points = Points(val_depth=depth, val_accuracy=accuracy, depth=depth, accuracy=accuracy)
    np.testing.assert_array_equal(pooled([points], 3, most=2).depth, [[1.0, 3.0]])


def test_what_pooling_drops_is_farthest_below_the_hull():
    points = Points(
        val_depth=np.array([[1.0, 2.0, 2.0, 2.0, 3.0]]),
        val_accuracy=np.array([[0.0, 0.5, 0.1, 0.4, 0.6]]),
        depth=np.array([[1.0, 2.1, 2.2, 2.3, 3.0]]),
        accuracy=np.array([[0.0, 0.5, 0.1, 0.4, 0.6]]),
    )
    np.testing.assert_array_equal(pooled([points], 3, most=4).depth, [[1.0, 2.1, 2.3, 3.0]])


def test_rows_that_are_undefined_on_either_sample_stay_undefined():
    for side in ("val", "test"):
        points = drawn(13, rows=3)
        depth, accuracy = (
            (points.val_depth, points.val_accuracy)
            if side == "val"
            else (points.depth, points.accuracy)
        )
        whole = points.path().area(5)[0]
        depth[1:] = accuracy[1:] = np.nan
        path = points.path()
        assert path.area(5)[0] == pytest.approx(whole)
        assert np.isnan(path.area(5)[1:]).all()
        assert np.isnan(path.accuracy_at(np.array([1.0, 2.5]))[1:]).all()


def furthest_within(depth, accuracy, budget):
    """Accuracy of the mixture of neighbouring vertices, furthest along a curve, whose mean depth is
    within the budget, by trying many."""
    for vertex in range(len(depth) - 1, 0, -1):
        for weight in np.linspace(1, 0, 4001):
            if (1 - weight) * depth[vertex - 1] + weight * depth[vertex] <= budget + 1e-12:
                return (1 - weight) * accuracy[vertex - 1] + weight * accuracy[vertex]
    return accuracy[0]


def test_rules_that_change_places_on_test_are_mixed_as_val_mixes_them():
    def rule(val_depth, val_accuracy, depth, accuracy):
        return Points(
            val_depth=np.array([val_depth]),
            val_accuracy=np.array([val_accuracy]),
            depth=np.array([depth]),
            accuracy=np.array([accuracy]),
        )

    one = rule([1.0, 2.0, 4.0], [0.2, 0.5, 0.8], [1.0, 3.0, 3.5], [0.2, 0.55, 0.75])
    other = rule([1.0, 3.0, 5.0], [0.2, 0.7, 0.85], [1.0, 2.2, 4.2], [0.2, 0.66, 0.82])
    path = pooled([one, other], loops=5).path()
    np.testing.assert_array_equal(path.depth[0, :5], [1.0, 3.0, 2.2, 3.5, 4.2])
    budgets = np.linspace(1, 5, 33)
    expected = [furthest_within(path.depth[0], path.accuracy[0], b) for b in budgets]
    np.testing.assert_allclose(path.accuracy_at(budgets)[0], expected, atol=5e-4)


def test_a_last_rule_that_is_shallower_on_test_is_taken_as_soon_as_it_is_within_the_budget():
    depth, accuracy = np.array([[1.0, 3.0, 2.0]]), np.array([[0.2, 0.6, 0.8]])
    path = Path(val_depth=depth, val_accuracy=accuracy, depth=depth, accuracy=accuracy)
    found = path.accuracy_at(np.array([1.5, 2.0, 2.5, 3.0, 4.0]))
    np.testing.assert_allclose(found, [[0.3, 0.8, 0.8, 0.8, 0.8]])
