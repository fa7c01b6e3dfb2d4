"""`trajdiag show`: what a store holds."""

import json

import pytest

from tests.store.planted import planted
from tests.store.unfinished import broken_off, flip
from trajdiag.cli import main
from trajdiag.signals.registry import KEPT
from trajdiag.store import schema
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


@pytest.fixture
def half(tmp_path, monkeypatch):
    """A store of which 2 of 5 blocks are there."""
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", 64)
    return broken_off(tmp_path / "half.zarr", after=2)


def test_what_is_missing_of_an_unfinished_store_is_listed(half, capsys):
    assert main(["show", str(half)]) == 0
    assert "unfinished: 3 of 5 blocks are missing: 2-4" in capsys.readouterr().out
    assert main(["show", str(half), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["blocks"] == {"all": 5, "missing": [2, 3, 4]}


def test_a_gate_cannot_be_fitted_on_an_unfinished_store(half, capsys):
    assert main(["fit-gate", str(half)]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert f"store {half} is unfinished; run the command that began it again" in line


def test_verify_says_that_all_is_as_it_was_written(store, capsys):
    assert main(["show", str(store.path), "--verify"]) == 0
    size = sum(p.stat().st_size for p in store.path.rglob("*") if p.is_file())
    assert (
        f"all {size:,} bytes of the 1 recorded blocks are what was written"
        in capsys.readouterr().err
    )


def test_verify_names_what_is_damaged_and_what_is_foreign(store, capsys):
    flip(store.path / "hidden" / "c.0.1.0")
    (store.path / "my notes.txt").write_text("do not lose this")
    assert main(["show", str(store.path), "--verify"]) == 1
    out, err = capsys.readouterr()
    assert out == "hidden/c.0.1.0 has changed since it was written\n"
    assert "not trajdiag's, left alone: my notes.txt" in err
    assert "1 damaged; run what made it again, which makes just their blocks anew" in err


def test_verify_of_an_unfinished_store_names_torn_lines(half, capsys):
    journal = half / "journal" / "0-of-1.jsonl"
    journal.write_bytes(journal.read_bytes()[:-5])
    assert main(["show", str(half), "--verify"]) == 1
    assert capsys.readouterr().out == "journal/0-of-1.jsonl has 1 torn or changed lines\n"
