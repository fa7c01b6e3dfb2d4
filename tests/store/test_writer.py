"""Nothing is lost but the block being written."""

import errno
from pathlib import Path

import numpy as np
import pytest

from tests.store.planted import planted
from trajdiag.errors import ConfigError, OutOfSpaceError, StoreError
from trajdiag.store import durable
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.journal import JOURNAL
from trajdiag.store.reader import Store
from trajdiag.store.schema import block_examples, block_specs, trajectory_arrays
from trajdiag.store.writer import StoreWriter

pytestmark = pytest.mark.usefixtures("small_blocks")


def make(path, **options):
    a = planted()
    return from_arrays(path, a.hidden, a.logits, a.target, split=a.split, **options)


def contents(path) -> dict[str, bytes]:
    """Every file but those that hold the time at which the store was begun."""
    return {
        str(p.relative_to(path)): p.read_bytes()
        for p in sorted(path.rglob("*"))
        if p.is_file() and p not in (path / "zarr.json", path / "journal" / "zarr.json")
    }


def break_after(monkeypatch, commits):
    """Let the disk fill up in the middle of the block that follows so many journal lines."""
    lines, real_append, real_write = [], durable.append, durable.write_files

    def append(descriptor, content):
        real_append(descriptor, content)
        lines.append(content)

    def write_files(contents):
        if len(lines) >= commits and any("/c." in str(path) for path in contents):
            raise OutOfSpaceError("no space left; free some space and run the same command again")
        real_write(contents)

    monkeypatch.setattr(durable, "append", append)
    monkeypatch.setattr(durable, "write_files", write_files)


@pytest.mark.parametrize("commits", [0, 1, 3])
def test_a_full_disk_keeps_what_is_complete_and_the_next_run_goes_on(
    tmp_path, monkeypatch, commits
):
    path = tmp_path / "x.zarr"
    with monkeypatch.context() as patch:
        break_after(patch, commits)
        with pytest.raises(OutOfSpaceError, match="free some space and run the same command"):
            make(path)
    assert not list(path.rglob("*.partial"))
    with pytest.raises(StoreError, match="unfinished"):
        Store.open(path)
    whole = make(tmp_path / "whole.zarr")
    assert make(path).fingerprint == whole.fingerprint
    assert contents(path) == contents(whole.path)


def interrupted(path, monkeypatch):
    with monkeypatch.context() as patch:
        break_after(patch, 3)
        with pytest.raises(OutOfSpaceError):
            make(path)


def test_a_torn_journal_line_is_a_block_that_does_not_exist(tmp_path, monkeypatch):
    interrupted(tmp_path / "x.zarr", monkeypatch)
    journal = tmp_path / "x.zarr" / JOURNAL / "0-of-1.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    assert make(tmp_path / "x.zarr").fingerprint == make(tmp_path / "whole.zarr").fingerprint


def test_a_journalled_block_whose_bytes_changed_is_written_again(tmp_path, monkeypatch):
    interrupted(tmp_path / "x.zarr", monkeypatch)
    file = tmp_path / "x.zarr" / "hidden" / "c.0.1.0"
    file.write_bytes(bytes(len(file.read_bytes())))
    assert make(tmp_path / "x.zarr").fingerprint == make(tmp_path / "whole.zarr").fingerprint


def test_the_same_arrays_again_open_the_store_that_is_there(tmp_path):
    first = make(tmp_path / "x.zarr")
    before = (first.path / "zarr.json").stat().st_mtime_ns
    assert make(tmp_path / "x.zarr").fingerprint == first.fingerprint
    assert (first.path / "zarr.json").stat().st_mtime_ns == before


def test_other_arrays_are_refused_and_named_unless_they_may_overwrite(tmp_path):
    first = make(tmp_path / "x.zarr")
    a = planted(seed=1)
    with pytest.raises(ConfigError, match=r"other options: model\.sha256"):
        from_arrays(first.path, a.hidden, a.logits, a.target)
    with pytest.raises(ConfigError, match="other options: columns"):
        make(first.path, group=np.zeros(300, int))
    assert Store.open(first.path).fingerprint == first.fingerprint
    other = from_arrays(first.path, a.hidden, a.logits, a.target, overwrite=True)
    assert other.fingerprint != first.fingerprint
    assert [p.name for p in tmp_path.iterdir()] == ["x.zarr"]


def test_a_foreign_folder_is_never_touched(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(StoreError, match="exists and is not a store"):
            make(tmp_path, overwrite=overwrite)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_only_one_process_writes_a_store(tmp_path, monkeypatch):
    real = StoreWriter.write_block

    def meanwhile(self, block, arrays):
        with pytest.raises(StoreError, match=r"another process \(\d+ on .*\) is writing"):
            make(tmp_path / "x.zarr")
        real(self, block, arrays)

    with monkeypatch.context() as patch:
        patch.setattr(StoreWriter, "write_block", meanwhile)
        make(tmp_path / "x.zarr")


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        make(tmp_path / "file" / "x.zarr")


def test_no_permission_is_one_line(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(StoreError, match="no permission to write"):
        make(tmp_path / "x.zarr")


def test_a_complete_store_holds_nothing_of_its_making(tmp_path):
    store = make(tmp_path / "x.zarr")
    files = {str(p.relative_to(store.path)) for p in store.path.rglob("*") if p.is_file()}
    chunks = {f"{name}/{key}" for name in store.arrays for key in store._spec(name).chunk_keys()}
    metadata = {f"{name}/zarr.json" for name in (*store.arrays, "signal", "journal")}
    assert files == {"zarr.json"} | metadata | chunks


@pytest.mark.parametrize("examples", [1, 15, 64, 65, 100, 4097, 10_000, 50_000, 1_000_000])
def test_blocks_are_even_and_little_is_padding(monkeypatch, examples):
    monkeypatch.undo()
    block = block_examples(examples, 4096)
    blocks = -(-examples // block)
    assert block * 4096 <= 16 * 2**20
    assert block * blocks <= examples * 1.25
    assert blocks == -(-examples // 4096)


def test_chunks_of_a_wide_vocabulary_stay_within_16_mib():
    arrays = trajectory_arrays(d_model=2048, dtype="bfloat16", classes=49152, gate=True)
    specs = block_specs(arrays, examples=1000, loops=4, signals=[])
    assert max(spec.chunk_bytes for spec in specs.values()) <= 16 * 2**20
    assert specs["hidden"].disk_dtype == np.uint16
