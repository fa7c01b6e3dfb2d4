"""Scores of planted stores, against closed forms and brute force."""

import json

import numpy as np
import pytest

from tests.trajectories import planted, solved_from
from trajdiag.errors import ConfigError, StoreError, UnknownNameError
from trajdiag.metrics.frontier import exit_depth, right_at
from trajdiag.readout import list_readouts
from trajdiag.scoring.stores import score


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAJDIAG_CACHE", str(tmp_path / "cache"))


def table(results, store=None):
    """The test row by (readout, metric), of the only store unless told which."""
    return {
        (row.readout, row.metric): row
        for row in results.scores
        if store in (None, row.store) and row.split == "test"
    }


def noisy(path, *, examples=2000, loops=5, seed=0, **options):
    """Examples are solved after 1 to 5 loops, 1 in 10 never, with noisy confidences."""
    rng = np.random.default_rng(seed)
    need = rng.integers(1, loops + 1, examples)
    right = solved_from(np.where(rng.random(examples) < 0.1, 99, need), loops)
    margin = np.where(right, 6.0, 2.0) + rng.normal(0, 1.5, right.shape)
    return planted(path, right, confidence=margin, difficulty=need.astype(float), **options), right


def test_forced_exits_have_the_accuracy_of_each_loop(tmp_path):
    store, _ = noisy(tmp_path / "a.zarr")
    found = table(score(store, n_resamples=50))
    correct = store.correct("test")
    for loop in range(1, 6):
        row = found["fixed", f"accuracy@loop={loop}"]
        assert row.value == pytest.approx(correct[:, loop - 1].mean())
        assert row.low <= row.value <= row.high
        assert row.n == len(correct)
    assert found["fixed", "final_accuracy"].value == pytest.approx(correct[:, -1].mean())
    assert found["fixed", "best_depth"].value == 5


def test_a_perfect_signal_reaches_the_oracle(tmp_path):
    rng = np.random.default_rng(0)
    need = rng.integers(1, 6, 1000)
    right = solved_from(need, 5)
    store = planted(
        tmp_path / "a.zarr",
        right,
        confidence=np.where(right, 4.0, 1.0),
        difficulty=need.astype(float),
    )
    found = table(score(store, n_resamples=50))
    test = need[store.rows("test")]
    assert found["entropy", "depth@final"].value == pytest.approx(test.mean(), rel=0.01)
    assert found["entropy", "accuracy@final"].value == 1.0
    assert found["entropy", "depth@99"].value == pytest.approx(test.mean(), rel=0.01)
    assert found["entropy", "spearman"].value == pytest.approx(1.0)
    first = (test == 1).mean()
    chord = (first + 1) / 2 * (test.mean() - 1) + (5 - test.mean())
    assert found["entropy", "area"].value == pytest.approx(chord / 4, abs=2e-3)
    assert found["oracle", "area"].value >= found["entropy", "area"].value


def test_depth_at_a_target_is_chosen_on_val_and_measured_on_test(tmp_path):
    store, _ = noisy(tmp_path / "a.zarr")
    found = table(score(store, targets=(0.8,), n_resamples=50))
    best, chosen = np.inf, None
    signal, correct = store.signal("entropy", "val"), store.correct("val")
    for threshold in np.unique(signal):
        crossed = np.hstack([signal[:, :-1] <= threshold, np.ones((len(signal), 1), bool)])
        exits = crossed.argmax(axis=1)
        right = correct[np.arange(len(exits)), exits].mean()
        if right >= 0.8 and exits.mean() < best:
            best, chosen = exits.mean(), threshold
    signal, correct = store.signal("entropy", "test"), store.correct("test")
    crossed = np.hstack([signal[:, :-1] <= chosen, np.ones((len(signal), 1), bool)])
    exits = crossed.argmax(axis=1)
    assert found["entropy", "depth@80"].value == pytest.approx(exits.mean() + 1)
    right = correct[np.arange(len(exits)), exits].mean()
    assert found["entropy", "accuracy@80"].value == pytest.approx(right)
    assert found["entropy", "n_reached@80"].value == 1


def test_a_target_that_val_misses_is_counted_and_not_dropped(tmp_path):
    store, _ = noisy(tmp_path / "a.zarr")
    found = table(score(store, n_resamples=50))
    for point in ("99", "99/quantile-grid"):
        row = found["entropy", f"depth@{point}"]
        assert (row.value, row.low, row.high) == (None, None, None)
        assert found["entropy", f"n_reached@{point}"].value == 0
        assert found["entropy", f"n_reached@{point}"].n == 1


def test_the_frontier_is_the_exact_one_with_both_anchors(tmp_path):
    store, _ = noisy(tmp_path / "a.zarr")
    results = score(store, n_resamples=50)
    correct = store.correct("test")
    for readout, signal in (
        ("entropy", -store.signal("entropy", "test")),
        ("hidden_cosine", store.signal("hidden_cosine", "test")),
    ):
        points = [row for row in results.frontier if row.readout == readout]
        assert len(points) <= 200
        assert points[0].depth == 1
        assert points[0].accuracy == pytest.approx(correct[:, 0].mean())
        assert points[-1].depth == 5
        assert points[-1].accuracy == pytest.approx(correct[:, -1].mean())
        for row in points[1:-1:20]:
            assert row.threshold is not None
            threshold = -row.threshold if readout == "entropy" else row.threshold
            crossed = np.hstack([signal[:, :-1] >= threshold, np.ones((len(signal), 1), bool)])
            exits = crossed.argmax(axis=1)
            assert row.depth == pytest.approx(exits.mean() + 1)
            assert row.accuracy == pytest.approx(correct[np.arange(len(exits)), exits].mean())


def test_a_depth_chosen_on_test_is_the_least_of_all_thresholds(tmp_path):
    store, _ = noisy(tmp_path / "a.zarr")
    targets = (0.5, 0.6, 0.65, 0.7, 0.75, 0.999)
    results = score(store, n_resamples=20, targets=targets, readouts=("entropy", "hidden_cosine"))
    found = {
        (row.readout, row.metric): row
        for row in results.scores
        if row.metric.endswith("/test-chosen")
    }
    correct = store.correct("test")
    for readout in (
        r for r in list_readouts(store, gates=()) if r.name in ("entropy", "hidden_cosine")
    ):
        values = readout.values(store, "test")
        thresholds = np.append(np.unique(values[:, :-1]), np.nan)
        exits = exit_depth(values, thresholds, readout.direction, readout.first_loop)
        depth, accuracy = exits.mean(axis=0), right_at(correct, exits).mean(axis=0)
        reached = []
        for target in targets:
            row = found[readout.name, f"depth@{100 * target:g}/test-chosen"]
            least = depth[accuracy >= target - 1e-9].min(initial=np.inf)
            assert row.value == (None if np.isinf(least) else pytest.approx(least, abs=1e-12))
            assert (row.split, row.n) == ("test", len(correct))
            reached.append(row.value)
        assert reached[-1] is None
        assert len({value for value in reached if value is not None}) > 1
    assert {name for name, _ in found} == {"entropy", "hidden_cosine", "fixed"}


def test_every_value_lies_in_its_interval_and_no_readout_beats_hindsight(tmp_path):
    store, _ = noisy(
        tmp_path / "a.zarr", gate_logit=np.random.default_rng(1).normal(size=(2000, 5))
    )
    results = score(store, n_resamples=200)
    found = table(results)
    assert {row.readout for row in results.readouts} >= {"native", "fixed", "oracle", "entropy"}
    for row in results.scores:
        if row.low is not None:
            assert row.low <= row.value <= row.high
    for row in results.readouts:
        assert found[row.readout, "area"].value <= found["oracle", "area"].value + 1e-9


def test_the_profile_is_accuracy_signal_and_exits_by_difficulty(tmp_path):
    store, _ = noisy(tmp_path / "a.zarr")
    results = score(store, n_resamples=50)
    rows = store.rows("test")
    hard = store.difficulty[rows] == 3.0
    found = {(r.readout, r.quantity, r.loop, r.difficulty): r for r in results.profile}
    accuracy = found[None, "accuracy", 4, 3.0]
    assert accuracy.value == pytest.approx(store.correct("test")[hard, 3].mean())
    assert accuracy.n == hard.sum()
    signal = found["entropy", "signal", 2, 3.0]
    assert signal.value == pytest.approx(store.signal("entropy", "test")[hard, 1].mean(), rel=1e-6)
    exits = sum(found["entropy", "exits", loop, 3.0].value for loop in range(1, 6))
    assert exits == pytest.approx(1)
    leaves = sum(t * found["entropy", "exits", t, 3.0].value for t in range(1, 6))
    assert found["entropy", "depth", None, 3.0].value == pytest.approx(leaves)
    for row in results.profile:
        assert row.low <= row.value <= row.high
    assert ("hidden_cosine", "signal", 1, 3.0) not in found


def test_a_threshold_of_the_users_own_is_measured_as_given(tmp_path):
    store, _ = noisy(tmp_path / "a.zarr")
    found = table(score(store, threshold={"entropy": 0.2}, n_resamples=50))
    signal, correct = store.signal("entropy", "test"), store.correct("test")
    crossed = np.hstack([signal[:, :-1] <= 0.2, np.ones((len(signal), 1), bool)])
    exits = crossed.argmax(axis=1)
    assert found["entropy", "depth@threshold"].value == pytest.approx(exits.mean() + 1)
    right = correct[np.arange(len(exits)), exits].mean()
    assert found["entropy", "accuracy@threshold"].value == pytest.approx(right)
    assert found["entropy", "threshold@threshold"].value == 0.2


def test_stores_of_one_task_are_matched_at_the_lowest_final_accuracy(tmp_path):
    good, _ = noisy(tmp_path / "good.zarr", seed=1)
    rng = np.random.default_rng(2)
    right = solved_from(np.where(rng.random(2000) < 0.4, 99, 2), 5)
    poor = planted(
        tmp_path / "poor.zarr", right, confidence=1 + 3 * right + rng.random(right.shape)
    )
    results = score([good, poor], n_resamples=50)
    target = poor.correct("val")[:, -1].mean() - 0.005
    assert results.config["matched"] == {"good": target, "poor": target}
    matched = table(results, "good")["entropy", "accuracy@matched"].value
    assert matched == pytest.approx(target, abs=0.05)


def test_one_example_has_values_but_no_intervals(tmp_path):
    single = planted(
        tmp_path / "single.zarr", np.array([[0, 1], [0, 1]], bool), split=np.array(["val", "test"])
    )
    found = table(score(single, n_resamples=20))
    row = found["fixed", "final_accuracy"]
    assert (row.value, row.low, row.high, row.n) == (1.0, None, None, 1)
    assert found["entropy", "spearman"].value is None
    assert found["oracle", "depth@final"].value == pytest.approx(1.995)


def test_without_difficulties_there_is_no_rank_correlation(tmp_path):
    store = planted(tmp_path / "a.zarr", solved_from(np.arange(60) % 4, 3))
    results = score(store, n_resamples=20)
    assert table(results)["entropy", "spearman"].value is None
    assert {row.difficulty for row in results.profile} == {0.0}


def test_only_the_readouts_asked_for_are_scored_beside_fixed_loops_and_hindsight(tmp_path):
    store = planted(tmp_path / "a.zarr", solved_from(np.arange(60) % 4, 3))
    results = score(store, readouts=("entropy",), n_resamples=20)
    assert [row.readout for row in results.readouts] == [
        "entropy",
        "fixed",
        "oracle",
        "oracle-stays",
        "oracle-loss",
        "oracle-saturation",
    ]


def test_results_are_the_same_bytes_for_the_same_seed(tmp_path):
    store, _ = noisy(tmp_path / "a.zarr", examples=300)
    once, again = (score(store, n_resamples=30).to_json() for _ in range(2))
    assert once == again
    assert json.loads(once)["config"]["n_resamples"] == 30
    assert score(store, n_resamples=30, seed=1).to_json() != once


def test_what_cannot_be_scored_is_refused_in_one_line(tmp_path):
    untested = planted(
        tmp_path / "untested.zarr",
        np.ones((4, 2), bool),
        split=np.array(["fit", "fit", "val", "val"]),
    )
    with pytest.raises(StoreError, match="no test split"):
        score(untested)
    store, _ = noisy(tmp_path / "a.zarr", examples=50)
    with pytest.raises(UnknownNameError, match=r"'entropi', did you mean entropy\? existing: "):
        score(store, readouts=("entropi",))
    why = "native reads the model's own gate, and .* has none"
    with pytest.raises(UnknownNameError, match=f"unknown readout 'native'; existing: .*{why}"):
        score(store, threshold={"native": 1.0})
    with pytest.raises(UnknownNameError, match=f"unknown readout 'native'; existing: .*{why}"):
        score(store, readouts=("native",))
    with pytest.raises(UnknownNameError, match=r"unknown readout 'oracle'.*hindsight is not"):
        score(store, threshold={"oracle": 1.0})
    with pytest.raises(UnknownNameError, match="unknown gate"):
        score(store, gates=("nothing",))
    with pytest.raises(ConfigError, match=r"n_resamples must be from 2 .*, got 1;"):
        score(store, n_resamples=1)
    other, _ = noisy(tmp_path / "b" / "a.zarr", examples=50, seed=3)
    with pytest.raises(ConfigError, match="two stores are named a"):
        score([store, other])
