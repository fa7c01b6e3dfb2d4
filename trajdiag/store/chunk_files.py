"""Reading a store's chunk files, which hold the array's own bytes in C order."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trajdiag.store.schema import ArraySpec

_OPEN_MAPS, _MAPPED_BYTES = 128, 64 * 2**20
"""Memory maps kept open, and their bytes: each holds a file descriptor, of which a process has
about a thousand, and the pages that were read count as the process's memory."""


class ChunkFiles:
    """The uncompressed chunk files under one local folder, read by memory map."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._maps: dict[tuple[str, str], np.ndarray] = {}

    def read(self, spec: ArraySpec, rows: np.ndarray, loops: range) -> np.ndarray:
        """The examples `rows` int64 [row] of an array at `loops`, counted from 0: [row, loop, ...]
        of the dtype on disk."""
        found = np.empty((len(rows), len(loops), *spec.shape[2:]), spec.disk_dtype)
        for block, at, within in by_block(rows, spec.chunk[0]):
            if len(spec.shape) == 3:
                for column, loop in enumerate(loops):
                    found[at, column] = self._map(spec, (block, loop, 0))[within, 0]
            else:
                found[at] = self._map(spec, (block, 0))[within, loops.start : loops.stop]
        return found

    def _map(self, spec: ArraySpec, index: tuple[int, ...]) -> np.ndarray:
        """The chunk as a read-only memory map."""
        key = (spec.name, spec.key(index))
        found = self._maps.pop(key, None)
        if found is None:
            file = self._path / spec.name / key[1]
            found = np.memmap(file, spec.disk_dtype, "r", shape=spec.chunk)
            room = _MAPPED_BYTES - found.nbytes
            while self._maps and (
                len(self._maps) >= _OPEN_MAPS or sum(m.nbytes for m in self._maps.values()) > room
            ):
                self._maps.pop(next(iter(self._maps)))
        self._maps[key] = found  # the last is the most recently used
        return found


def by_block(rows: np.ndarray, size: int) -> Iterator[tuple[int, Any, Any]]:
    """(block, positions in `rows`, offsets in the block); slices where `rows` is a run."""
    if not len(rows):
        return
    first, last = int(rows[0]), int(rows[-1])
    if last - first == len(rows) - 1 and np.array_equal(rows, np.arange(first, last + 1)):
        for block in range(first // size, last // size + 1):
            low, high = max(first, block * size), min(last + 1, (block + 1) * size)
            yield (
                block,
                slice(low - first, high - first),
                slice(low - block * size, high - block * size),
            )
        return
    blocks = rows // size
    order = np.argsort(blocks, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1):
        block = int(blocks[at[0]])
        yield block, at, rows[at] - block * size
