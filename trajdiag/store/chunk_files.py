"""Reading a store's chunk files, which hold the array's own bytes in C order.

Files are read by memory map: copying out of one is twice as fast as `pread`, which enters the
kernel for every row. What that costs in memory, beside the result:

- nothing that the kernel could not take back: a map's pages are the page cache's own, and clean;
- they do count as resident memory of the process while they are mapped. A read of consecutive
  examples unmaps each piece of 16 MiB once it is copied, and so does one of many scattered ones. A
  read of up to 1,024 scattered ones, which would spend most of its time on mapping pages again,
  leaves them mapped, but adds at most 32 MiB to them: reads in random order fill the open maps
  little by little, of which there is 1 GiB at most.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trajdiag.store.mapped_chunk import MappedChunk
from trajdiag.store.schema import ArraySpec

_OPEN_MAPS, _OPEN_BYTES = 64, 2**30
"""Memory maps kept open, each of which holds a file descriptor, and their bytes."""
_GROWTH = 32 * 2**20
_FEW = 1024
"""Scattered rows up to which mapping their pages again would take most of a read's time."""
_PROBES = 4
"""Rows of a read that tell whether the rest is in the page cache."""

Check = Callable[[ArraySpec, np.ndarray, np.ndarray, int], None]
"""Called with values [row, ...] as stored, of rows int64 [row], at a loop counted from 0; raises
where they are not good."""

_Part = tuple[np.ndarray, tuple[int, ...], slice]
"""Where values go, [row, ...]; the chunk's index after the block; and which of its columns."""


class ChunkFiles:
    """The uncompressed chunk files under one local folder. Threads may share it: no step needs a
    lock, which a fork in the midst of another thread's read would leave locked for ever."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._maps: dict[tuple[Any, ...], MappedChunk] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without the maps, which another process opens for itself."""
        return {"_path": self._path, "_maps": {}}

    def read(
        self, spec: ArraySpec, rows: np.ndarray, loops: range, check: Check | None = None
    ) -> np.ndarray:
        """The examples `rows` int64 [row] of an array at `loops`, counted from 0: [row, loop, ...]
        of the dtype on disk.

        Where the array has a third dimension, the result lies loop by loop in memory, as on disk:
        each loop's [row, ...] is contiguous; and `check` sees all values, but for those of an open
        chunk that it has seen whole before. Raises IndexError where there is no such example, and
        StoreError where a file is gone or has another size than it should.
        """
        if len(rows) and not 0 <= rows.min() <= rows.max() < spec.shape[0]:
            raise IndexError(f"{spec.name} has examples 0..{spec.shape[0] - 1}, asked for {rows}")
        if len(spec.shape) == 3:
            found = np.empty((len(loops), len(rows), *spec.shape[2:]), spec.disk_dtype)
            parts = [(out, (loop, 0), slice(None)) for out, loop in zip(found, loops, strict=True)]
        else:
            check = None
            found = np.empty((len(rows), len(loops)), spec.disk_dtype)
            parts = [(found, (0,), slice(loops.start, loops.stop))]
        if is_run(rows):
            self._read_run(spec, range(rows[0], rows[-1] + 1), parts, check)
        elif len(rows):
            self._read_scattered(spec, rows, parts, check)
        return found.swapaxes(0, 1) if len(spec.shape) == 3 else found

    def _read_run(
        self, spec: ArraySpec, rows: range, parts: list[_Part], check: Check | None
    ) -> None:
        size = spec.chunk[0]
        for block in range(rows.start // size, -(-rows.stop // size)):
            there = block_rows(spec, block)
            run = range(max(there.start, rows.start), min(there.stop, rows.stop))
            at = slice(run.start - rows.start, run.stop - rows.start)
            within = slice(run.start - there.start, run.stop - there.start)
            for out, index, columns in parts:
                chunk = self._map(spec, (block, *index))
                chunk.copy(within, columns, out[at])
                if check and not chunk.is_checked:
                    check(spec, out[at], np.arange(run.start, run.stop), index[0])
                    chunk.is_checked = run == there

    def _read_scattered(
        self, spec: ArraySpec, rows: np.ndarray, parts: list[_Part], check: Check | None
    ) -> None:
        blocks, cached = list(by_block(rows, spec.chunk[0])), self._is_cached(spec, rows, parts)
        room, unchecked = _GROWTH if len(rows) <= _FEW else 0.0, set()
        step = max(1, _OPEN_MAPS // len(parts))
        for start in range(0, len(blocks), step):
            group = blocks[start : start + step]
            for block, _, within in () if cached else group:
                for _, index, _ in parts:
                    self._map(spec, (block, *index)).will_need(within)
            for block, at, within in group:
                for out, index, columns in parts:
                    chunk = self._map(spec, (block, *index))
                    room = chunk.gather(within, columns, out, at, room)
                    if check and not chunk.is_checked:
                        unchecked.add(index)
                        if chunk.is_mapped:
                            there = block_rows(spec, block)
                            check(spec, chunk.values[: len(there)], np.array(there), index[0])
                            chunk.is_checked = True
        for out, index, _ in parts:
            if check and index in unchecked:
                check(spec, out, rows, index[0])

    def _is_cached(self, spec: ArraySpec, rows: np.ndarray, parts: list[_Part]) -> bool:
        """Whether a few of the rows are in the page cache, each at another loop."""
        few = rows[:: -(-len(rows) // _PROBES)].tolist()
        return all(
            self._map(spec, (row // spec.chunk[0], *parts[probe % len(parts)][1])).is_cached(
                row % spec.chunk[0]
            )
            for probe, row in enumerate(few)
        )

    def _map(self, spec: ArraySpec, index: tuple[int, ...]) -> MappedChunk:
        key = (spec.name, *index)
        found = self._maps.pop(key, None)
        if found is None:
            found = MappedChunk(self._path / spec.name / spec.key(index), spec)
            while len(maps := list(self._maps.items())) >= _OPEN_MAPS or (
                maps and sum(chunk.size for _, chunk in maps) + found.size > _OPEN_BYTES
            ):
                self._maps.pop(maps[0][0], None)
        self._maps[key] = found  # the last is the most recently used
        return found


def block_rows(spec: ArraySpec, block: int) -> range:
    """The examples of a block, without padding."""
    return range(block * spec.chunk[0], min((block + 1) * spec.chunk[0], spec.shape[0]))


def is_run(rows: np.ndarray) -> bool:
    """Whether these are consecutive examples, in order."""
    return (
        len(rows) > 0
        and rows[-1] - rows[0] == len(rows) - 1
        and np.array_equal(rows, np.arange(rows[0], rows[-1] + 1))
    )


def by_block(rows: np.ndarray, size: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(block, positions in `rows`, ascending offsets in the block) of each block that is needed."""
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    first, last = ascending[0] // size, ascending[-1] // size
    starts = np.searchsorted(ascending, np.arange(first, last + 2) * size).tolist()
    for block, start, stop in zip(range(first, last + 1), starts, starts[1:], strict=False):
        if stop > start:
            yield block, order[start:stop], ascending[start:stop] - block * size
