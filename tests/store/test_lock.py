"""One living process writes a block; a dead one stops nobody."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trajdiag.errors import BusyError
from trajdiag.store import lock as lock_module
from trajdiag.store.local_folder import LocalFolder
from trajdiag.store.lock import Lock, remove_dead_locks
from trajdiag.store.partial import host_name
from trajdiag.store.shard import WHOLE, Shard

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys
from pathlib import Path
from trajdiag.store.local_folder import LocalFolder
from trajdiag.store.lock import Lock
from trajdiag.store.shard import Shard
held = Lock(LocalFolder(Path(sys.argv[1])), Shard.named(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    return LocalFolder(tmp_path / "x.zarr")


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed after 0.5 seconds."""
    monkeypatch.setattr(lock_module, "SILENCE", 0.5)
    monkeypatch.setattr(lock_module, "BEAT", 0.05)


def shard(name: str) -> Shard:
    found = Shard.named(name)
    assert found is not None
    return found


@contextmanager
def held(folder: LocalFolder, name: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of a shard until it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder.path), name],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def write_lock(folder: LocalFolder, name: str, content: object) -> Path:
    path = folder.path / "journal" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@contextmanager
def beating_elsewhere(folder: LocalFolder, name: str) -> Iterator[None]:
    """A process of another machine, to which this one's kernel says nothing."""
    done = threading.Event()

    def beat() -> None:
        count = 1
        while not done.is_set():
            os.pwrite(descriptor, json.dumps({**holder, "beat": count}).encode(), 0)
            count += 1
            time.sleep(0.02)

    holder = {"host": "elsewhere", "pid": 1234, "id": 1}
    path = write_lock(folder, name, {**holder, "beat": 0})
    descriptor = os.open(path, os.O_RDWR)
    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        os.close(descriptor)


def test_the_second_process_is_told_who_the_first_is(folder):
    with held(folder, "0-of-1") as process:
        who = rf"another process \({process.pid} on {host_name()}\) is writing .*x\.zarr; wait"
        with pytest.raises(BusyError, match=who) as error:
            Lock(folder, WHOLE)
    assert "\n" not in str(error.value)
    assert "`trajdiag extract` share the work, each with its --shards N" in str(error.value)


def test_a_killed_holder_stops_nobody(folder):
    with held(folder, "0-of-1") as process:
        process.kill()
        process.wait()
        assert (folder.path / "journal" / "0-of-1.lock").exists()
        Lock(folder, WHOLE).release()
    assert not list(folder.path.rglob("*.lock"))


@pytest.mark.parametrize(
    ("first", "second"),
    [("0-of-1", "1-of-2"), ("1-of-2", "0-of-1"), ("1-of-2", "1-of-4"), ("3-of-4", "1-of-2")],
)
def test_shards_that_have_a_block_in_common_are_refused(folder, first, second):
    one = Lock(folder, shard(first))
    with pytest.raises(BusyError, match=rf"\({os.getpid()} on .*\) is writing .* as .*; wait for"):
        Lock(folder, shard(second))
    assert [p.name for p in folder.path.rglob("*.lock")] == [f"{first}.lock"]
    one.release()
    Lock(folder, shard(second)).release()


def test_shards_without_a_common_block_write_side_by_side(folder):
    locks = [Lock(folder, shard(name)) for name in ("0-of-2", "1-of-4", "3-of-4")]
    assert len(list(folder.path.rglob("*.lock"))) == 3
    for lock in locks:
        lock.release()
    assert not list(folder.path.rglob("*.lock"))


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("wanted", ["0-of-1", "1-of-2"])
def test_a_holder_on_another_machine_that_beats_is_refused(folder, wanted):
    with (
        beating_elsewhere(folder, "0-of-1"),
        pytest.raises(BusyError, match=r"another process \(1234 on elsewhere\) is writing"),
    ):
        Lock(folder, shard(wanted))


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("wanted", ["0-of-1", "1-of-2"])
def test_a_holder_on_another_machine_that_is_silent_is_taken_for_dead(folder, wanted):
    write_lock(folder, "0-of-1", {"host": "elsewhere", "pid": 1234, "beat": 7})
    begin = time.monotonic()
    Lock(folder, shard(wanted)).release()
    assert time.monotonic() - begin >= lock_module.SILENCE


@pytest.mark.parametrize(
    "content",
    [
        None,
        3,
        [],
        ["host", "pid", "beat"],
        {"host": "elsewhere"},
        {"host": "elsewhere", "pid": "many", "beat": 1},
        {"host": 3, "pid": 3, "beat": 1},
    ],
)
def test_a_lock_that_names_nobody_is_held_by_nobody(folder, content):
    write_lock(folder, "0-of-1", content)
    Lock(folder, WHOLE).release()


def test_a_holder_beats(folder, soon):
    lock = Lock(folder, WHOLE)
    path = folder.path / "journal" / "0-of-1.lock"
    first = json.loads(path.read_bytes())
    assert (first["host"], first["pid"]) == (host_name(), os.getpid())
    deadline = time.monotonic() + 10
    while json.loads(path.read_bytes())["beat"] <= first["beat"] and time.monotonic() < deadline:
        time.sleep(0.02)
    assert json.loads(path.read_bytes())["beat"] > first["beat"]
    lock.release()


def test_a_beat_is_never_read_half_written(folder):
    lock = Lock(folder, WHOLE)
    path, done = folder.path / "journal" / "0-of-1.lock", threading.Event()

    def beat() -> None:
        for _ in range(3000):
            lock._write()
        done.set()

    thread = threading.Thread(target=beat)
    thread.start()
    while not done.is_set():
        descriptor = os.open(path, os.O_RDONLY)
        assert json.loads(os.pread(descriptor, 4096, 0))["pid"] == os.getpid()  # as one call
        os.close(descriptor)
    thread.join()
    lock.release()


def test_releasing_leaves_the_lock_of_a_store_that_took_the_place(folder):
    first = Lock(folder, WHOLE)
    folder.path.rename(folder.path.with_name("moved.zarr"))
    second = Lock(folder, WHOLE)
    first.release()
    with pytest.raises(BusyError):
        Lock(folder, WHOLE)
    second.release()


def test_only_locks_of_the_dead_are_removed(folder):
    living = Lock(folder, shard("0-of-4"))
    write_lock(folder, "1-of-4", {"host": host_name(), "pid": 2**22 + 1, "beat": 7})
    write_lock(folder, "2-of-4", {"host": "elsewhere", "pid": 7, "beat": 7})
    write_lock(folder, "3-of-4", "")
    remove_dead_locks(folder)
    left = sorted(p.name for p in folder.path.rglob("*.lock"))
    assert left == ["0-of-4.lock", "2-of-4.lock"]
    living.release()


@pytest.fixture
def no_kernel_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system such as Lustre without flock."""

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_without_the_kernels_locks_a_holder_that_beats_is_refused(folder, no_kernel_locks):
    with held(folder, "0-of-1"), pytest.raises(BusyError, match="another process"):
        Lock(folder, WHOLE)


def test_without_the_kernels_locks_a_dead_holder_stops_nobody(folder, no_kernel_locks):
    with held(folder, "0-of-1") as holder:
        holder.kill()
        holder.wait()
        began = time.monotonic()
        Lock(folder, WHOLE).release()
        assert time.monotonic() - began < lock_module.SILENCE


def test_no_beat_outlives_the_release(folder, monkeypatch):
    """Its descriptor's number may be another file's by then."""
    began, beats, real = threading.Event(), [], os.pwrite

    def slow(descriptor: int, content: bytes, offset: int) -> int:
        began.set()
        time.sleep(0.2)
        beats.append(content)
        return real(descriptor, content, offset)

    monkeypatch.setattr(lock_module, "BEAT", 0.0)
    lock = Lock(folder, WHOLE)
    monkeypatch.setattr(os, "pwrite", slow)
    assert began.wait(5)
    lock.release()
    written = len(beats)
    time.sleep(0.5)
    assert len(beats) == written > 0
