"""Which examples are drawn, and that their verdicts are those that the shares count."""

import numpy as np
import pytest

import trajdiag
from tests.trajectories import planted, solved_from
from trajdiag.diagnosis.examples import draw, verdict
from trajdiag.store.from_arrays import from_arrays

QUICK = {"n_resamples": 20, "bound": ("ridge",)}


def test_a_verdict_is_what_the_loops_before_and_after_the_exit_say():
    correct = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1]], bool)
    leaves = np.array([2, 3, 1, 1, 2])
    assert verdict(correct, leaves).tolist() == ["ok", "late", "trajectory", "early", "early"]


def test_verdicts_are_drawn_from_in_turn_until_none_is_left_and_the_seed_decides():
    verdicts = np.array(["ok"] * 50 + ["late"] * 2 + ["early"] * 3)
    found = verdicts[draw(verdicts, 12, 0)]
    assert found[:3].tolist() == ["early", "late", "ok"]
    assert {part: int((found == part).sum()) for part in ("early", "late", "ok")} == {
        "early": 3,
        "late": 2,
        "ok": 7,
    }
    assert draw(verdicts, 12, 0) == draw(verdicts, 12, 0) != draw(verdicts, 12, 1)
    assert sorted(draw(verdicts, 99, 0)) == list(range(55))


def test_rows_are_what_the_store_holds_for_the_readout_under_diagnosis_and_others(tmp_path):
    right = solved_from(np.random.default_rng(0).integers(1, 5, 300), 4)
    store = planted(tmp_path / "a.zarr", right, seed=1)
    results = trajdiag.diagnose(store, **QUICK)
    place = {name: i for i, name in enumerate(store.ids)}
    predictions, test = store.predictions("test"), store.rows("test")
    assert 12 < len({row.example for row in results.examples}) <= 48
    for row in results.examples:
        at = int(np.flatnonzero(test == place[row.example])[0])
        assert row.predictions == predictions[at].tolist()
        assert (row.target, row.input) == (store.target[place[row.example]], None)
        right_at = row.predictions[row.leaves - 1] == row.target
        assert (row.verdict == "ok") == right_at
    entropy = [row for row in results.examples if row.readout == "entropy"]
    for row in entropy:
        at = int(np.flatnonzero(test == place[row.example])[0])
        assert row.values == pytest.approx(store.signal("entropy", "test")[at])
    kinds = {row.readout: row.kind for row in results.readouts}
    assert {kinds[row.readout] for row in results.examples} == {"signal", "fixed"}


def test_a_long_input_keeps_its_beginning_and_more_of_its_end(tmp_path):
    rng = np.random.default_rng(0)
    texts = np.array([f"start {i} {'x' * 900} end {i}" for i in range(200)])
    store = from_arrays(
        tmp_path / "a.zarr",
        hidden=rng.normal(size=(200, 3, 4)).astype(np.float32),
        logits=rng.normal(size=(200, 3, 4)).astype(np.float32),
        target=rng.integers(0, 4, 200),
        input=texts,
    )
    rows = trajdiag.diagnose(store, **QUICK).examples
    assert rows
    for row in rows:
        whole = str(store.inputs[list(store.ids).index(row.example)])
        head, _, tail = row.input.partition(" … ")
        assert whole.startswith(head) and whole.endswith(tail)
        assert (len(head), len(tail)) == (200, 400)


def test_classes_that_a_store_names_are_named_and_others_are_not(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "hidden": rng.normal(size=(200, 3, 4)).astype(np.float32),
        "logits": rng.normal(size=(200, 3, 4)).astype(np.float32),
        "target": rng.integers(0, 4, 200),
    }
    names = ["north", "east", "south", "west"]
    named = from_arrays(tmp_path / "a.zarr", **arrays, class_names=names)
    rows = trajdiag.diagnose(named, **QUICK).examples
    assert rows
    for row in rows:
        assert row.target_name == names[row.target]
        assert row.prediction_names == [names[p] for p in row.predictions]
    plain = trajdiag.diagnose(from_arrays(tmp_path / "b.zarr", **arrays), **QUICK).examples
    assert {row.target_name for row in plain} == {None}
    assert all(row.prediction_names is None for row in plain)
