"""A store's arrays out of its files, wherever they are and however they are kept."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import numpy as np

from trajdiag.errors import StoreError
from trajdiag.store import strings
from trajdiag.store.checksum import array_checksum, crc32c
from trajdiag.store.chunk_files import Check, ChunkFiles, by_block
from trajdiag.store.compression import decompressed
from trajdiag.store.folder import Folder
from trajdiag.store.held_folder import HeldFolder
from trajdiag.store.journal import Journal, read_journal
from trajdiag.store.local_folder import LocalFolder
from trajdiag.store.record import REPAIR, StoreRecord
from trajdiag.store.schema import ArraySpec

_DECODED_BYTES = 64 * 2**20
"""Decompressed chunks that are kept."""
_TRIES = 5
"""How often blocks are brought that go before they are read."""


class StoreFiles:
    """The arrays of one store. Blocks of a far one are brought here as they are read."""

    def __init__(
        self,
        folder: Folder,
        record: StoreRecord,
        specs: dict[str, ArraySpec],
        journal: Journal | None,
    ) -> None:
        self._folder, self._record, self._specs, self._journal = folder, record, specs, journal
        self._held = HeldFolder(folder.path) if isinstance(folder, LocalFolder) else None
        self._chunk_files: ChunkFiles | None = None
        self._decoded: dict[str, np.ndarray] = {}
        self._unchanged: set[str] = set()
        # what was made at another time must not be read from blocks that were kept
        made = record.fingerprint or record.created
        self._identity = hashlib.sha256(f"{folder.identity} {made}".encode()).hexdigest()[:32]

    def read(
        self, spec: ArraySpec, rows: np.ndarray, loops: range, check: Check | None = None
    ) -> np.ndarray:
        """The examples `rows` int64 [row] of an array at `loops`, counted from 0: [row, loop, ...]
        of the dtype on disk; `check` sees them as in ChunkFiles.read."""
        if spec.zstd is not None:
            found = self._decompress(spec, rows, loops)
            if check is not None and len(spec.shape) == 3:
                for column, loop in enumerate(loops):
                    check(spec, found[:, column], rows, loop)
            return found
        keys: list[str] = []
        if not isinstance(self._folder, LocalFolder):
            blocks = np.unique(rows // spec.chunk[0]).tolist()
            rest = [(t, 0) for t in loops] if len(spec.shape) == 3 else [(0,)]
            keys = [spec.key((block, *index)) for block in blocks for index in rest]
        names = [f"{spec.name}/{key}" for key in keys]
        for tries_left in reversed(range(_TRIES)):
            path = self._bring(names)
            if self._chunk_files is None:
                self._chunk_files = ChunkFiles(path)
            try:
                return self._chunk_files.read(spec, rows, loops, check)
            except StoreError:
                if not tries_left or not names:
                    raise
        raise AssertionError

    def column(self, spec: ArraySpec) -> np.ndarray:
        """A per-example column, [example]."""
        self.require_unchanged(spec)
        parts = []
        for index, key in enumerate(spec.chunk_keys()):
            content = self._content(spec, key)
            count = min(spec.chunk[0], spec.shape[0] - index * spec.chunk[0])
            if spec.is_string:
                try:
                    parts.append(strings.decode(content, count))
                except ValueError as error:
                    raise self._damaged(f"{spec.name}/{key}: {error}") from error
            else:
                parts.append(np.frombuffer(content, spec.disk_dtype, count))
        return np.concatenate(parts)

    def require_unchanged(self, spec: ArraySpec) -> None:
        """Compare the bytes of a small array with its checksum, once.

        Raises StoreError where they differ.
        """
        if spec.name in self._unchanged:
            return
        if self._journal is None:
            same = (
                array_checksum(self._sums(spec, spec.chunk_keys()))
                == (self._record.checksums[spec.name])
            )
        else:
            same = all(
                list(self._sums(spec, spec.entry_keys(entry.block))) == entry.content[spec.name]
                for entry in self._journal
                if spec.name in entry.content
            )
        if not same:
            raise self._damaged(f"{spec.name} is not what was written")
        self._unchanged.add(spec.name)

    def _sums(self, spec: ArraySpec, keys: list[str]) -> Iterator[int]:
        self._bring([f"{spec.name}/{key}" for key in keys])  # together
        for key in keys:
            if spec.zstd is None:
                yield crc32c(self._content(spec, key))
            else:
                yield crc32c(self._chunk(spec, key).data.cast("B"))

    def _content(self, spec: ArraySpec, key: str) -> bytes:
        name = f"{spec.name}/{key}"
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):
                return (self._bring([name]) / name).read_bytes()
        raise self._damaged(f"{name} is missing")

    def _decompress(self, spec: ArraySpec, rows: np.ndarray, loops: range) -> np.ndarray:
        found = np.empty((len(rows), len(loops), *spec.shape[2:]), spec.disk_dtype)
        for block, at, within in by_block(rows, spec.chunk[0]) if len(rows) else ():
            if len(spec.shape) == 3:
                for column, loop in enumerate(loops):
                    chunk = self._chunk(spec, spec.key((block, loop, 0)))
                    found[at, column] = chunk[within, 0]
            else:
                chunk = self._chunk(spec, spec.key((block, 0)))
                found[at] = chunk[within, loops.start : loops.stop]
        return found

    def _chunk(self, spec: ArraySpec, key: str) -> np.ndarray:
        """A decompressed chunk."""
        name = f"{spec.name}/{key}"
        found = self._decoded.pop(name, None)
        if found is None:
            content = self._content(spec, key)
            if not self._is_as_recorded(name, content):
                raise self._damaged(f"{name} has changed since it was written")
            try:
                found = decompressed(content, spec)
            except ValueError as error:
                raise self._damaged(f"{name}: {error}") from None
            room = _DECODED_BYTES - found.nbytes
            while self._decoded and sum(c.nbytes for c in self._decoded.values()) > room:
                self._decoded.pop(next(iter(self._decoded)))
        self._decoded[name] = found  # the last is the most recently used
        return found

    def _bring(self, names: list[str]) -> Path:
        """A folder of this machine's that holds these files, unless they are nowhere, or another
        reader makes room for its own before they are opened."""
        if self._held is not None:
            self._held.require_there()
        return self._folder.fetch(names, self._identity, self._is_as_recorded)

    def _is_as_recorded(self, key: str, content: bytes) -> bool:
        """Whether a file that was brought here is what the journal says."""
        return self._recorded.get(key, None) in (None, crc32c(content))

    @cached_property
    def _recorded(self) -> dict[str, int]:
        """The CRC-32C of every chunk file, by key."""
        sums = {}
        for entry in self._journal or read_journal(self._folder):
            for name, crcs in entry.files.items():
                keys = self._specs[name].entry_keys(entry.block) if name in self._specs else []
                sums |= {f"{name}/{key}": crc for key, crc in zip(keys, crcs, strict=False)}
        return sums

    def _damaged(self, what: str) -> StoreError:
        return StoreError(f"store {self._folder.location} is damaged: {what}; {REPAIR}")
