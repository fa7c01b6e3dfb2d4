"""Signals that a store does not keep come from its states and logits, once, in little memory."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
import torch

from tests.store.planted import planted
from trajdiag.errors import NonFiniteError
from trajdiag.signals.registry import KEPT, SIGNALS
from trajdiag.signals.tracker import compute_signals
from trajdiag.store import derived_signals
from trajdiag.store.derived_signals import derive_signals
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store

pytestmark = pytest.mark.usefixtures("small_blocks")


def made(path, arrays, split=None) -> Store:
    return from_arrays(
        path,
        arrays.hidden,
        arrays.logits,
        arrays.target,
        split=arrays.split if split is None else split,
    )


@pytest.mark.parametrize("loops", [2, 3, 4, 5])
def test_a_store_gives_every_signal_that_its_loops_define(tmp_path, loops):
    store = made(tmp_path / "x.zarr", planted(loops=loops))
    defined = tuple(name for name, signal in SIGNALS.items() if signal.first_loop <= loops)
    assert store.signal_names == defined
    assert store.kept_signals == KEPT
    assert {name for name in store.arrays if name.startswith("signal/")} == {
        f"signal/{name}" for name in KEPT
    }
    for name in defined:
        assert not np.isnan(store.signal(name, "val")).all(), name


def test_what_is_derived_is_what_would_have_been_kept_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(derived_signals, "_PIECE", 90)
    store = made(tmp_path / "x.zarr", planted(loops=5))
    for split in store.splits:
        again = derive_signals(store, KEPT, split)
        for name in KEPT:
            np.testing.assert_array_equal(again[name], store.signal(name, split), err_msg=name)


def test_splits_that_lie_anywhere_are_derived_in_store_order(tmp_path):
    arrays = planted(loops=5)
    split = np.random.default_rng(1).choice(["fit", "val", "test"], 300)
    store = made(tmp_path / "x.zarr", arrays, split)
    expected = compute_signals(arrays.hidden, arrays.logits)
    for name in store.signal_names:
        np.testing.assert_array_equal(store.signal(name, "test"), expected[name][split == "test"])
        np.testing.assert_array_equal(store.signal(name), expected[name])


def test_all_that_is_derived_of_a_split_is_computed_together_and_once(tmp_path, monkeypatch):
    store = made(tmp_path / "x.zarr", planted(loops=5))
    asked = []

    def counting(store, names, split):
        asked.append((split, tuple(names)))
        return derive_signals(store, names, split)

    monkeypatch.setattr(derived_signals, "derive_signals", counting)
    first = store.signal("js", "test")
    first[:] = 0  # a caller's copy is the caller's
    assert store.signal("js", "test")[:, 1:].min() > 0
    store.signal("acceleration", "test")
    store.signal("entropy", "val")
    missing = tuple(name for name in SIGNALS if name not in KEPT)
    assert asked == [("test", missing)]
    store.signal("energy")
    assert [split for split, _ in asked] == ["test", "fit", "val"]


def test_nothing_is_derived_on_opening(tmp_path, monkeypatch):
    path = made(tmp_path / "x.zarr", planted(loops=5)).path

    def never(*_):
        raise AssertionError("derived too early")

    monkeypatch.setattr(derived_signals, "derive_signals", never)
    store = Store.open(path)
    assert "acceleration_twice" in store.signal_names
    store.signal("entropy", "test")


def test_a_state_that_changed_to_nan_is_named(tmp_path):
    path = made(tmp_path / "x.zarr", planted(loops=5)).path
    chunk = path / "hidden" / "c.0.2.0"
    values = np.fromfile(chunk, np.float32)
    values[0] = np.nan
    values.tofile(chunk)
    with pytest.raises(NonFiniteError, match="hidden of example 00000000 at loop 3"):
        Store.open(path).signal("energy", "fit")


def test_deriving_holds_no_copy_of_the_states(tmp_path):
    def peak(examples):
        arrays = planted(examples=examples, loops=5, d_model=512)
        store = made(tmp_path / f"{examples}.zarr", arrays, ["test"] * examples)
        tracemalloc.start()
        store.signal("acceleration", "test")
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(20)
    a_copy = 5 * 512 * 4
    assert (peak(6000) - peak(2000)) / 4000 < 0.05 * a_copy


def test_signals_of_values_near_float32s_limit_are_finite_kept_and_derived(tmp_path):
    arrays = planted(loops=5)
    limit = 3.4e38
    rng = np.random.default_rng(0)
    for name in ("hidden", "logits"):
        values = 3e38 * rng.normal(size=getattr(arrays, name).shape)
        values = np.clip(values, -limit, limit).astype(np.float32)
        arrays = dataclasses.replace(arrays, **{name: torch.from_numpy(values)})
    store = made(tmp_path / "x.zarr", arrays)
    for name in store.signal_names:
        found = store.signal(name, "test")[:, SIGNALS[name].first_loop - 1 :]
        assert np.isfinite(found).all(), name
