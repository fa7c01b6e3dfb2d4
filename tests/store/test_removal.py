"""An overwritten store is its remover's from the removal to the last block."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.planted import planted
from trajdiag.errors import BusyError, StoreError
from trajdiag.store import opening
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.local_folder import LocalFolder
from trajdiag.store.lock import Lock, is_lock
from trajdiag.store.opening import existing_record
from trajdiag.store.reader import Store
from trajdiag.store.removal import emptied
from trajdiag.store.shard import WHOLE, Shard

A = planted(examples=24)


def make(path: Path, *, overwrite: bool = False) -> Store:
    return from_arrays(path, A.hidden, A.logits, A.target, split=A.split, overwrite=overwrite)


def files(path: Path) -> list[str]:
    return [key for key in LocalFolder(path).sizes() if not is_lock(key)]


def test_nobody_takes_a_lock_between_the_removal_and_the_writing(tmp_path):
    path = make(tmp_path / "x.zarr").path
    with emptied(LocalFolder(path)) as lock:
        assert files(path) == []
        for shard in (WHOLE, Shard(index=2, count=3)):
            with pytest.raises(BusyError, match=r"another process .* is writing"):
                Lock(LocalFolder(path), shard)
        with pytest.raises(BusyError):
            make(path)
        assert not lock.is_lost
    assert make(path).record.complete
    assert [each.name for each in tmp_path.iterdir()] == ["x.zarr"]


def test_who_reads_the_old_store_is_told_that_it_is_gone(tmp_path):
    old = make(tmp_path / "x.zarr")
    with (
        emptied(LocalFolder(old.path)),
        pytest.raises(StoreError, match="removed, moved or made again since it was opened"),
    ):
        old.numpy("hidden")


def test_where_another_has_begun_a_store_in_the_gap_the_remover_is_the_loser(tmp_path, monkeypatch):
    path = make(tmp_path / "x.zarr").path
    put_aside, others = LocalFolder._discard, []

    def discard(self: LocalFolder) -> None:
        put_aside(self)
        others.append(Lock(LocalFolder(path), WHOLE))

    monkeypatch.setattr(LocalFolder, "_discard", discard)
    with pytest.raises(BusyError, match=r"another process .* is writing"):
        make(path, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["x.zarr"]
    others[0].release()
    assert make(path).record.complete


def test_a_lock_taken_in_a_folder_that_is_put_away_is_taken_again_where_it_belongs(
    tmp_path, monkeypatch
):
    path, aside = make(tmp_path / "x.zarr").path, tmp_path / "aside"
    listed = LocalFolder.sizes

    def sizes(self: LocalFolder) -> dict[str, int]:
        if not aside.exists():
            path.rename(aside)
        return listed(self)

    monkeypatch.setattr(LocalFolder, "sizes", sizes)
    lock = Lock(LocalFolder(path), WHOLE)
    assert files(path) == [] and (path / "journal" / "0-of-1.lock").is_file()
    assert files(aside)
    lock.release()


def test_a_store_that_goes_while_it_is_looked_at_is_none_and_no_stranger(tmp_path, monkeypatch):
    path, read = make(tmp_path / "x.zarr").path, LocalFolder.read

    def gone(self: LocalFolder, key: str) -> bytes:
        if path.exists():
            path.rename(tmp_path / "aside")
        return read(self, key)

    monkeypatch.setattr(LocalFolder, "read", gone)
    assert existing_record(LocalFolder(path)) is None


def test_a_folder_that_never_comes_to_rest_is_refused(tmp_path, monkeypatch):
    (tmp_path / "note.txt").touch()
    names = iter(range(10**6))
    monkeypatch.setattr(opening, "_kept", lambda folder: [f"note{next(names)}.txt"])
    with pytest.raises(StoreError, match="exists and is not a store"):
        existing_record(LocalFolder(tmp_path))


def test_what_a_remover_left_that_was_killed_goes_with_the_next_one(tmp_path):
    path = make(tmp_path / "x.zarr").path
    dead = 2**22 + 1  # beyond every process's number
    mine = LocalFolder(path)._beside("begun").name
    for what in ("begun", "discarded"):
        name = mine.replace(str(os.getpid()), str(dead)).replace("begun", what)
        (tmp_path / name / "journal").mkdir(parents=True)
    make(path, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["x.zarr"]


OVERWRITER = """
import sys
from tests.store.test_removal import make
for _ in range(12):
    try:
        make(sys.argv[1], overwrite=True)
        print("done")
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_of_many_that_overwrite_at_once_the_losers_are_told_that_another_writes(tmp_path):
    path = make(tmp_path / "x.zarr").path
    others = [
        subprocess.Popen(
            [sys.executable, "-c", OVERWRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    told = [line for other in others for line in other.communicate()[0].splitlines()]
    assert len(told) == 36 and "done" in told
    assert {line.split()[0] for line in told} <= {"done", "BusyError"}, told
    assert make(path).record.complete
