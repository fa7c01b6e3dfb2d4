"""A threshold chosen, measured, saved, loaded and applied."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

import trajdiag
from tests.trajectories import planted, solved_from
from trajdiag.deployment.choosing import choose_thresholds
from trajdiag.deployment.readout_file import load_readout
from trajdiag.deployment.saved_readout import ReadoutError
from trajdiag.deployment.targets import NotReachedError, TargetConfig
from trajdiag.errors import ConfigError, FingerprintError, GateError, StoreError, UnknownNameError
from trajdiag.readout_registry import READOUTS
from trajdiag.signals.registry import SIGNALS
from trajdiag.store.reader import Store

EXAMPLES, LOOPS = 600, 4


def store_at(path: Path, *, seed: int = 0, group=None, gate: bool = True) -> Store:
    """Confidence rises as an example is solved, and so does the model's own gate."""
    rng = np.random.default_rng(seed)
    right = solved_from(rng.integers(1, LOOPS + 1, EXAMPLES), LOOPS)
    right ^= rng.random(right.shape) < 0.03
    confidence = np.exp(right + 0.5 * rng.normal(size=right.shape))
    gate_logit = 3.0 * right - 2 + rng.normal(size=right.shape) if gate else None
    return planted(
        path, right, confidence=confidence, gate_logit=gate_logit, group=group, seed=seed
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("deployment")


@pytest.fixture(scope="module")
def store(home):
    found = store_at(home / "stores" / "one.zarr")
    trajdiag.fit_gate(found, kind="linear", epochs=2, cache_dir=str(home))
    return found


def choose(store, readout, home, **options):
    return trajdiag.choose_threshold(store, readout, cache_dir=str(home), **options)


def test_the_numbers_are_those_of_the_exits(store, home):
    chosen = choose(store, "entropy", home, accuracy=0.9, n_resamples=200)
    for split, numbers in (("val", chosen.point.val), ("test", chosen.point.test)):
        values, correct = store.signal("entropy", split), store.correct(split)
        exits = np.array([np.argmax([*(v[:-1] <= chosen.point.threshold), True]) for v in values])
        right = correct[np.arange(len(exits)), exits]
        assert numbers.depth.value == pytest.approx(1 + exits.mean())
        assert numbers.accuracy.value == pytest.approx(right.mean())
        assert numbers.risk.value == pytest.approx((correct[:, -1] & ~right).mean())
        assert numbers.examples == numbers.groups == len(exits)
        np.testing.assert_array_equal(chosen.exit_depth(store, split), exits + 1)
    assert chosen.point.val.accuracy.value >= 0.9
    assert chosen.point.val.accuracy.low is None


def test_intervals_on_test_are_about_as_wide_as_the_standard_error_says(store, home):
    test = choose(store, "top1", home, risk=0.1).point.test
    for number in (test.accuracy, test.risk):
        assert number.low is not None and number.high is not None
        assert number.low <= number.value <= number.high
        error = math.sqrt(number.value * (1 - number.value) / test.examples)
        assert number.high - number.low == pytest.approx(2 * 1.96 * error, rel=0.2)


def test_a_group_counts_once_in_the_risk_however_many_examples_it_has(tmp_path):
    group = np.repeat(np.arange(EXAMPLES // 2), np.tile([1, 2, 3], EXAMPLES // 6))
    store = store_at(tmp_path / "grouped.zarr", group=group)
    chosen = choose(store, "entropy", tmp_path, risk=0.1)
    exits, correct = chosen.exit_depth(store, "test"), store.correct("test")
    lost = correct[:, -1] & ~correct[np.arange(len(exits)), exits - 1]
    of_groups = [lost[store.group[store.rows("test")] == g].mean() for g in np.unique(group[-240:])]
    risk = chosen.point.test.risk
    assert risk.value == pytest.approx(np.mean(of_groups))
    assert risk.low is not None and risk.high is not None
    error = np.std(of_groups) / math.sqrt(len(of_groups))
    assert risk.high - risk.low == pytest.approx(2 * 1.96 * error, rel=0.2)
    assert chosen.point.test.groups == 120
    assert chosen.point.test.examples == 240


@pytest.mark.parametrize(
    "readout", ["entropy", "top1", "logit_change", "native", "fixed", "linear-ponder"]
)
@pytest.mark.parametrize("target", [{"accuracy": 0.8}, {"depth": 3.0}, {"risk": 0.1}])
def test_a_file_gives_back_what_was_saved(store, home, readout: str, target):
    chosen = choose(store, readout, home, **target, n_resamples=50)
    loaded = trajdiag.load_readout(chosen.path)
    assert repr(loaded) == repr(chosen)  # unlike ==, true of two NaN thresholds
    for split in ("val", "test"):
        exits = loaded.exit_depth(store, split)
        np.testing.assert_array_equal(exits, chosen.exit_depth(store, split))
        numbers = getattr(loaded.point, split)
        assert exits.mean() == pytest.approx(numbers.depth.value)


def test_the_same_choice_writes_the_same_bytes_wherever_the_cache_is(tmp_path):
    written = []
    for folder in ("first", "second"):
        store = store_at(tmp_path / folder / "stores" / "mine.zarr")
        home = tmp_path / folder
        trajdiag.fit_gate(store, kind="linear", epochs=1, cache_dir=str(home))
        paths = [choose(store, name, home, risk=0.1).path for name in ("entropy", "linear-ponder")]
        written.append([path.read_bytes() for path in paths])
    assert written[0] == written[1]


def test_each_target_has_a_file_of_its_own(store, home):
    paths = [
        choose(store, "entropy", home, **target, n_resamples=2).path
        for target in (
            {"accuracy": 0.8},
            {"depth": 3},
            {"risk": 0.1},
            {"risk": 0.1, "delta": 0.2},
            {"risk": 0.1, "min_depth": 2},
        )
    ]
    assert [path.name for path in paths] == [
        "entropy--accuracy=0.8.json",
        "entropy--depth=3.json",
        "entropy--risk=0.1-delta=0.05.json",
        "entropy--risk=0.1-delta=0.2.json",
        "entropy--risk=0.1-delta=0.05-from=2.json",
    ]
    assert {path.parent for path in paths} == {home / "readouts" / "one"}


def test_a_readout_file_says_all_that_another_program_needs(store, home):
    content = json.loads(choose(store, "entropy", home, risk=0.1).path.read_text())
    assert (content["name"], content["kind"], content["direction"]) == ("entropy", "signal", "low")
    assert content["formula"] == SIGNALS["entropy"].formula
    assert (content["unit"], content["first_loop"], content["min_depth"]) == ("nats", 1, 1)
    assert (content["target"], content["level"], content["delta"]) == ("risk", 0.1, 0.05)
    assert content["fingerprint"] == store.fingerprint
    assert content["point"]["method"] == "Learn-then-Test, exact binomial"
    assert content["conformal"]["method"] == "conformal risk control"
    content = json.loads(choose(store, "linear-ponder", home, risk=0.1).path.read_text())
    gate = content["gate"]
    assert content["formula"] == READOUTS["KIND-ponder"].formula
    assert gate["folder"] == "../../gates/one/linear-ponder"
    kept = json.loads((home / "gates" / "one" / "linear-ponder" / "config.json").read_text())
    assert gate["sha256"] == kept["sha256"]


def test_nobody_leaves_before_the_minimum_depth(store, home):
    chosen = choose(store, "entropy", home, depth=3.5, min_depth=3)
    exits = {split: chosen.exit_depth(store, split) for split in ("val", "test")}
    assert exits["test"].min() == 3
    assert chosen.point.val.depth.value == pytest.approx(exits["val"].mean())
    assert chosen.point.test.depth.value == pytest.approx(exits["test"].mean())
    assert load_readout(chosen.path).exit_depth(store, "test").min() == 3
    with pytest.raises(ConfigError, match="from 1 to 4, the loops of store one, got 5"):
        choose(store, "entropy", home, depth=3.5, min_depth=5)


def test_a_promise_that_only_the_last_loop_keeps_never_leaves_early(store, home):
    chosen = choose(store, "entropy", home, risk=0.001)
    assert chosen.point.never_leaves
    assert json.loads(chosen.path.read_text())["point"]["threshold"] is None
    loaded = load_readout(chosen.path)
    assert loaded.point.never_leaves
    assert (loaded.exit_depth(store, "test") == LOOPS).all()
    assert loaded.point.test.risk.value == 0


def test_a_signal_chosen_on_one_store_is_applied_to_another(store, home, tmp_path):
    other = store_at(tmp_path / "other.zarr", seed=1)
    chosen = load_readout(choose(store, "top1", home, accuracy=0.9).path)
    values = other.signal("top1", "test")
    expected = np.array([np.argmax([*(v[:-1] >= chosen.point.threshold), True]) for v in values])
    np.testing.assert_array_equal(chosen.exit_depth(other, "test"), expected + 1)


def test_a_store_may_be_named_as_it_may_be_where_the_threshold_is_chosen(store, home, monkeypatch):
    chosen = choose("one", "entropy", home, accuracy=0.9)
    expected = chosen.exit_depth(store, "test")
    for named in ("one", store.path, str(store.path)):
        np.testing.assert_array_equal(chosen.exit_depth(named, "test"), expected)
    elsewhere = dataclasses.replace(chosen, path=Path("one.json"))
    np.testing.assert_array_equal(
        elsewhere.exit_depth("one", "test", cache_dir=str(home)), expected
    )
    monkeypatch.setenv("TRAJDIAG_CACHE", str(home))
    np.testing.assert_array_equal(elsewhere.exit_depth("one", "test"), expected)
    with pytest.raises(UnknownNameError, match=r"unknown store 'another'.*existing: one"):
        chosen.exit_depth("another", "test")


def test_a_file_that_reads_its_gate_the_wrong_way_is_refused(store, home):
    chosen = choose(store, "linear-ponder", home, risk=0.1)
    for change in ({"direction": "low"}, {"first_loop": 2}):
        with pytest.raises(ReadoutError, match="linear-ponder stops when high, from loop 1"):
            dataclasses.replace(chosen, **change).exit_depth(store, "test")


def test_a_gate_is_applied_only_to_the_store_that_it_was_fitted_on(store, home, tmp_path):
    chosen = choose(store, "linear-ponder", home, risk=0.1)
    with pytest.raises(FingerprintError, match="linear-ponder was fitted on store one"):
        chosen.exit_depth(store_at(tmp_path / "other.zarr", seed=1), "test")


def test_a_gate_that_is_fitted_again_no_longer_has_that_threshold(tmp_path):
    store = store_at(tmp_path / "stores" / "mine.zarr")
    options = {"kind": "linear", "epochs": 1, "cache_dir": str(tmp_path)}
    trajdiag.fit_gate(store, **options)
    chosen = choose(store, "linear-ponder", tmp_path, risk=0.1)
    trajdiag.fit_gate(store, **options, seed=5, overwrite=True)
    with pytest.raises(ReadoutError) as refused:
        load_readout(chosen.path).exit_depth(store, "test")
    assert "fitted again" in str(refused.value)
    assert "`trajdiag score mine --readouts linear-ponder --target risk=0.1 --delta 0.05`" in str(
        refused.value
    )


def test_a_cache_that_moved_still_finds_its_gate_and_one_without_it_says_so(tmp_path):
    store = store_at(tmp_path / "old" / "stores" / "mine.zarr")
    trajdiag.fit_gate(store, kind="linear", epochs=1, cache_dir=str(tmp_path / "old"))
    chosen = choose(store, "linear-ponder", tmp_path / "old", risk=0.1)
    expected = chosen.exit_depth(store, "test")
    (tmp_path / "old").rename(tmp_path / "new")
    store = Store.open(tmp_path / "new" / "stores" / "mine.zarr")
    moved = load_readout(tmp_path / "new" / "readouts" / "mine" / chosen.path.name)
    np.testing.assert_array_equal(moved.exit_depth(store, "test"), expected)
    (tmp_path / "new" / "gates").rename(tmp_path / "elsewhere")
    with pytest.raises(GateError, match="no gate at"):
        moved.exit_depth(store, "test")


def test_a_gate_named_by_its_folder_is_found_again(store, home, tmp_path):
    folder = home / "gates" / "one" / "linear-ponder"
    copy = tmp_path / "copied"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    chosen = choose(store, "copied", home, risk=0.1, gates=(str(copy),))
    loaded = load_readout(chosen.path)
    np.testing.assert_array_equal(
        loaded.exit_depth(store, "test"), chosen.exit_depth(store, "test")
    )


def test_a_store_that_lacks_what_is_read_is_named(store, home, tmp_path):
    bare = store_at(tmp_path / "bare.zarr", seed=1, gate=False)
    with pytest.raises(ReadoutError, match="bare has no gate of its model's own"):
        choose(store, "native", home, risk=0.1).exit_depth(bare, "test")
    unknown = dataclasses.replace(choose(store, "entropy", home, risk=0.1), name="surprise")
    with pytest.raises(ReadoutError, match="one has no signal surprise"):
        unknown.exit_depth(store, "test")


def test_of_several_readouts_those_that_cannot_are_named_and_the_others_saved(store, home):
    found, missed = choose_thresholds(
        store,
        ["entropy", "logit_change"],
        TargetConfig(depth=1.5, cache_dir=str(home), n_resamples=2),
    )
    assert [readout.name for readout in found] == ["entropy"]
    assert [str(error) for error in missed] == [
        "no threshold of logit_change has a mean depth of 1.5 loops or less on val; the least is "
        "2.00"
    ]
    with pytest.raises(NotReachedError, match="logit_change"):
        choose(store, "logit_change", home, depth=1.5)


def test_a_readout_that_is_no_rule_or_a_store_without_val_is_refused(store, home, tmp_path):
    for name in ("oracle", "native-expected"):
        with pytest.raises(UnknownNameError, match=f"'{name}'.*reads the gate at later loops"):
            choose(store, name, home, risk=0.1)
    with pytest.raises(UnknownNameError, match="option of choose_threshold"):
        choose(store, "entropy", home, riks=0.1)
    right = solved_from(np.full(30, 2), 3)
    untested = planted(tmp_path / "untested.zarr", right, split=np.repeat("val", 30))
    with pytest.raises(StoreError, match="no test split, which results are reported on"):
        choose(untested, "entropy", home, risk=0.1)
