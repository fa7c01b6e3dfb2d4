"""A store's files against raw files and numpy: writing, reading, memory, a training epoch.

Both sides move the same bytes through the same folder, which is removed. `raw` is what one would
write without a store: one file an array, or one a block and loop where the layout matters, read by
np.memmap. Rows named `of-floor` say what share of the machine's own speed was reached.
"""

import dataclasses
import gc
import itertools
import json
import mmap
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trajdiag.store.columns import Columns
from trajdiag.store.reader import Store
from trajdiag.store.record import StoreRecord
from trajdiag.store.schema import SCHEMA_VERSION, block_specs, trajectory_arrays
from trajdiag.store.shuffled import shuffled_batches
from trajdiag.store.writer import StoreWriter

REPEATS = 5
BATCH = 256
BATCHES = 40
"""Random batches in each repeat, after many more that are not timed."""
EPOCH_BYTES = 2**31
EPOCH_MEMORY = EPOCH_BYTES // 4
"""Of the whole process, with its libraries."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    name: str
    examples: int
    loops: int
    d_model: int
    dtype: str


MANO = Shape(name="mano", examples=50_000, loops=6, d_model=512, dtype="float32")
OURO = Shape(name="ouro", examples=8_192, loops=4, d_model=2048, dtype="bfloat16")


def run(repeats: int = REPEATS) -> Iterator[dict[str, Any]]:
    for shape in (MANO, OURO):
        # A space and an accent: paths are data.
        with tempfile.TemporaryDirectory(prefix="étude des magasins ") as folder:
            files = Files(Path(folder), shape)
            yield from writing(files, repeats)
            yield from whole_reads(files, repeats)
            yield from random_rows(files, repeats)
            yield from cold_rows(files, repeats)
            yield memory(files)
    with tempfile.TemporaryDirectory() as folder:
        examples = EPOCH_BYTES // (MANO.loops * MANO.d_model * 4)
        files = Files(Path(folder), dataclasses.replace(MANO, examples=examples))
        files.write_store()
        yield from epochs(files, repeats)


class Files:
    """The same bytes as a store, as a raw file, and in memory as one block of them."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        self.shape, self.raw, self.store = shape, folder / "raw", folder / "store.zarr"
        arrays = trajectory_arrays(
            d_model=shape.d_model, dtype=shape.dtype, classes=None, gate=False
        )
        numbers = np.arange(shape.examples)
        self.columns = Columns(
            target=numbers % 2,
            difficulty=np.ones(len(numbers)),
            group=numbers,
            split=np.full(len(numbers), "fit"),
            id=numbers.astype(str),
        )
        self.specs = block_specs(arrays, examples=shape.examples, loops=shape.loops, signals=[])
        self.spec = self.specs["hidden"]
        self.blocks = self.spec.grid[0]
        self.bytes = self.blocks * shape.loops * self.spec.chunk_bytes
        rows, loops = self.spec.chunk[0], shape.loops
        memory = mmap.mmap(-1, loops * self.spec.chunk_bytes)
        self.block = np.frombuffer(memory, self.spec.disk_dtype).reshape(loops, rows, -1)
        drawn = np.random.default_rng(0).standard_normal(self.block.shape, np.float32)
        self.block[:] = drawn if shape.dtype == "float32" else drawn.view(np.uint32) >> 16

    def writer(self) -> StoreWriter:
        return StoreWriter(self.store, record=_record(), columns=self.columns, specs=self.specs)

    def write_store(self) -> None:
        with self.writer() as writer:
            for block in range(self.blocks):
                writer.write_block(block, {"hidden": self.block})
            writer.finish()

    def remove(self) -> None:
        shutil.rmtree(self.store, ignore_errors=True)
        self.raw.unlink(missing_ok=True)

    def write_raw(self, flags: int = 0, skip: int = 0) -> None:
        descriptor = os.open(self.raw, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | flags)
        for _ in range(skip, self.blocks):
            rest = self.block.reshape(-1).data.cast("B")
            while len(rest):
                rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
        os.close(descriptor)

    def raw_map(self) -> np.memmap:
        """The raw file, read as one [example, loop, d_model]."""
        shape = self.shape.examples, self.shape.loops, self.shape.d_model
        return np.memmap(self.raw, self.spec.disk_dtype, "r", shape=shape)

    def raw_maps(self) -> dict[tuple[int, int], np.memmap]:
        """The chunk files, which are raw files, one a block and loop."""
        return {
            (block, loop): np.memmap(
                self.store / "hidden" / self.spec.key((block, loop, 0)),
                self.spec.disk_dtype,
                "r",
                shape=(self.spec.chunk[0], self.shape.d_model),
            )
            for block in range(self.blocks)
            for loop in range(self.shape.loops)
        }

    def raw_rows(self, maps: dict[tuple[int, int], np.memmap], rows: np.ndarray) -> np.ndarray:
        """The shortest numpy for it: [row, loop, d_model]."""
        shape = len(rows), self.shape.loops, self.shape.d_model
        found = np.empty(shape, self.spec.disk_dtype)
        for block in np.unique(rows // self.spec.chunk[0]):
            at = np.flatnonzero(rows // self.spec.chunk[0] == block)
            within = rows[at] - block * self.spec.chunk[0]
            for loop in range(self.shape.loops):
                found[at, loop] = maps[block, loop][within]
        return found

    def rows(self, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).integers(0, self.shape.examples, BATCH)


def drop_cache(folder: Path) -> None:
    """Have the kernel forget the files' pages, which are on the disk and mapped by nobody."""
    for file in [*folder.rglob("c.*"), *folder.glob("raw")]:
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def writing(files: Files, repeats: int) -> Iterator[dict[str, Any]]:
    """Blocks, once the first has made folders and columns; and a store from nothing."""
    name = files.shape.name
    writers: list[StoreWriter] = []

    def begin() -> None:
        for writer in writers:
            writer.close()
        files.remove()
        writers[:] = [files.writer()]
        writers[0].write_block(0, {"hidden": files.block})

    def blocks() -> None:
        for block in range(1, files.blocks):
            writers[0].write_block(block, {"hidden": files.block})

    sides = (lambda: files.write_raw(os.O_DIRECT, skip=1), blocks, lambda: files.write_raw(skip=1))
    direct, ours, raw = timed(repeats, *sides, before=begin)
    size = files.bytes * (files.blocks - 1) / files.blocks
    yield ratio(f"{name}/write", raw / ours, 0.8)
    yield floor(f"{name}/write", size / ours, size / direct)
    writers[0].close()
    ours, raw = timed(repeats, files.write_store, files.write_raw, before=files.remove)
    yield ratio(f"{name}/write-from-nothing", raw / ours, 0)
    files.write_store()


def whole_reads(files: Files, repeats: int) -> Iterator[dict[str, Any]]:
    # In the page cache because it was read, on both sides: what was written may lie there in larger
    # pages, and more so if all was one file.
    drop_cache(files.store.parent)
    store, name = Store.open(files.store), files.shape.name
    in_memory = np.array(files.raw_map())
    loops = itertools.cycle(range(files.shape.loops))
    for what, raw_read, read, copy, size in (
        (
            "whole",
            lambda: np.array(files.raw_map()),
            lambda: store.torch("hidden"),
            lambda: np.array(in_memory),
            in_memory.nbytes,
        ),
        (
            "one-loop",
            lambda: np.array(files.raw_map()[:, next(loops)]),
            lambda: store.torch("hidden", loop=1 + next(loops)),
            lambda: np.array(in_memory[: len(in_memory) // files.shape.loops]),
            in_memory.nbytes // files.shape.loops,
        ),
    ):
        raw, ours, copied = timed(repeats, raw_read, read, copy)
        yield ratio(f"{name}/{what}", raw / ours, 0.95)
        yield floor(f"{name}/{what}", size / ours, size / copied)


def random_rows(files: Files, repeats: int) -> Iterator[dict[str, Any]]:
    store, maps = Store.open(files.store), files.raw_maps()
    seeds = itertools.count()
    sides: list[Callable[[np.ndarray], Any]] = [
        lambda rows: files.raw_rows(maps, rows),
        lambda rows: store.torch("hidden", rows=rows),
    ]
    for side in sides:
        for _ in range(4 * files.shape.examples // BATCH):
            side(files.rows(next(seeds)))
    # Each draws rows of its own: the other's would still be in the processor's cache.
    raw, ours = timed(
        repeats,
        lambda: [sides[0](files.rows(next(seeds))) for _ in range(BATCHES)],
        lambda: [sides[1](files.rows(next(seeds))) for _ in range(BATCHES)],
    )
    yield ratio(f"{files.shape.name}/random-rows", raw / ours, 0.8)


def cold_rows(files: Files, repeats: int) -> Iterator[dict[str, Any]]:
    sides = (
        lambda: partial(files.raw_rows, files.raw_maps()),
        lambda: partial(_rows_of, Store.open(files.store)),
    )
    seconds: list[list[float]] = [[], []]
    for seed in range(repeats):
        for times, open_files in zip(seconds, sides, strict=True):
            drop_cache(files.store)
            read, rows = open_files(), files.rows(seed)
            began = time.perf_counter()
            read(rows)
            times.append(time.perf_counter() - began)
            del read  # pages that are mapped stay in the cache
            gc.collect()
    raw, ours = map(statistics.median, seconds)
    yield ratio(f"{files.shape.name}/cold-rows", raw / ours, 10)


def _rows_of(store: Store, rows: np.ndarray) -> Any:
    return store.torch("hidden", rows=rows)


def memory(files: Files) -> dict[str, Any]:
    """Resident memory beyond what was asked for, at most, of several reads in a new process."""
    value = in_child("memory_beyond_result", str(files.store)) / 2**20
    return {
        "name": f"store/{files.shape.name}/memory",
        "value": value,
        "unit": "MiB",
        "bar": 64,
        "holds": value <= 64,
    }


def memory_beyond_result(path: str) -> int:
    """In a child: the largest excess over the result's bytes at the peak of any one read."""
    store = Store.open(path)
    rng = np.random.default_rng(0)
    reads = [{}, {"loop": 2}, {"rows": rng.integers(0, len(store), 8000)}]
    reads += [{"rows": rng.integers(0, len(store), BATCH)} for _ in range(200)]
    reads += [{"rows": rng.integers(0, len(store), 8000), "loop": 1}, {"split": "fit"}]
    store.torch("hidden", rows=np.arange(2))
    excess = []
    for read in reads:
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        before = _status("VmRSS")
        found = store.torch("hidden", **read)
        excess.append(_status("VmHWM") - before - found.nbytes)
        del found
    return max(excess)


def epochs(files: Files, repeats: int) -> Iterator[dict[str, Any]]:
    """A pass over shuffled rows that trains a gate, of a store four times the memory that the
    process may have, against the same pass over the same store read whole before."""
    seconds: dict[str, list[list[float]]] = {"disk": [], "memory": []}
    for _ in range(repeats):
        for where, found in seconds.items():
            drop_cache(files.store)
            found.append(in_child("epoch_seconds", str(files.store), where))
    (disk, disk_bare), (ram, ram_bare) = (
        map(statistics.median, zip(*seconds[where], strict=True)) for where in ("disk", "memory")
    )
    yield ratio("epoch", ram / disk, 0.5)
    yield ratio("epoch-reading-alone", ram_bare / disk_bare, 0)


def epoch_seconds(path: str, where: str) -> tuple[float, float]:
    """In a child: seconds of a pass that trains, and of one that only reads."""
    import torch

    if where == "disk":
        resource.setrlimit(resource.RLIMIT_DATA, (EPOCH_MEMORY, EPOCH_MEMORY))
    torch.set_num_threads(1)
    store = Store.open(path)
    gate = torch.nn.Sequential(
        torch.nn.Linear(store.d_model, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)
    )
    adam = torch.optim.Adam(gate.parameters())
    whole = store.torch("hidden").contiguous() if where == "memory" else None

    def batches() -> Iterator[torch.Tensor]:
        if whole is None:
            for _, (hidden,) in shuffled_batches(store, "hidden", size=BATCH, seed=0):
                yield hidden
            return
        order = torch.from_numpy(np.random.default_rng(0).permutation(len(store)))
        for part in order.split(BATCH):
            yield whole[part]

    def train() -> None:
        for hidden in batches():
            loss = gate(hidden).square().mean()
            adam.zero_grad()
            loss.backward()
            adam.step()

    def read() -> None:
        for hidden in batches():
            hidden[0, 0, 0].item()

    found = []
    for act in (train, read):
        if whole is None:
            drop_cache(Path(path))
        found.append(timed_once(act))
    return found[0], found[1]


def in_child(function: str, *arguments: str) -> Any:
    """What a function of this module returns in a process of its own, of one thread."""
    code = (
        "import json, sys; from benches import store; "
        "print(json.dumps(getattr(store, sys.argv[1])(*sys.argv[2:])))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, function, *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def timed(
    repeats: int, *sides: Callable[[], Any], before: Callable[[], None] = gc.collect
) -> list[float]:
    """Median seconds of each side, which take turns; `before` each is not counted."""
    seconds: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats + 1):
        for times, side in zip(seconds, sides, strict=True):
            before()
            times.append(timed_once(side))
    return [statistics.median(times[1:]) for times in seconds]


def timed_once(side: Callable[[], Any]) -> float:
    began = time.perf_counter()
    side()
    return time.perf_counter() - began


def ratio(name: str, value: float, bar: float) -> dict[str, Any]:
    """The raw side's time over the store's."""
    return {
        "name": f"store/{name}",
        "value": value,
        "unit": "of raw",
        "bar": bar,
        "holds": value >= bar,
    }


def floor(name: str, speed: float, limit: float) -> dict[str, Any]:
    """Bytes a second, beside those of the disk or of memory copied to fresh memory."""
    unit = f"GB/s of {limit / 1e9:.2f}"
    return {
        "name": f"store/{name}-speed",
        "value": speed / 1e9,
        "unit": unit,
        "bar": 0,
        "holds": True,
    }


def _status(field: str) -> int:
    """Bytes, from this process's status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def _record() -> StoreRecord:
    return StoreRecord(
        schema=SCHEMA_VERSION,
        model={"sha256": "0" * 64},
        task={"name": "bench", "parameters": {}},
        config={},
        compute_dtype="float32",
        store_dtype="float32",
        batch_order="",
        class_names=None,
        versions={},
        commands=[],
        created="",
        classes=2,
    )
