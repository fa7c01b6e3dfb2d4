"""Nothing is lost but the block being written."""

import errno
import os
import resource
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.store.planted import planted
from tests.store.unfinished import BrokenOff, broken_off, contents, make, written_blocks
from trajdiag.errors import ConfigError, OutOfSpaceError, StoreError
from trajdiag.store import durable
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.journal import JOURNAL
from trajdiag.store.local_folder import LocalFolder
from trajdiag.store.lock import Lock
from trajdiag.store.reader import Store
from trajdiag.store.schema import block_examples, block_specs, trajectory_arrays
from trajdiag.store.shard import WHOLE
from trajdiag.store.writer import StoreWriter

pytestmark = pytest.mark.usefixtures("small_blocks")


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
    with pytest.raises(ConfigError, match="other arrays: hidden, logits or gate_logit "):
        from_arrays(first.path, a.hidden, a.logits, a.target)
    with pytest.raises(ConfigError, match="other arrays: target or another value"):
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


def test_another_process_may_not_overwrite_what_one_writes(tmp_path):
    path = broken_off(tmp_path / "x.zarr", after=2)
    lock = Lock(LocalFolder(path), WHOLE)
    before = contents(path)
    with pytest.raises(StoreError, match=r"another process \(\d+ on .*\) is writing"):
        make(path, overwrite=True)
    assert contents(path) == before
    lock.release()
    assert make(path, overwrite=True).record.complete


def test_foreign_files_are_never_deleted(tmp_path):
    path = make(tmp_path / "x.zarr").path
    (path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match=r"holds what is not trajdiag's: thesis\.tex; move that"):
        make(path, overwrite=True)
    assert (path / "thesis.tex").read_text() == "years of work"


def test_a_store_behind_a_link_is_resumed_and_overwritten_where_it_is(tmp_path):
    elsewhere = tmp_path / "big disk" / "real.zarr"
    elsewhere.mkdir(parents=True)
    link = tmp_path / "x.zarr"
    link.symlink_to(elsewhere)
    broken_off(link, after=2)
    mark = make(link).fingerprint
    assert make(link, overwrite=True).fingerprint == mark
    assert link.is_symlink()
    assert Store.open(elsewhere).fingerprint == mark
    assert [p.name for p in elsewhere.parent.iterdir()] == ["real.zarr"]


@pytest.mark.parametrize("name", ["with spaces.zarr", "ünïcode 層 'quoted'.zarr", "%41#?&*.zarr"])
def test_any_name_will_do(tmp_path, name):
    path = broken_off(tmp_path / name, after=2)
    assert make(path).fingerprint == Store.open(path).fingerprint


def test_a_store_that_moved_is_resumed_where_it_is(tmp_path):
    path = broken_off(tmp_path / "x.zarr", after=2)
    moved = path.rename(tmp_path / "elsewhere.zarr")
    with written_blocks() as blocks:
        store = make(moved)
    assert blocks == [2, 3, 4]
    again = moved.rename(tmp_path / "again.zarr")
    assert Store.open(again).fingerprint == store.fingerprint


def test_a_record_that_was_cut_before_anything_else_was_written_is_begun_again(tmp_path):
    whole = make(tmp_path / "whole.zarr")
    record = (whole.path / "zarr.json").read_bytes()
    for size in (0, 60, len(record) // 2):
        path = tmp_path / f"{size}.zarr"
        path.mkdir()
        (path / "zarr.json").write_bytes(record[:size])
        assert make(path).fingerprint == whole.fingerprint


@pytest.mark.parametrize("key", ["zarr.json", "journal/record.json"])
def test_a_copy_of_the_record_that_was_cut_is_written_again(tmp_path, key):
    path = broken_off(tmp_path / "x.zarr", after=2)
    (path / key).write_bytes((path / key).read_bytes()[:50])
    # the other may be cut next time
    with pytest.raises(BrokenOff), pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoreWriter, "write_block", broken)
        make(path)
    whole = (path / "zarr.json").read_bytes()
    assert whole == (path / "journal" / "record.json").read_bytes()
    assert make(path).fingerprint == make(tmp_path / "whole.zarr").fingerprint


def broken(*_):
    raise BrokenOff


def test_a_file_that_may_not_grow_is_one_line_and_the_next_run_goes_on(tmp_path):
    path = broken_off(tmp_path / "x.zarr", after=2)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(StoreError, match=r"cannot write .*: (File too large|Invalid argument)"):
            make(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(path.rglob("*.partial"))
    assert not list(path.rglob("*.lock"))
    assert make(path).fingerprint == make(tmp_path / "whole.zarr").fingerprint


@pytest.mark.parametrize("call", range(0, 120, 17))
def test_a_disk_that_fills_at_any_write_is_one_line_and_nothing_is_lost(
    tmp_path, monkeypatch, call
):
    path, real, calls = tmp_path / "x.zarr", os.write, []

    def write(descriptor, content):
        calls.append(descriptor)
        if len(calls) > call:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, content)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(OutOfSpaceError, match="no space left while writing"):
            make(path)
    assert not list(path.rglob("*.partial"))
    assert not list(path.rglob("*.lock"))
    whole = make(tmp_path / "whole.zarr")
    assert make(path).fingerprint == whole.fingerprint
    assert contents(path) == contents(whole.path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_in_a_folder_that_may_only_be_read_a_store_opens_and_none_is_written():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        complete = make(folder / "whole.zarr")
        unfinished = broken_off(folder / "half.zarr", after=2)
        os.seteuid(65534)
        try:
            assert make(complete.path).fingerprint == complete.fingerprint
            assert len(Store.open(unfinished, unfinished=True).numpy("hidden")) == 120
            for path in (unfinished, folder / "new.zarr"):
                with pytest.raises(StoreError, match="no permission to write"):
                    make(path)
        finally:
            os.seteuid(0)


def test_readers_see_recorded_blocks_alone_while_a_writer_writes(tmp_path, monkeypatch):
    path, a, seen = tmp_path / "x.zarr", planted(), set()
    real = StoreWriter.write_block

    def slowly(self, block, arrays):
        time.sleep(0.1)
        real(self, block, arrays)

    monkeypatch.setattr(StoreWriter, "write_block", slowly)
    writer = threading.Thread(target=make, args=(path,))
    writer.start()
    while writer.is_alive():
        try:
            store = Store.open(path, unfinished=True)
            rows = store.rows()
            np.testing.assert_array_equal(store.numpy("hidden"), a.hidden.numpy()[rows])
            np.testing.assert_array_equal(store.numpy("logits"), a.logits.numpy()[rows])
            np.testing.assert_array_equal(store.target[rows], a.target.numpy()[rows])
            seen.add(len(rows))
        except StoreError as error:
            assert not seen, error  # refused before its columns are there alone
    writer.join()
    assert len(seen) >= 3
    assert seen <= {0, 60, 120, 180, 240, 300}
    assert len(Store.open(path)) == 300
