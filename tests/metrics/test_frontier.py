"""The exact frontier against brute force over every threshold."""

import numpy as np
import pytest

from trajdiag.metrics.frontier import NEVER, Frontier, exit_depth, frontier, right_at, thin


def leave(row, threshold, direction, first_loop):
    """One example's exit loop, as the definition reads."""
    for loop in range(first_loop, len(row)):
        value = row[loop - 1]
        if (value >= threshold) if direction == "high" else (value <= threshold):
            return loop
    return len(row)


def brute_force(values, correct, direction, first_loop):
    """The set of (depth, accuracy) that the thresholds make, one threshold at a time."""
    points = []
    for threshold in [NEVER, *np.unique(values[~np.isnan(values)])]:
        depth = [leave(row, threshold, direction, first_loop) for row in values]
        right = [row[d - 1] for row, d in zip(correct, depth, strict=True)]
        points.append((np.mean(depth), np.mean(right)))
    return sorted(set(points))


def signal(kind, rng, shape):
    values = rng.normal(size=shape)
    if kind == "tied":
        values = np.round(values)
    if kind == "saturated":
        values = np.minimum(values, 0.2)
    if kind == "constant":
        values = np.zeros(shape)
    if kind == "signed zeros":
        values = np.where(rng.random(shape) < 0.5, -0.0, 0.0)
    if kind == "infinite":
        values = np.where(values > 0.5, np.inf, np.where(values < -0.5, -np.inf, values))
    if kind == "with NaN":
        values = np.where(rng.random(shape) < 0.3, np.nan, np.round(values, 1))
    if kind == "all NaN":
        values = np.full(shape, np.nan)
    return values


KINDS = [
    "continuous",
    "tied",
    "saturated",
    "constant",
    "signed zeros",
    "infinite",
    "with NaN",
    "all NaN",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("direction", ["high", "low"])
def test_every_threshold_gives_the_point_that_brute_force_gives(kind, dtype, direction):
    rng = np.random.default_rng(KINDS.index(kind))
    for examples, loops, first_loop in [
        (1, 1, 1),
        (1, 1, 2),
        (5, 2, 2),
        (1, 4, 1),
        (13, 5, 1),
        (9, 6, 2),
    ]:
        values = signal(kind, rng, (examples, loops)).astype(dtype)
        correct = rng.random((examples, loops)) < 0.5
        found = frontier(values, correct, direction, first_loop)
        points = sorted(zip(found.depth, found.accuracy, strict=True))
        expected = brute_force(values, correct, direction, first_loop)
        np.testing.assert_allclose(points, expected, rtol=0, atol=1e-12)
        for threshold, depth, accuracy in zip(
            found.threshold, found.depth, found.accuracy, strict=True
        ):
            exits = exit_depth(values, float(threshold), direction, first_loop)
            assert np.mean(exits) == pytest.approx(depth, abs=1e-12)
            assert np.mean(right_at(correct, exits)) == pytest.approx(accuracy, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", ["high", "low"])
def test_exit_depth_is_the_first_loop_that_crosses(kind, direction):
    rng = np.random.default_rng(KINDS.index(kind))
    values = signal(kind, rng, (40, 5)).astype(np.float32)
    thresholds = np.array([NEVER, -np.inf, -1.0, 0.0, 0.2, np.inf])
    found = exit_depth(values, thresholds, direction, first_loop=2)
    expected = [[leave(row, thr, direction, 2) for thr in thresholds] for row in values]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("direction", ["high", "low"])
def test_a_threshold_between_points_gives_the_deeper_point(direction):
    rng = np.random.default_rng(0)
    values, correct = np.round(rng.normal(size=(50, 4)), 1), rng.random((50, 4)) < 0.5
    found = frontier(values, correct, direction)
    thresholds = np.array([NEVER, *np.linspace(-3, 3, 41), found.threshold[3]])
    depths = exit_depth(values, thresholds, direction).mean(axis=0)
    np.testing.assert_allclose(found.depth[found.at(thresholds, direction)], depths)


def test_nothing_is_gained_or_lost_by_the_order_of_the_examples():
    rng = np.random.default_rng(1)
    values, correct = rng.normal(size=(30, 6)).astype(np.float32), rng.random((30, 6)) < 0.5
    order = rng.permutation(30)
    one, other = frontier(values, correct, "low"), frontier(values[order], correct[order], "low")
    np.testing.assert_array_equal(one.accuracy, other.accuracy)
    np.testing.assert_array_equal(one.threshold, other.threshold)


def test_the_least_depth_is_the_shallowest_point_that_reaches_the_accuracy():
    found = Frontier(
        threshold=np.array([NEVER, 3.0, 2.0, 1.0]),
        depth=np.array([4.0, 3.0, 2.0, 1.0]),
        accuracy=np.array([0.9, 0.95, 0.9, 0.5]),
    )
    assert found.least_depth(0.9) == 2
    assert found.least_depth(0.95) == 1
    assert found.least_depth(0.96) is None


def test_thinning_keeps_both_ends():
    rng = np.random.default_rng(2)
    found = frontier(rng.normal(size=(500, 4)), rng.random((500, 4)) < 0.5, "high")
    few = thin(found, 20)
    assert len(few) <= 20
    assert few.depth[0] == 4
    assert few.depth[-1] == 1
    assert thin(few, 20) is few


def test_the_records_are_the_points_more_accurate_than_all_shallower_ones():
    rng = np.random.default_rng(3)
    found = frontier(np.round(rng.normal(size=(80, 5)), 1), rng.random((80, 5)) < 0.5, "low")
    expected = [
        i
        for i in range(len(found))
        if all(found.accuracy[i] > found.accuracy[j] for j in range(i + 1, len(found)))
    ]
    assert 2 < len(expected) < len(found)
    assert found.records().tolist() == expected


def rising(examples, loops=5):
    """Values that are higher where right, and more are right at later loops."""
    rng = np.random.default_rng(4)
    right = rng.random((examples, loops)) < np.linspace(0.3, 0.9, loops)
    return frontier(right + rng.normal(size=right.shape), right, "high")


def test_thinning_misses_no_point_that_is_the_shallowest_to_reach_an_accuracy():
    found = rising(150)
    few = thin(found, 150)
    assert len(few) <= 150 < len(found)
    assert len(found.records()) <= 100
    for accuracy in np.unique(found.accuracy):
        exact = min(d for d, a in zip(found.depth, found.accuracy, strict=True) if a >= accuracy)
        point = few.least_depth(float(accuracy))
        assert point is not None
        assert few.depth[point] == exact
    # and what lies between is drawn too
    assert -np.diff(few.depth).min() < 4 / 40


def test_more_records_than_fit_are_thinned_by_depth():
    found = rising(3000)
    assert len(found.records()) > 198
    few = thin(found, 198)
    assert 100 < len(few) <= 198
    assert (few.depth[0], few.depth[-1]) == (found.depth[0], found.depth[-1])
    assert (np.diff(few.depth) < 0).all()
    exact = set(zip(found.threshold[1:], found.depth[1:], found.accuracy[1:], strict=True))
    assert exact.issuperset(zip(few.threshold[1:], few.depth[1:], few.accuracy[1:], strict=True))


def test_an_unknown_direction_and_an_empty_sample_are_refused():
    with pytest.raises(ValueError, match="direction"):
        frontier(np.zeros((1, 2)), np.zeros((1, 2), bool), "up")
    with pytest.raises(ValueError, match="example"):
        frontier(np.zeros((0, 2)), np.zeros((0, 2), bool), "high")
