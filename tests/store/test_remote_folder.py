"""A store's files in an object store, or wherever else fsspec reaches."""

import itertools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import fsspec
import numpy as np
import pytest

from tests.store.planted import planted
from trajdiag.errors import BusyError, StoreError
from trajdiag.store import lock
from trajdiag.store.folder import open_folder
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.inspection import inspect
from trajdiag.store.lock import Lock
from trajdiag.store.reader import Store
from trajdiag.store.shard import WHOLE, Shard

URL = "s3://bucket/some where/Größe.zarr"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch, small_blocks):
    """Where blocks are kept."""
    monkeypatch.setenv("TRAJDIAG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(params=["s3", "memory"])
def url(request):
    """A place in an object store, and one in a file system that has folders."""
    if request.param == "s3":
        request.getfixturevalue("s3")
        yield URL
        return
    yield "memory://bucket/some where/Größe.zarr"
    fsspec.filesystem("memory").store.clear()


def make(location, **options):
    """A store of three blocks."""
    a = planted(examples=160, **options)
    return from_arrays(location, a.hidden, a.logits, a.target, split=a.split)


def contents(location) -> dict[str, bytes]:
    """Every file but those that hold the time at which the store was begun."""
    folder = open_folder(location)
    dated = {"zarr.json", "journal/zarr.json"}
    return {key: folder.read(key) for key in folder.sizes() if key not in dated}


def test_what_is_put_is_there_and_can_be_replaced_and_removed(url):
    folder = open_folder(url)
    assert not folder.exists() and folder.sizes() == {}
    folder.write({"a": b"1", "deep/er/b": memoryview(b"23")})
    folder.write({"a": b"456"})
    assert folder.sizes() == {"a": 3, "deep/er/b": 2}
    assert folder.read("deep/er/b") == b"23"
    folder.remove(["a", "never there"])
    assert folder.sizes() == {"deep/er/b": 2}
    with pytest.raises(FileNotFoundError):
        folder.read("a")
    folder.remove(list(folder.sizes()))
    assert not folder.exists()


def test_a_file_that_is_there_is_not_created(url):
    folder = open_folder(url)
    assert folder.create("deep/a", b"first")
    assert not folder.create("deep/a", b"second")
    assert folder.read("deep/a") == b"first"


def test_one_of_many_that_create_a_file_at_once_has_done_it(s3):
    folder, made = open_folder(URL), []

    def create(content: bytes) -> None:
        if folder.create("a", content):
            made.append(content)

    threads = [threading.Thread(target=create, args=(b"%d" % i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [folder.read("a")]


def test_a_file_is_created_even_if_the_answer_that_says_so_is_lost(s3):
    answers = itertools.chain(["500 Internal Server Error"], itertools.repeat(None))
    s3.lose = lambda method, path: next(answers) if method == "PUT" else None
    with s3.counted() as asked:
        assert open_folder(URL).create("a", b"mine")
    assert [method for method, _ in asked].count("PUT") == 2


def test_a_store_elsewhere_has_the_bytes_and_the_fingerprint_of_a_local_one(url, tmp_path):
    local, far = make(tmp_path / "x.zarr"), make(url)
    assert far.fingerprint == local.fingerprint
    assert contents(url) == contents(tmp_path / "x.zarr")
    opened = Store.open(url)
    for name in local.arrays:
        np.testing.assert_array_equal(opened.numpy(name), local.numpy(name))
    found = inspect(open_folder(url))
    assert not found.damage and not found.foreign


def test_opening_asks_for_each_array_s_metadata_once(s3):
    arrays = make(URL).arrays
    with s3.counted() as asked:
        Store.open(URL)
    root = "/bucket/some where/Größe.zarr"
    metadata = [("GET", f"{root}/{name}/zarr.json".encode().decode("latin-1")) for name in arrays]
    assert len(asked) == len(metadata) + 2
    assert asked.count(("LIST", "/bucket")) == 1


def blocks_asked(asked) -> list[str]:
    """The chunk files, in order, without what is before the array's name."""
    return sorted(path.split(".zarr/")[1] for method, path in asked if "/c." in path)


def test_only_the_blocks_that_are_read_are_brought_and_never_twice(s3):
    make(URL)
    with s3.counted() as asked:
        store = Store.open(URL)
        first = store.numpy("hidden", rows=np.array([130, 70]), loop=2)
    assert blocks_asked(asked) == ["hidden/c.1.1.0", "hidden/c.2.1.0"]
    with s3.counted() as asked:
        again = Store.open(URL)  # as another process would
        assert np.array_equal(again.numpy("hidden", rows=np.array([130, 70]), loop=2), first)
        assert len(again.signal("entropy", "val")) == 40
    kept_signal = [f"signal/entropy/c.{block}.0" for block in range(3)]
    assert blocks_asked(asked) == [*kept_signal, "split/c.0", "split/c.1"]


def test_failures_that_pass_break_nothing(s3, tmp_path):
    local = make(tmp_path / "x.zarr")
    count = itertools.count(1)
    s3.refuse = lambda method, path: "503 Slow Down" if next(count) % 25 == 0 else None
    assert make(URL).fingerprint == local.fingerprint
    assert np.array_equal(Store.open(URL).numpy("hidden"), local.numpy("hidden"))
    assert next(count) > 100


def test_a_block_that_arrives_changed_is_refused(s3):
    store = make(URL)
    key = "hidden/c.0.0.0"
    folder = open_folder(URL)
    content = bytearray(folder.read(key))
    content[100] ^= 1
    folder.write({key: bytes(content)})
    with pytest.raises(StoreError, match=f"{key} of store {URL} is not what was written; remove"):
        store.numpy("hidden", rows=np.array([3]))
    assert [damage.key for damage in inspect(folder).damage] == [key]


def test_a_store_that_is_made_again_is_not_read_from_blocks_of_the_one_before(s3, tmp_path):
    first = make(URL).numpy("hidden")
    open_folder(URL).remove(list(open_folder(URL).sizes()))
    make(URL, seed=1)
    second = Store.open(URL).numpy("hidden")
    assert not np.array_equal(first, second)
    assert np.array_equal(second, make(tmp_path / "x.zarr", seed=1).numpy("hidden"))


@pytest.mark.parametrize("other", [URL + "/", URL + "//", URL.replace("s3://", "s3a://")])
def test_two_spellings_of_a_url_are_one_store(s3, other):
    assert open_folder(other).identity == open_folder(URL).identity
    assert Path(open_folder(other).location).name == "Größe.zarr"


FORK = """
import multiprocessing, os, sys
from trajdiag.store.reader import Store

store = Store.open(sys.argv[1])
before = store.target
reading = multiprocessing.get_context("fork").Process(target=lambda: os._exit(len(store.ids) % 7))
reading.start()
reading.join(60)
assert reading.exitcode == len(before) % 7, reading.exitcode
"""


def test_a_process_that_was_forked_from_a_reader_reads_too(s3, tmp_path):
    """As the workers of a data loader do."""
    make(URL)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK, URL]
    subprocess.run(command, env=environment, check=True, timeout=100)


def test_file_urls_are_folders_of_this_machine(tmp_path):
    store = make(f"file://{tmp_path}/x.zarr")
    assert store.path == tmp_path / "x.zarr"


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("s3://", "names no store; give one such as s3://BUCKET/NAME.zarr"),
        ("nowhere://bucket/x.zarr", "Protocol not known: nowhere; give a folder, or a URL such as"),
        ("abfs://bucket/x.zarr", "pip install 'trajdiag[scale]'"),
        ("s3://no-such-bucket/x.zarr", "no store at s3://no-such-bucket/x.zarr"),
        ("s3://bucket/x.zarr", "no store at s3://bucket/x.zarr"),
    ],
)
def test_a_place_without_a_store_is_said_in_one_line(s3, location, said):
    with pytest.raises(StoreError) as raised:
        Store.open(location)
    assert said in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("refused", ["GET", "PUT"])
def test_a_refusal_names_the_store_and_what_to_look_at(s3, refused):
    s3.refuse = lambda method, path: "403 Forbidden" if method == refused else None
    with pytest.raises(StoreError, match=r"s3://bucket/x.zarr: PermissionError: .*credentials$"):
        make("s3://bucket/x.zarr")


def test_a_bucket_that_is_not_there_is_not_made(s3):
    with pytest.raises(StoreError, match=r"cannot write s3://no-such-bucket/x.zarr: .*bucket does"):
        make("s3://no-such-bucket/x.zarr")


@pytest.fixture
def quick_beats(monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.1)
    monkeypatch.setattr(lock, "SILENCE", 0.5)


def test_a_shard_that_is_being_written_is_refused_and_others_are_not(url, quick_beats):
    folder = open_folder(url)
    held = Lock(folder, Shard(index=0, count=2))
    with pytest.raises(
        BusyError, match=r"another process \(\d+ on .*write another than shard 0 of 2"
    ):
        Lock(folder, Shard(index=0, count=2))
    with pytest.raises(BusyError, match="as shard 0 of 2"):
        Lock(folder, WHOLE)
    Lock(folder, Shard(index=1, count=2)).release()
    held.release()
    Lock(folder, WHOLE).release()
    assert folder.sizes() == {}


def test_a_holder_on_another_machine_that_falls_silent_is_dead(url, quick_beats):
    folder = open_folder(url)
    silent = json.dumps({"host": "elsewhere", "pid": 1, "id": "0", "beat": 7}).encode()
    folder.write({"journal/0-of-1.lock": silent})
    Lock(folder, WHOLE).release()
    assert folder.sizes() == {}


def test_a_holder_that_was_taken_for_dead_leaves_the_lock_to_the_other(url):
    folder = open_folder(url)
    held = Lock(folder, WHOLE)
    of_other = json.dumps({"host": "elsewhere", "pid": 1, "id": "0", "beat": 7}).encode()
    folder.write({"journal/0-of-1.lock": of_other})
    held.release()
    assert folder.read("journal/0-of-1.lock") == of_other
