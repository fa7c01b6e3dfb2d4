"""Blocks of far stores, kept on this machine while they are read."""

import errno
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import fsspec
import numpy as np
import pytest

from tests.store.planted import planted
from trajdiag.errors import ConfigError, OutOfSpaceError
from trajdiag.store.block_cache import LIMIT, BlockCache
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store

URL = "memory://bucket/x.zarr"
KIB = 2**-20
"""A KiB in GiB."""


@pytest.fixture(autouse=True)
def cache_root(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAJDIAG_CACHE", str(tmp_path))
    yield tmp_path / "blocks"
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def hidden(small_blocks) -> np.ndarray:
    """The states of the store at URL: five blocks, whose files have 2 KiB."""
    a = planted()
    from_arrays(URL, a.hidden, a.logits, a.target, split=a.split)
    return a.hidden.numpy()


def kept(root: Path) -> set[str]:
    """The keys of the files that are there."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {"/".join(path.relative_to(root).parts[1:]) for path in files}


def age(path: Path, seconds: int) -> None:
    """As if it had last been used so long ago."""
    now = path.stat().st_mtime
    os.utime(path, (now - seconds, now - seconds))


def test_what_was_not_used_for_longest_goes_first(monkeypatch, cache_root):
    cache = BlockCache()
    for seconds, key in enumerate("abcd"):
        cache.put("store", key, bytes(1024))
        age(cache.folder("store") / key, 100 - seconds)
    assert cache.missing("store", ["a", "e"]) == ["e"]  # a counts as used now
    monkeypatch.setenv(LIMIT, str(2 * KIB))
    cache.shrink("store", ["d"])
    assert kept(cache_root) == {"a", "d"}


def test_files_of_the_read_that_makes_room_stay_even_beyond_the_limit(monkeypatch, cache_root):
    cache = BlockCache()
    for key in "abc":
        cache.put("store", key, bytes(1024))
    monkeypatch.setenv(LIMIT, "0")
    cache.shrink("store", ["a", "b"])
    assert kept(cache_root) == {"a", "b"}


def test_what_another_process_used_within_the_last_minute_stays(monkeypatch, cache_root):
    cache = BlockCache()
    for key in "ab":
        cache.put("store", key, bytes(1024))
    script = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_bytes(bytes(1024))"
    for key in "cd":
        file = cache.folder("store") / key
        subprocess.run([sys.executable, "-c", script, str(file)], check=True)
    age(cache.folder("store") / "d", 100)
    monkeypatch.setenv(LIMIT, "0")
    cache.shrink("store", ["a"])
    assert kept(cache_root) == {"a", "c"}


def test_what_another_process_is_writing_stays(monkeypatch, cache_root):
    cache = BlockCache()
    cache.put("store", "a", b"1")
    host = cache.folder("store") / f"b.{os.getppid()}.other-machine-12.partial"
    host.write_bytes(bytes(1024))
    monkeypatch.setenv(LIMIT, "0")
    cache.shrink("store", [])
    assert kept(cache_root) == {host.name}


@pytest.mark.parametrize("text", ["much", "-1", "nan"])
def test_a_limit_that_is_no_number_is_refused(monkeypatch, text):
    monkeypatch.setenv(LIMIT, text)
    with pytest.raises(ConfigError, match=f"{LIMIT} must be a number of GiB, got '{text}'"):
        Store.open(URL)


def test_a_store_larger_than_the_limit_is_read_and_the_limit_kept(monkeypatch, hidden, cache_root):
    monkeypatch.setenv(LIMIT, str(16 * KIB))  # of 30 KiB of states
    store = Store.open(URL)
    for batch, (found,) in store.batches("hidden", size=64):
        assert np.array_equal(found, hidden[batch])
        sizes = [path.stat().st_size for path in cache_root.rglob("*") if path.is_file()]
        assert 0 < sum(sizes) <= 16 * 1024


def test_a_kept_block_that_has_changed_is_brought_again(hidden, cache_root):
    Store.open(URL).numpy("hidden")
    (block,) = cache_root.rglob("hidden/c.1.2.0")
    content = bytearray(block.read_bytes())
    content[7] ^= 1
    block.write_bytes(content)
    assert np.array_equal(Store.open(URL).numpy("hidden"), hidden)
    block.write_bytes(content[:100])
    assert np.array_equal(Store.open(URL).numpy("hidden"), hidden)


def test_a_store_that_comes_from_another_process_looks_at_kept_blocks_too(hidden, cache_root):
    store = Store.open(URL)
    store.numpy("hidden")
    (block,) = cache_root.rglob("hidden/c.1.2.0")
    block.write_bytes(bytes(block.stat().st_size))
    assert np.array_equal(pickle.loads(pickle.dumps(store)).numpy("hidden"), hidden)


def test_a_block_that_another_reader_removes_meanwhile_is_brought_again(hidden, cache_root):
    """One thread reads, another keeps emptying the cache."""
    store, stop = Store.open(URL), threading.Event()

    def empty() -> None:
        while not stop.is_set():
            for path in cache_root.rglob("c.*"):
                path.unlink(missing_ok=True)
            stop.wait(0.05)

    thread = threading.Thread(target=empty)
    thread.start()
    try:
        for _ in range(20):
            rows = np.arange(64, 128)
            assert np.array_equal(store.numpy("hidden", rows=rows), hidden[rows])
    finally:
        stop.set()
        thread.join()


def test_threads_that_read_the_same_blocks_do_not_disturb_each_other(hidden):
    store, found = Store.open(URL), []
    threads = [
        threading.Thread(target=lambda: found.append(store.numpy("hidden"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(np.array_equal(part, hidden) for part in found)


def test_a_full_disk_makes_room_among_what_is_kept(monkeypatch, cache_root):
    cache, real = BlockCache(), Path.write_bytes
    for seconds, key in enumerate("abcd"):
        cache.put("store", key, bytes(1024))
        age(cache.folder("store") / key, 100 - seconds)

    def write_bytes(path: Path, content: bytes) -> int:
        there = sum(p.stat().st_size for p in cache_root.rglob("*") if p.is_file())
        if there + len(content) > 4096:
            real(path, content[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, content)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    cache.put("store", "e", bytes(1024))
    assert kept(cache_root) == {"c", "d", "e"}
    with pytest.raises(OutOfSpaceError, match=f"no space left in {cache_root} for what is read"):
        cache.put("store", "f", bytes(8192))
    assert kept(cache_root) == set()
