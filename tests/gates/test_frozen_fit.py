import shutil

import numpy as np
import pytest

from tests.gates.planted import planted_store
from trajdiag.errors import ConfigError, StoreError, UnknownNameError
from trajdiag.gates import descent
from trajdiag.gates.frozen_fit import fit_gate
from trajdiag.gates.gate import Gate, load_gate
from trajdiag.store.folder import open_folder
from trajdiag.store.inspection import inspect

QUICK = {"kind": "linear", "epochs": 2}


@pytest.fixture
def store(tmp_path):
    return planted_store(tmp_path / "stores" / "planted.zarr", signal=2.0)[0]


def test_a_fitted_gate_lies_in_the_cache_under_its_stores_name(store, tmp_path):
    gate = fit_gate("planted", cache_dir=str(tmp_path), **QUICK)
    folder = tmp_path / "gates" / "planted" / "linear-ponder"
    assert np.array_equal(load_gate(folder, store).values(store, "val"), gate.values(store, "val"))


def test_the_newest_store_is_taken_when_none_is_named(store, tmp_path):
    assert fit_gate(cache_dir=str(tmp_path), **QUICK).store_ == "planted"


def test_an_unknown_store_lists_those_that_exist(store, tmp_path):
    with pytest.raises(UnknownNameError, match="existing: planted"):
        fit_gate("other", cache_dir=str(tmp_path))


def test_frozen_means_that_not_a_byte_of_the_store_changes(store, tmp_path):
    before = {p: p.stat().st_mtime_ns for p in store.path.rglob("*")}
    fit_gate(store, cache_dir=str(tmp_path), **QUICK)
    assert not inspect(open_folder(store.path)).damage
    assert {p: p.stat().st_mtime_ns for p in store.path.rglob("*")} == before


def test_a_place_that_cannot_be_written_is_told_before_anything_is_fitted(
    store, tmp_path, monkeypatch
):
    monkeypatch.setattr(Gate, "fit", lambda *_: pytest.fail("fitted"))
    (tmp_path / "gates").touch()
    with pytest.raises(StoreError, match=r"cannot write .*linear-ponder: Not a directory"):
        fit_gate(store, cache_dir=str(tmp_path), **QUICK)


def test_fitting_the_same_gate_again_loads_it(store, tmp_path):
    said = []
    first = fit_gate(store, cache_dir=str(tmp_path), **QUICK)
    again = fit_gate(store, cache_dir=str(tmp_path), progress=said.append, **QUICK)
    assert again.history_ == first.history_
    assert said == ["gate linear-ponder of store planted is fitted already"]


def test_another_config_under_the_same_name_lists_what_differs(store, tmp_path):
    fit_gate(store, cache_dir=str(tmp_path), **QUICK)
    with pytest.raises(ConfigError, match=r"beta \(.* -> 0\.7\); choose another --name"):
        fit_gate(store, cache_dir=str(tmp_path), beta=0.7, **QUICK)
    assert fit_gate(store, cache_dir=str(tmp_path), beta=0.7, overwrite=True, **QUICK)
    other = fit_gate(store, cache_dir=str(tmp_path), beta=0.2, name="other", **QUICK)
    assert other.name == "other"


def test_a_gate_of_a_store_that_was_made_anew_is_not_taken_for_its_own(store, tmp_path):
    fit_gate(store, cache_dir=str(tmp_path), **QUICK)
    shutil.rmtree(store.path)
    anew = planted_store(store.path, signal=2.0, seed=3)[0]
    with pytest.raises(ConfigError, match="fingerprint"):
        fit_gate(anew, cache_dir=str(tmp_path), **QUICK)


def test_the_recorded_command_names_every_option_that_is_not_the_default(store, tmp_path):
    gate = fit_gate(store, cache_dir=str(tmp_path), kind="linear", epochs=2, beta=0.25)
    assert gate.commands == [
        f"trajdiag fit-gate planted --kind linear --beta 0.25 --epochs 2 --cache-dir {tmp_path}"
    ]


@pytest.mark.parametrize(("epochs", "told"), [(1, [1]), (7, [1, 2, 4, 7]), (8, [1, 2, 4, 8])])
def test_few_passes_are_told_the_last_among_them(store, tmp_path, epochs, told):
    said = []
    options = {"kind": "linear", "epochs": epochs, "patience": 100, "cache_dir": str(tmp_path)}
    gate = fit_gate(store, progress=said.append, **options)
    assert len(gate.history_) == epochs
    assert [line.partition(":")[0] for line in said[:-1]] == [f"pass {n}" for n in told]
    assert said[-2] == f"pass {epochs}: val loss {gate.history_[-1]:.5f} nats"
    assert "without the states" in said[-1]


def test_slow_passes_are_told_all(store, tmp_path, monkeypatch):
    monkeypatch.setattr(descent, "LONGEST_SILENCE", 0.0)
    said = []
    fit_gate(
        store, progress=said.append, kind="linear", epochs=7, patience=100, cache_dir=str(tmp_path)
    )
    assert [line.partition(":")[0] for line in said[:-1]] == [f"pass {n}" for n in range(1, 8)]


def test_trees_are_fitted_named_and_loaded_like_networks(store, tmp_path):
    options = {"kind": "boosted", "objective": "depth", "epochs": 2, "cache_dir": str(tmp_path)}
    said = []
    gate = fit_gate(store, progress=said.append, **options)
    assert gate.name == "boosted-depth"
    assert said[0].startswith("20 trees: val loss ") and said[0].endswith(" loops squared")
    assert "without the signals" in said[-1]
    again = fit_gate(store, progress=said.append, **options)
    assert said[-1] == "gate boosted-depth of store planted is fitted already"
    assert np.array_equal(again.values(store, "test"), gate.values(store, "test"))
