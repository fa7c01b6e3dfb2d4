"""Estimates against plain loops over resamples, in which everything is chosen again."""

import numpy as np
import pytest
from scipy import stats

from tests.trajectories import planted
from trajdiag.metrics.attribution import PARTS
from trajdiag.metrics.frontier import exit_depth, right_at
from trajdiag.scoring.stores import ScoreConfig, score_stores

SLACK, EXAMPLES, LOOPS = 0.02, 400, 5


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A store whose margin has few values, so that every threshold is a candidate."""
    rng = np.random.default_rng(0)
    needed = rng.integers(1, 4, EXAMPLES)
    right = (np.arange(1, LOOPS + 1) >= needed[:, None]) ^ (rng.random((EXAMPLES, LOOPS)) < 0.15)
    margin = np.where(right, 4.0, 3.0) + rng.integers(-3, 4, right.shape)
    store = planted(
        tmp_path_factory.mktemp("evaluation") / "coarse.zarr",
        right,
        confidence=margin,
        difficulty=needed.astype(float),
        group=np.arange(EXAMPLES) // 2,
    )
    config = ScoreConfig(
        readouts=("logit_margin",), n_resamples=25, slack=SLACK, targets=(0.7, 0.85, 0.999)
    )
    return store, score_stores([store], config)[0]


def weights(resample, group):
    """[1 + resample, example]: the sample itself, then how often each example is drawn."""
    _, unit = np.unique(group, return_inverse=True)
    drawn = np.concatenate([w for _, w in resample._weights()])[:, unit]
    return np.concatenate([np.ones((1, len(group))), drawn])


def operating_points(store, split):
    """Exit loops [example, point] at every threshold of the margin, and never."""
    values = store.signal("logit_margin", split)
    thresholds = [*np.unique(store.signal("logit_margin", "val")), np.nan]
    exits = exit_depth(values, np.array(thresholds), "high")
    return exits, right_at(store.correct(split), exits)


def rows(scored):
    """For every row: val and test depth and accuracy at every point, and the test weights."""
    store, s = scored
    val, test = (operating_points(store, split) for split in ("val", "test"))
    on_val = weights(s.resamples.val, s.outcomes.val.group)
    on_test = weights(s.resamples.test, s.outcomes.test.group)
    for w_val, w_test in zip(on_val, on_test, strict=True):
        means = [
            np.average(x, axis=0, weights=w) for (d, r), w in ((val, w_val), (test, w_test))
            for x in (d, r)
        ]  # fmt: skip
        final = np.average(store.correct("val")[:, -1], weights=w_val)
        yield w_val, w_test, final, means


def test_the_operating_point_is_chosen_again_in_every_resample(scored):
    e = scored[1].get("logit_margin")
    chosen = set()
    for row, (_, _, final, (val_depth, val_accuracy, depth, accuracy)) in enumerate(rows(scored)):
        reached = val_accuracy >= final - SLACK - 1e-9
        point = int(np.where(reached, val_depth, np.inf).argmin())
        chosen.add(point)
        assert e.estimates["depth@final"][row] == pytest.approx(depth[point])
        assert e.estimates["accuracy@final"][row] == pytest.approx(accuracy[point])
    assert len(chosen) > 1, "resamples choose differently, else this shows nothing"


def test_a_target_that_val_does_not_reach_is_infinitely_deep(scored):
    e = scored[1].get("logit_margin")
    for name, target in (("70", 0.7), ("85", 0.85), ("99.9", 0.999)):
        for row, (_, _, _, (val_depth, val_accuracy, depth, _)) in enumerate(rows(scored)):
            reached = val_accuracy >= target - 1e-9
            point = int(np.where(reached, val_depth, np.inf).argmin())
            expected = depth[point] if reached.any() else np.inf
            assert e.estimates[f"depth@{name}"][row] == pytest.approx(expected)
    assert not e.reached["99.9"] and e.reached["70"]


def test_the_area_follows_the_hull_that_each_resample_s_val_draws(scored):
    store, s = scored
    e = s.get("logit_margin")
    first = {split: store.correct(split)[:, 0] for split in ("val", "test")}
    for row, (w_val, w_test, _, means) in enumerate(rows(scored)):
        at_once = [
            1.0,
            np.average(first["val"], weights=w_val),
            1.0,
            np.average(first["test"], weights=w_test),
        ]
        points = np.array([[a, *m] for a, m in zip(at_once, means, strict=True)])
        hull = [int(np.lexsort((-points[1], points[0]))[0])]
        while True:  # the steepest way up from each vertex
            d, a = points[0] - points[0][hull[-1]], points[1] - points[1][hull[-1]]
            up = np.flatnonzero((a > 1e-12) & (d > 0))
            if not len(up):
                break
            slope = a[up] / d[up]
            best = up[slope >= slope.max() - 1e-12]
            hull.append(int(best[points[0][best].argmax()]))
        depth, accuracy = points[2][hull], points[3][hull]
        under = (np.diff(depth) * (accuracy[1:] + accuracy[:-1]) / 2).sum()
        expected = (under + (LOOPS - depth[-1]) * accuracy[-1]) / (LOOPS - 1)
        assert e.estimates["area"][row] == pytest.approx(expected, abs=1e-6)


def part_of(right, exit_loop):
    """Whose a wrong exit is, from the loops that are right."""
    if right[exit_loop - 1]:
        return "ok"
    if not any(right):
        return "trajectory"
    return "late" if any(right[:exit_loop]) else "early"


def test_shares_are_those_of_the_point_that_each_resample_chooses(scored):
    store, s = scored
    e = s.get("logit_margin")
    exits, _ = operating_points(store, "test")
    correct = store.correct("test")
    parts = np.array(
        [[part_of(right, t) for t in leaves] for right, leaves in zip(correct, exits, strict=True)]
    )
    for row, (_, w_test, final, (val_depth, val_accuracy, _, _)) in enumerate(rows(scored)):
        reached = val_accuracy >= final - SLACK - 1e-9
        point = int(np.where(reached, val_depth, np.inf).argmin())
        expected = [np.average(parts[:, point] == part, weights=w_test) for part in PARTS]
        np.testing.assert_allclose(e.shares[row], expected, atol=1e-6)
        assert e.shares[row].sum() == pytest.approx(1)


def test_drift_is_test_less_val_at_the_threshold_of_the_sample(scored):
    store, s = scored
    e = s.get("logit_margin")
    val, test = (store.signal("logit_margin", split) for split in ("val", "test"))
    depth = [exit_depth(x, e.threshold, "high").mean() for x in (val, test)]
    assert e.drift["depth"][0] == pytest.approx(depth[1] - depth[0])


def test_resamples_of_the_rank_correlation_lie_about_the_exact_value(tmp_path):
    rng = np.random.default_rng(3)
    difficulty = rng.normal(size=EXAMPLES)
    margin = np.arange(LOOPS) - difficulty[:, None] + 0.3 * rng.normal(size=(EXAMPLES, LOOPS))
    store = planted(tmp_path / "smooth.zarr", margin > 1, confidence=margin, difficulty=difficulty)
    s = score_stores([store], ScoreConfig(readouts=("logit_margin",), n_resamples=25))[0]
    e, group = s.get("logit_margin"), s.outcomes.test.group
    leaves, known = e.exits.leaves, s.outcomes.difficulty
    bins = np.searchsorted(np.quantile(known, np.linspace(0, 1, 21)[1:-1]), known, side="right")
    drawn = [np.repeat(np.arange(len(known)), w.astype(int)) for w in
             weights(s.resamples.test, group)]  # fmt: skip
    binned = np.array([stats.spearmanr(leaves[rows], bins[rows]).statistic for rows in drawn])
    exact = stats.spearmanr(leaves, known).statistic
    assert abs(exact - binned[0]) > 1e-4
    np.testing.assert_allclose(e.estimates["spearman"], exact + binned - binned[0], atol=1e-5)
