"""One chunk file as a memory map, and what of it counts as memory of the process."""

import io
import math
import mmap
import os
from pathlib import Path

import numpy as np

from trajdiag.errors import StoreError
from trajdiag.store.schema import ArraySpec

PIECE = 16 * 2**20
"""Bytes copied before pages are given back."""
_AROUND = 2**16
"""Bytes that the kernel maps around a page that is touched."""
_AHEAD = 2**20
"""Bytes asked of the disk at a time, where all are wanted."""
_SCATTERED = 40_000
"""Bytes that a disk gives in a row in the time of one scattered read."""


class MappedChunk:
    """A chunk file of the size that it should have, read-only."""

    def __init__(self, file: Path, spec: ArraySpec) -> None:
        """Raises StoreError where the file is gone or has another size."""
        self._file, self._size = file, spec.chunk_bytes
        try:
            with self._open() as opened:
                self._map = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise StoreError(f"{file} is empty; {self._size} bytes were written") from None
        self._require_size()
        values = np.frombuffer(self._map, spec.disk_dtype, math.prod(spec.chunk))
        self.values = values.reshape(spec.chunk[0], *spec.chunk[1:][-1:])
        """[row, column], padding included."""
        self._row_bytes = self._size // spec.chunk[0]
        self.is_checked = False
        """Whether all of it was looked at and found good."""
        self._mapped = 0.0
        """Bytes whose pages are mapped, as scattered rows are expected to have left them."""

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    @property
    def is_mapped(self) -> bool:
        """Whether about all of it is in memory, mapped."""
        return self._mapped > 0.99 * self._size

    def copy(self, examples: slice, columns: slice, out: np.ndarray) -> None:
        """Consecutive examples, counted in the chunk, into `out` [row, column]."""
        if out.shape[1:] == self.values.shape[1:] and not self.is_cached(examples.start):
            self._read(examples.start * self._row_bytes, out)
            return
        step = max(1, PIECE // self._row_bytes)
        for start in range(examples.start, examples.stop, step):
            stop = min(start + step, examples.stop)
            self._require_size()
            out[start - examples.start : stop - examples.start] = self.values[start:stop, columns]
            self._unmap()

    def gather(
        self, examples: np.ndarray, columns: slice, out: np.ndarray, at: np.ndarray, room: float
    ) -> float:
        """Scattered examples into the rows `at` of `out`. Their pages stay mapped where that adds
        at most `room` bytes to the process; returned is the room that is left."""
        touched = self._row_bytes + _AROUND
        step = max(1, PIECE // (4 * self._row_bytes if self._size <= PIECE else touched))
        for start in range(0, len(examples), step):
            part = examples[start : start + step]
            self._require_size()
            out[at[start : start + step]] = self.values[:, columns][part]
            if self.is_mapped:
                continue
            grown = (self._size - self._mapped) * -math.expm1(-len(part) * touched / self._size)
            if grown <= room:
                self._mapped += grown
                room -= grown
            else:
                self._unmap()
        return room

    def is_cached(self, example: int) -> bool:
        """Whether an example need not be read from the disk; True where that cannot be asked."""
        flag = getattr(os, "RWF_NOWAIT", None)
        if flag is None or self.is_mapped:
            return True
        with self._open() as file:
            try:
                os.preadv(file.fileno(), [bytearray(1)], example * self._row_bytes, flag)
            except OSError:  # it would have to wait, or the file system cannot tell
                return False
        return True

    def will_need(self, examples: np.ndarray) -> None:
        """Have the disk read these examples, all at once, and do not wait."""
        starts = np.unique(examples) * self._row_bytes
        if len(starts) * _SCATTERED >= self._size:
            self._map.madvise(mmap.MADV_WILLNEED)
            return
        stops = starts + self._row_bytes
        apart = np.flatnonzero(starts[1:] - stops[:-1] > _SCATTERED / 2)
        firsts = starts[np.r_[0, apart + 1]] // mmap.PAGESIZE * mmap.PAGESIZE
        lasts = stops[np.r_[apart, len(stops) - 1]]
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            self._map.madvise(mmap.MADV_WILLNEED, first, last - first)

    def _read(self, start: int, out: np.ndarray) -> None:
        """The file's bytes from `start` into `out`, by the disk's own speed: what is read in
        pieces, one after the other, is read ahead, and lies in the page cache in larger pages than
        what a map brings there."""
        rest = out.reshape(-1).view(np.uint8).data
        with self._open() as file:
            file.seek(start)
            while len(rest):
                count = file.readinto(rest[:_AHEAD])
                if not count:
                    self._require_size()
                    raise StoreError(f"{self._file} cannot be read")
                rest = rest[count:]

    def _open(self) -> io.FileIO:
        try:
            return io.FileIO(self._file)
        except OSError as error:
            raise StoreError(f"{self._file} cannot be read: {error.strerror}") from None

    def _unmap(self) -> None:
        self._map.madvise(mmap.MADV_DONTNEED)
        self._mapped = 0.0

    def _require_size(self) -> None:
        """Touching a map beyond the end of its file kills the process."""
        found = self._map.size()
        if found != self._size:
            raise StoreError(
                f"{self._file} has {found} bytes, {self._size} were written: it has changed"
            )
