"""`trajdiag show`: what a store holds."""

import json

import pytest

from tests.store.planted import planted
from trajdiag.cli import main
from trajdiag.signals.tracker import KEPT
from trajdiag.store.from_arrays import from_arrays


@pytest.fixture
def store(tmp_path):
    arrays = planted(loops=3)
    (tmp_path / "stores").mkdir()
    return from_arrays(
        tmp_path / "stores" / "mine.zarr", arrays.hidden, arrays.logits, arrays.target
    )


def test_signals_are_told_apart_by_whether_they_are_kept(store, capsys):
    assert main(["show", str(store.path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    kept, derived = (
        next(line for line in lines if line.startswith(label)).removeprefix(label).strip()
        for label in ("signals kept", "signals derived")
    )
    assert kept == ", ".join(KEPT)
    assert derived == (
        "energy, entropy_change, kl_previous_current, min_p_kl, js, vote_share, acceleration"
    )


def test_json_names_them_too(store, capsys):
    assert main(["show", str(store.path), "--json"]) == 0
    signals = json.loads(capsys.readouterr().out)["signals"]
    assert signals["kept"] == list(KEPT)
    assert set(signals["kept"] + signals["derived"]) == set(store.signal_names)
