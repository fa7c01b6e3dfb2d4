"""The boosted gate: trees on the signals, their changes and the loop."""

import hashlib
import json

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tests.gates.planted import interaction_store, waiting_store
from trajdiag.errors import GateError
from trajdiag.gates import signal_reader
from trajdiag.gates.gate import Gate, load_gate
from trajdiag.gates.signal_features import SignalFeatures, readable
from trajdiag.signals.registry import SIGNALS
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return interaction_store(tmp_path_factory.mktemp("planted") / "interaction.zarr")


@pytest.fixture(scope="module")
def gate(store) -> Gate:
    return Gate(kind="boosted", objective="correctness").fit(store)


def best_accuracy(values: np.ndarray, right: np.ndarray, budget: float) -> float:
    """Of leaving at the first loop that is at least a threshold, over all that keep the budget."""
    best = 0.0
    for threshold in np.unique(np.quantile(values[np.isfinite(values)], np.linspace(0, 1, 201))):
        crossed = values >= threshold
        crossed[:, -1] = True
        leave = crossed.argmax(1)
        if leave.mean() + 1 <= budget:
            best = max(best, right[np.arange(len(right)), leave].mean())
    return best


@pytest.mark.parametrize("budget", [2.0, 2.5, 3.0])
def test_an_interaction_that_no_signal_shows_is_found(store, gate, budget):
    right = store.correct("test")
    found = best_accuracy(gate.values(store, "test"), right, budget)
    for name in store.signal_names:
        sign = 1 if SIGNALS[name].direction == "high" else -1
        values = np.nan_to_num(sign * store.signal(name, "test"), nan=-np.inf)
        assert found > best_accuracy(values, right, budget) + 0.15, name


def test_a_correctness_gate_is_calibrated_where_the_signals_tell_all(store, gate):
    values, right = gate.values(store, "test"), store.correct("test")
    assert values.shape == right.shape
    assert ((values[:, 1:] > 0) == right[:, 1:]).mean() > 0.93
    assert gate.val_loss_ < 0.5 * gate.baseline_loss_
    assert gate.val_loss_ == pytest.approx(min(gate.history_), rel=1e-9)


def test_soft_utility_labels_are_fitted_as_weighted_rows_of_both_classes(tmp_path):
    # By the best constant's excess over the labels' own entropy: what is left of it is the misfit.
    store, _ = waiting_store(tmp_path / "waiting.zarr")
    gate = Gate(kind="boosted", objective="utility", k=1.0, gamma=0.5).fit(store)
    ce = store.cross_entropy("val")
    go_on = 1 / (1 + np.exp(-(np.maximum(0, ce[:, :-1] - ce[:, 1:]) - 0.5)))
    stop, values = 1 - go_on, gate.values(store, "val")
    log_stay = -np.diff(np.pad(values[:, :-1], ((0, 0), (1, 0))), axis=1)
    loss = -(stop * np.log(-np.expm1(log_stay)) + go_on * log_stay).mean()
    share = stop.mean()
    assert gate.val_loss_ == pytest.approx(loss, rel=1e-6)
    assert -(stop * np.log(stop) + go_on * np.log(go_on)).mean() < loss < gate.baseline_loss_
    assert gate.baseline_loss_ == pytest.approx(
        -share * np.log(share) - (1 - share) * np.log(1 - share), rel=1e-6
    )


def test_the_features_are_values_changes_and_the_loop(tmp_path):
    rng = np.random.default_rng(0)
    store = from_arrays(
        tmp_path / "gated.zarr",
        rng.normal(size=(30, 3, 4)),
        rng.normal(size=(30, 3, 5)),
        rng.integers(0, 5, 30),
        gate_logit=rng.normal(size=(30, 3)),
    )
    names = readable(store)
    assert names == (*store.signal_names, "native")
    found = SignalFeatures(store, "val", names).at(slice(1, 4), range(2, 4))
    series = [store.signal(name, "val") for name in store.signal_names]
    series.append(store.numpy("gate_logit", split="val"))
    for i, example in enumerate(range(1, 4)):
        for j, loop in enumerate((2, 3)):
            value = [float(s[example, loop - 1]) for s in series]
            change = [v - float(s[example, loop - 2]) for v, s in zip(value, series, strict=True)]
            assert np.array_equal(found[i, j], [*value, *change, loop], equal_nan=True)
    first = SignalFeatures(store, "val", names).at(slice(None), range(1, 2))
    assert np.isnan(first[..., len(names) : 2 * len(names)]).all()


def test_noise_is_no_better_than_the_constant(tmp_path):
    rng = np.random.default_rng(1)
    shape = (600, 3)
    store = from_arrays(
        tmp_path / "noise.zarr",
        rng.normal(size=(*shape, 4)),
        rng.normal(size=(*shape, 2)),
        rng.integers(0, 2, 600),
    )
    gate = Gate(kind="boosted", objective="correctness").fit(store)
    assert gate.val_loss_ == pytest.approx(gate.baseline_loss_, rel=0.02)


def test_a_gate_returns_from_its_folder_with_the_same_bits(store, gate, tmp_path):
    folder = gate.save(tmp_path / "gate")
    again = load_gate(folder, store)
    assert np.array_equal(again.values(store, "test"), gate.values(store, "test"))
    again.save(tmp_path / "again")
    for file in ("config.json", "gate.safetensors"):
        assert (tmp_path / "again" / file).read_bytes() == (folder / file).read_bytes()
    content = json.loads((folder / "config.json").read_text())
    assert content["signals"] == list(store.signal_names)


def test_the_same_seed_gives_the_same_trees_whatever_the_threads(store, gate):
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="openmp"):
            again = Gate(kind="boosted", objective="correctness").fit(store)
        assert again.reader_.weights() == gate.reader_.weights()


def test_more_rows_than_are_fitted_on_are_drawn_by_the_seed(store, monkeypatch):
    monkeypatch.setattr(signal_reader, "MOST_ROWS", 1000)
    a, b, c = (
        Gate(kind="boosted", objective="correctness", epochs=2, seed=seed).fit(store)
        for seed in (0, 0, 1)
    )
    assert a.reader_.weights() == b.reader_.weights() != c.reader_.weights()
    assert np.isfinite(a.values(store, "test")).all()


def test_more_passes_than_are_allowed_are_not_made(store):
    gate = Gate(kind="boosted", objective="correctness", epochs=3).fit(store)
    assert len(gate.history_) == 3


def test_a_store_that_lacks_a_signal_is_refused_in_one_line(store, gate, tmp_path):
    config = gate.save(tmp_path / "gate") / "config.json"
    content = json.loads(config.read_text())
    content["signals"][1] = "aura"
    del content["crc32c"]
    config.write_text(json.dumps(content))
    with pytest.raises(GateError, match="interaction lacks aura, which the gate reads") as error:
        load_gate(config.parent, store).values(store, "test")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("damage", ["cut", "short", "names", "foreign"])
def test_a_damaged_gate_is_refused_in_one_line(store, gate, tmp_path, damage):
    folder = gate.save(tmp_path / "gate")
    config, weights = folder / "config.json", folder / "gate.safetensors"
    content = json.loads(config.read_text())
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif damage == "short":
        content["signals"] = content["signals"][:1]
    elif damage == "names":
        content["signals"] = 5
    else:
        other = Gate(kind="linear", epochs=1).fit(store)
        weights.write_bytes(other.reader_.weights())
        content["sha256"] = hashlib.sha256(weights.read_bytes()).hexdigest()
    config.write_text(json.dumps(content))
    with pytest.raises(GateError, match="is damaged: ") as error:
        load_gate(folder, store)
    assert "\n" not in str(error.value)
