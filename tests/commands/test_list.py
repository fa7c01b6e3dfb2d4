"""`trajdiag list`: every name that another verb would take."""

from pathlib import Path

import pytest

from tests.models.hub_cache import snapshot_folder, use_hub
from tests.models.random_ouro import random_decoder
from tests.store.unfinished import broken_off, make
from trajdiag.cachedir import find_store
from trajdiag.cli import main
from trajdiag.errors import StoreError
from trajdiag.models.checkpoint import write_checkpoint
from trajdiag.models.registry import shipped_models
from trajdiag.readout_registry import READOUTS
from trajdiag.tasks.registry import task_names


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    """What stands beside each name."""
    assert main(["list", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    return {name: " ".join(rest) for name, *rest in map(str.split, lines)}


def test_models_tell_where_they_are_without_asking_the_hub(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    use_hub(monkeypatch, tmp_path / "hub")
    write_checkpoint(snapshot_folder(tmp_path / "hub", "ByteDance/Ouro-1.4B"), random_decoder())
    snapshot_folder(tmp_path / "hub", "ByteDance/Ouro-2.6B")  # An empty one is not there.
    write_checkpoint(tmp_path / "checkpoints" / "mine", random_decoder())
    models = listed(capsys, "models", "--cache-dir", str(tmp_path))
    assert {models[name] for name in shipped_models()} == {"shipped"}
    assert models["mine"] == "in the cache"
    assert models["ouro-1.4b"] == "in the hub's cache ByteDance/Ouro-1.4B"
    assert models["ouro-2.6b"] == "on the hub ByteDance/Ouro-2.6B"
    assert models["huginn"] == "on the hub tomg-group-umd/huginn-0125"
    assert "inkling2_loop_text, ouro" in models["FOLDER"]
    assert {"OWNER/NAME", "package.module:Class"} <= models.keys()


def test_stores_tell_which_are_unfinished_and_only_a_complete_one_is_the_newest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    folder = tmp_path / "stores"
    make(folder / "whole.zarr")
    broken_off(folder / "begun.zarr", 0)
    stores = listed(capsys, "stores", "--cache-dir", str(tmp_path))
    assert stores == {
        "begun": f"unfinished {folder / 'begun.zarr'}",
        "whole": f"complete {folder / 'whole.zarr'}",
    }
    assert find_store(None, tmp_path) == folder / "whole.zarr"


@pytest.mark.parametrize(
    "content",
    [
        *(
            b'{"attributes": {"trajdiag": %s}}' % x
            for x in (b'["x"]', b'"x"', b"1", b"null", b"{}")
        ),
        b'{"attributes": ["trajdiag"]}',
        b'{"attributes": "trajdiag"}',
        b'{"attributes": {"trajdiag": {"complete": true}}}',
        b"{}",
        b"[1]",
        b'"x"',
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        None,
    ],
)
def test_a_folder_that_is_no_store_is_not_listed_and_breaks_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes | None
):
    group = tmp_path / "stores" / "foreign.zarr" / "zarr.json"
    group.parent.mkdir(parents=True)
    if content is None:
        group.mkdir()
    else:
        group.write_bytes(content)
    (tmp_path / "stores" / "file.zarr").write_bytes(b"")
    assert listed(capsys, "stores", "--cache-dir", str(tmp_path)) == {}
    with pytest.raises(StoreError, match="no complete store"):
        find_store(None, tmp_path)


def test_tasks_have_a_line_each(capsys: pytest.CaptureFixture[str]):
    tasks = listed(capsys, "tasks")
    assert set(task_names()) < tasks.keys() and all(tasks.values())


def test_readouts_say_when_they_stop_what_they_are_and_where_they_come_from(
    capsys: pytest.CaptureFixture[str],
):
    readouts = listed(capsys, "readouts")
    assert readouts.keys() == READOUTS.keys()
    assert readouts["js"].startswith("stops when low, from loop 2 (KL(p_t || m) + KL(p_{t-1}")
    assert readouts["js"].endswith("arXiv 2605.09165")
    assert readouts["acceleration_twice"].startswith("stops when low, from loop 4 max(a_t, a_{t-1}")
    assert readouts["KIND-previous"].startswith("stops when high, from loop 2")
    assert readouts["KIND-depth"].startswith("stops when low, from loop 1")
    assert readouts["boosted-OBJECTIVE"].startswith("as its objective says")
    assert readouts["bound"].startswith("stops when low, from loop 1")
    assert readouts["oracle-loss"].startswith("in hindsight")
