"""What ChunkFiles reads is what numpy's indexing gives, whatever the array, the rows, the files."""

import multiprocessing
import os
import pickle
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from trajdiag.errors import StoreError
from trajdiag.store.chunk_files import ChunkFiles
from trajdiag.store.schema import ArraySpec

DTYPES = ["float32", "float16", "bfloat16", "int32"]
SHAPES = {
    "padded last block": ((23, 3, 5), 6),
    "one loop": ((20, 1, 4), 5),
    "one example": ((1, 2, 3), 1),
    "one block": ((7, 4, 2), 7),
    "a number a loop": ((23, 3), 6),
    "one example, a number a loop": ((1, 2), 1),
}


def written(folder, shape, block, dtype="float32", seed=0):
    """An array of random bits (so NaN too) and its spec, in chunk files under `folder`."""
    spec = ArraySpec(
        name="hidden",
        dtype=dtype,
        shape=shape,
        chunk=(block, 1, shape[2]) if len(shape) == 3 else (block, shape[1]),
        dimension_names=("example", "loop", "d_model")[: len(shape)],
    )
    rng = np.random.default_rng(seed)
    blocks = spec.grid[0]
    bits = rng.bytes(blocks * block * int(np.prod(shape[1:])) * spec.disk_dtype.itemsize)
    padded = np.frombuffer(bits, spec.disk_dtype).reshape(blocks * block, *shape[1:])
    (folder / "hidden").mkdir(parents=True)
    for index in np.ndindex(spec.grid):
        part = padded[index[0] * block : (index[0] + 1) * block]
        part = part[:, index[1]] if len(shape) == 3 else part
        (folder / "hidden" / spec.key(index)).write_bytes(part.tobytes())
    return spec, padded[: shape[0]]


def assert_same_bits(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def choices(examples, rng):
    """Rows of every kind: none, one, all, a run, all but one, shuffled, with repeats, backwards."""
    first, last = np.sort(rng.integers(0, examples + 1, 2))
    return {
        "none": np.empty(0, np.int64),
        "one": rng.integers(0, examples, 1),
        "all": np.arange(examples),
        "a run": np.arange(first, last),
        "all but one": np.delete(np.arange(examples), rng.integers(examples)),
        "shuffled": rng.permutation(examples),
        "with repeats": rng.integers(0, examples, 3 * examples),
        "backwards": np.arange(examples)[::-1],
        "one many times": np.full(5, examples - 1),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "block"), SHAPES.values(), ids=SHAPES.keys())
def test_rows_and_loops_are_those_of_numpy(tmp_path, shape, block, dtype):
    spec, array = written(tmp_path, shape, block, dtype)
    files = ChunkFiles(tmp_path)
    for seed in range(5):
        for rows in choices(shape[0], np.random.default_rng(seed)).values():
            for first in range(shape[1]):
                for last in range(first + 1, shape[1] + 1):
                    found = files.read(spec, rows, range(first, last))
                    assert_same_bits(found, array[rows][:, first:last])


def test_each_loop_of_what_is_read_is_contiguous(tmp_path):
    spec, _ = written(tmp_path, (23, 3, 5), 6)
    for rows in (np.arange(23), np.array([4, 2, 20])):
        found = ChunkFiles(tmp_path).read(spec, rows, range(3))
        assert all(found[:, loop].flags.c_contiguous for loop in range(3))


def test_a_chunk_file_may_be_larger_than_what_is_copied_at_once(tmp_path):
    spec, array = written(tmp_path, (5000, 1, 4000), 4700)
    assert spec.chunk_bytes > 70 * 2**20
    rng = np.random.default_rng(0)
    for rows in (np.arange(5000), np.arange(3, 4990), rng.integers(0, 5000, 6000)):
        assert_same_bits(ChunkFiles(tmp_path).read(spec, rows, range(1)), array[rows])


def test_a_row_may_be_longer_than_what_is_copied_at_once(tmp_path):
    spec, array = written(tmp_path, (3, 1, 5 * 2**20), 2)
    for rows in (np.arange(3), np.array([2, 0, 2])):
        assert_same_bits(ChunkFiles(tmp_path).read(spec, rows, range(1)), array[rows])


def test_a_path_may_hold_spaces_and_any_letters(tmp_path):
    folder = tmp_path / "états cachés 状態 #1"
    spec, array = written(folder, (23, 3, 5), 6)
    rows = np.array([22, 0, 7])
    assert_same_bits(ChunkFiles(folder).read(spec, rows, range(3)), array[rows])


@pytest.fixture
def few_descriptors():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/dev/fd"))  # noqa: PTH208
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 80, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_there_may_be_more_files_than_descriptors(tmp_path, few_descriptors):
    spec, array = written(tmp_path, (200, 2, 3), 1)
    files = ChunkFiles(tmp_path)
    for rows in (np.arange(200), np.random.default_rng(0).permutation(200)):
        assert_same_bits(files.read(spec, rows, range(2)), array[rows])


def test_threads_may_share_it(tmp_path):
    spec, array = written(tmp_path, (300, 2, 3), 2)
    files = ChunkFiles(tmp_path)

    def read(seed):
        rng = np.random.default_rng(seed)
        for rows in choices(300, rng).values():
            assert_same_bits(files.read(spec, rows, range(2)), array[rows])

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(read, range(32)))


def test_a_forked_process_reads_on(tmp_path):
    spec, array = written(tmp_path, (23, 3, 5), 6)
    files, rows = ChunkFiles(tmp_path), np.array([20, 3, 3])
    files.read(spec, rows, range(3))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.apply(files.read, (spec, rows, range(3)))
    assert_same_bits(found, array[rows])
    assert_same_bits(files.read(spec, rows, range(3)), array[rows])


def test_it_is_pickled_without_its_maps(tmp_path):
    spec, array = written(tmp_path, (23, 3, 5), 6)
    files = ChunkFiles(tmp_path)
    files.read(spec, np.arange(23), range(3))
    again = pickle.loads(pickle.dumps(files))
    assert_same_bits(again.read(spec, np.arange(23), range(3)), array)


@pytest.mark.parametrize("rows", [np.arange(23), np.array([0, 9, 22])], ids=["run", "scattered"])
@pytest.mark.parametrize("size", [0, 17, 2**20])
@pytest.mark.parametrize("opened", [False, True], ids=["before", "while open"])
def test_a_file_that_changed_its_size_is_an_error(tmp_path, rows, size, opened):
    spec, _ = written(tmp_path, (23, 3, 5), 6)
    files = ChunkFiles(tmp_path)
    if opened:
        files.read(spec, rows, range(3))
    os.truncate(tmp_path / "hidden" / "c.1.2.0", size)
    with pytest.raises(StoreError, match=r"c\.1\.2\.0 (has|is empty).*120"):
        files.read(spec, rows, range(3))


@pytest.mark.parametrize("rows", [np.arange(23), np.array([0, 9, 22])], ids=["run", "scattered"])
def test_a_file_that_is_gone_is_an_error(tmp_path, rows):
    spec, _ = written(tmp_path, (23, 3, 5), 6)
    (tmp_path / "hidden" / "c.1.2.0").unlink()
    with pytest.raises(StoreError, match=r"c\.1\.2\.0 cannot be read"):
        ChunkFiles(tmp_path).read(spec, rows, range(3))


@pytest.mark.parametrize("rows", [[-1], [23], [0, 23], [3, -1, 5], [22, 23]])
def test_there_is_nothing_beyond_the_last_example_not_even_padding(tmp_path, rows):
    spec, _ = written(tmp_path, (23, 3, 5), 6)
    with pytest.raises(IndexError, match=r"examples 0\.\.22"):
        ChunkFiles(tmp_path).read(spec, np.array(rows), range(3))


def test_a_check_sees_every_value_with_its_row_and_loop(tmp_path):
    spec, array = written(tmp_path, (23, 3, 5), 6)
    for rows in choices(23, np.random.default_rng(0)).values():
        seen = np.zeros((len(rows), 3), bool)

        def check(_, values, of, loop, rows=rows, seen=seen):
            assert_same_bits(values, array[of, loop])
            seen[np.isin(rows, of), loop] = True

        ChunkFiles(tmp_path).read(spec, rows, range(3), check)
        assert seen.all()


def test_what_is_not_in_memory_comes_from_the_disk(tmp_path):
    spec, array = written(tmp_path, (5000, 2, 300), 1000)
    for file in tmp_path.rglob("c.*"):
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        getattr(os, "posix_fadvise", lambda *_: None)(descriptor, 0, 0, 4)  # POSIX_FADV_DONTNEED
        os.close(descriptor)
    rng = np.random.default_rng(0)
    for rows in (rng.integers(0, 5000, 30), rng.permutation(5000), np.arange(100, 4000, 2)):
        assert_same_bits(ChunkFiles(tmp_path).read(spec, rows, range(2)), array[rows])


def test_a_system_that_cannot_tell_what_is_in_memory_reads_all_the_same(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "RWF_NOWAIT", raising=False)
    spec, array = written(tmp_path, (23, 3, 5), 6)
    rows = np.array([20, 3, 3])
    assert_same_bits(ChunkFiles(tmp_path).read(spec, rows, range(3)), array[rows])


GROWTH = """
import sys
from pathlib import Path
import numpy as np
from tests.store.test_chunk_files import ArraySpec
from trajdiag.store.chunk_files import ChunkFiles

def status(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

spec = ArraySpec(name="hidden", dtype="float32", shape=(40000, 3, 512), chunk=(8192, 1, 512),
                 dimension_names=("example", "loop", "d_model"))
files, rng = ChunkFiles(Path(sys.argv[1])), np.random.default_rng(0)
files.read(spec, np.array([5, 3]), range(3))
reads = [np.arange(40000)] + [rng.integers(0, 40000, 256) for _ in range(30)]
reads += [rng.integers(0, 40000, 20000), rng.permutation(40000)[:30000]]
for rows in reads:
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    found = files.read(spec, rows, range(3))
    print(status("VmHWM") - before - found.nbytes)
    del found
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the peak of memory")
def test_a_read_takes_little_more_memory_than_what_was_asked_for(tmp_path):
    (tmp_path / "hidden").mkdir()
    for block in range(5):
        for loop in range(3):
            with (tmp_path / "hidden" / f"c.{block}.{loop}.0").open("wb") as file:
                file.truncate(8192 * 512 * 4)
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, str(tmp_path)], stdout=subprocess.PIPE, check=True, text=True
    )
    excess = [int(line) for line in done.stdout.split()]
    assert len(excess) == 33
    assert max(excess) <= 64 * 2**20
