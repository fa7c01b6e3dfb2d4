"""Writing a store so that a kill at any moment loses at most the block being written.

A block's chunk files are written and synced first; then an entry of the journal says that they are
there, with their checksums. The journal's first entry does the same for the per-example columns.
Several processes may write one store, each the blocks of its shard; whoever finds that nothing is
missing completes it, by replacing the group's zarr.json.
"""

import dataclasses
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from trajdiag.errors import ConfigError, StoreError
from trajdiag.store.checksum import array_checksum, crc32c
from trajdiag.store.columns import Columns, column_chunks
from trajdiag.store.compression import compressed
from trajdiag.store.fingerprint import fingerprint
from trajdiag.store.folder import Content, Folder, open_folder
from trajdiag.store.journal import (
    COMPLETE,
    RECORD_COPY,
    Entry,
    Journal,
    read_journal,
    record_entry,
)
from trajdiag.store.lock import Lock
from trajdiag.store.opening import existing_record, is_record
from trajdiag.store.record import StoreRecord, group_file
from trajdiag.store.removal import tidy
from trajdiag.store.schema import GROUP, ArraySpec, group_metadata, metadata_file
from trajdiag.store.shard import WHOLE, Shard


class StoreWriter:
    """A shard of a store being written, or resumed; one process at a time.

    `pending` lists the shard's blocks that are not yet there. Write each with `write_block`, then
    `finish`.
    """

    def __init__(
        self,
        location: str | os.PathLike[str] | Folder,
        *,
        record: StoreRecord,
        columns: Columns,
        specs: Mapping[str, ArraySpec],
        attachments: Mapping[str, Content] | None = None,
        shard: Shard = WHOLE,
        lock: Lock | None = None,
    ) -> None:
        """Create the store at `location`, or take up an unfinished one of the same identity.

        `attachments` are whole files beside the arrays; `lock` is the shard's, where it is held
        already, and is released in the end. Raises StoreError where `location` holds
        something else, cannot be written, or is being written; ConfigError where it holds a store
        of another identity, or a complete one.
        """
        is_place = isinstance(location, str | os.PathLike)
        self._folder = open_folder(location) if is_place else location
        self.location = self._folder.location
        self.specs = dict(specs)
        self._shard = shard
        self._columns = columns.arrays()
        self._attachments = dict(attachments or {})
        self._found(record)  # before there is a lock in what is another's
        self._lock = Lock(self._folder, shard) if lock is None else lock
        try:
            self.record = self._create(record)
            self._folder.remove_leftovers()
            self._journal = self._read_journal()
            if self._journal.columns is not None:
                self._require_same_columns(self._journal.columns)
                if not self._columns_are_whole():
                    self._create_arrays()
            self._drop_damaged_blocks()
        except BaseException:
            self.close()
            raise

    @property
    def blocks(self) -> int:
        return self.specs["hidden"].grid[0]

    @property
    def pending(self) -> list[int]:
        """The shard's blocks that are still to be written."""
        there = self._journal.blocks
        return [block for block in self._shard.blocks(self.blocks) if block not in there]

    def rows(self, block: int) -> range:
        """The examples of a block."""
        size = self.specs["hidden"].chunk[0]
        return range(block * size, min((block + 1) * size, len(self)))

    def __len__(self) -> int:
        return self.specs["hidden"].shape[0]

    def write_block(self, block: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a block durably, and before the first the per-example columns.

        `arrays` holds, for every array of `specs`, the block's chunks in loop order as they lie on
        disk, padded to the full block: [loop, example, ...] for `hidden` and `logits`, [example,
        loop] for the others.
        """
        if self._lock.is_lost:
            raise StoreError(
                f"another process took this one for dead and writes {self._shard} of "
                f"{self.location}; run the same command again once it has ended"
            )
        if self._journal.columns is None:
            self._create_arrays()
        content: dict[str, list[Content]] = {}
        on_disk: dict[str, list[Content]] = {}
        files: dict[str, Content] = {}
        for name, spec in self.specs.items():
            keys = spec.block_keys(block)
            content[name] = on_disk[name] = list(_chunks(arrays[name], spec, len(keys)))
            if spec.zstd is not None:
                on_disk[name] = [compressed(chunk, spec.zstd) for chunk in content[name]]
            files |= zip((f"{name}/{key}" for key in keys), on_disk[name], strict=True)
        with ThreadPoolExecutor(1) as thread:  # what checksums cost is hidden by the disk
            writing = thread.submit(self._folder.write, files)
            sums = {name: [crc32c(chunk) for chunk in chunks] for name, chunks in content.items()}
            of_files = {
                name: sums[name] if chunks is content[name] else [crc32c(c) for c in chunks]
                for name, chunks in on_disk.items()
            }
            writing.result()
        self._record(Entry(block=block, files=of_files, content=sums))

    def missing(self) -> list[int]:
        """The blocks, of any shard, that nobody has recorded so far."""
        there = self._read_journal().blocks
        return [block for block in range(self.blocks) if block not in there]

    def finish(self) -> StoreRecord | None:
        """Mark the store complete, and give its record with the fingerprint; None where blocks of
        other shards are missing."""
        if self.pending:
            raise StoreError(f"store {self.location} lacks blocks {self.pending}")
        if self._journal.columns is None and self._read_journal().columns is None:
            self._create_arrays()  # all blocks are there, and only this line was lost
        journal = self._believed(self._read_journal())
        if journal.columns is None or len(journal.blocks) < self.blocks:
            return None
        columns = journal.columns.content
        checksums = {name: array_checksum(columns[name]) for name in self._columns}
        for name in self.specs:
            blocks = (journal.blocks[block].content[name] for block in range(self.blocks))
            checksums[name] = array_checksum(crc for block in blocks for crc in block)
        specs = [spec for spec, _ in self._columns.values()] + list(self.specs.values())
        mark = fingerprint(record=self.record, specs=specs, checksums=checksums)
        self.record = dataclasses.replace(
            self.record, complete=True, fingerprint=mark, checksums=checksums
        )
        self._folder.write({COMPLETE: journal.complete_file(self.record)})
        self._folder.write({GROUP: group_file(self.record)})
        tidy(self._folder)
        self.close()
        return self.record

    def close(self) -> None:
        """Let another process take up the shard."""
        self._lock.release()

    def __enter__(self) -> "StoreWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _create(self, record: StoreRecord) -> StoreRecord:
        """The record of the store that is there, or that is hereby begun: a store keeps the time
        at which it was."""
        found = self._found(record)
        if found is None and not self._folder.create(GROUP, group_file(record)):
            found = self._found(record)  # of another shard
            if found is None:  # what is there was cut off when the power was
                self._folder.write({GROUP: group_file(record)})
        found = found or self._found(record)
        assert found is not None
        lost = [key for key in (GROUP, RECORD_COPY) if not is_record(self._folder, key)]
        self._folder.write(dict.fromkeys(lost, group_file(found)))
        return found

    def _found(self, record: StoreRecord) -> StoreRecord | None:
        """The record of the store that is there. Raises ConfigError where it is complete, or not
        the one of `record`."""
        found = existing_record(self._folder)
        if found is not None:
            found.require_same(record, self.location)
            if found.complete:
                raise ConfigError(f"store {self.location} is complete; --overwrite makes it again")
        return found

    def _read_journal(self) -> Journal:
        return read_journal(self._folder, self.blocks)

    def _believed(self, journal: Journal) -> Journal:
        """The journal of all shards, in which entries that were seen to be true stand before
        others of their block."""
        journal.columns = self._journal.columns or journal.columns
        journal.blocks |= self._journal.blocks
        for block in set(journal.rivals) - set(self._journal.blocks):
            self._settle(journal, block)
        return journal

    def _record(self, entry: Entry) -> None:
        record_entry(self._folder, self._shard.name, entry)
        self._journal.add(entry)

    def _array_specs(self) -> dict[str, ArraySpec]:
        return {name: spec for name, (spec, _) in self._columns.items()} | self.specs

    def _metadata(self) -> dict[str, bytes]:
        """Every array's and inner group's zarr.json."""
        specs = self._array_specs()
        groups = {name.rpartition("/")[0] for name in specs} - {""}
        return {f"{group}/{GROUP}": metadata_file(group_metadata()) for group in groups} | {
            f"{name}/{GROUP}": metadata_file(spec.metadata()) for name, spec in specs.items()
        }

    def _column_files(self) -> dict[str, Content]:
        return {
            f"{name}/{key}": chunk
            for name, (spec, values) in self._columns.items()
            for key, chunk in column_chunks(spec, values).items()
        }

    def _create_arrays(self) -> None:
        """Write every array's metadata, the per-example columns and the attachments."""
        attached = {name: crc32c(content) for name, content in self._attachments.items()}
        if attached != self.record.attachments:  # by a shard on a machine that rounds otherwise
            self.record = dataclasses.replace(self.record, attachments=attached)
            self._folder.write(dict.fromkeys((RECORD_COPY, GROUP), group_file(self.record)))
        columns = self._column_files()
        self._folder.write({**self._metadata(), **columns, **self._attachments})
        sums = self._column_sums(columns)
        self._record(Entry(block=None, files=sums, content=sums))

    def _column_sums(self, files: Mapping[str, Content]) -> dict[str, list[int]]:
        return {
            name: [crc32c(files[f"{name}/{key}"]) for key in spec.chunk_keys()]
            for name, (spec, _) in self._columns.items()
        }

    def _require_same_columns(self, entry: Entry) -> None:
        """A task that gives other examples the second time must not be mixed with the first."""
        for name, sums in self._column_sums(self._column_files()).items():
            if sums != entry.content.get(name):
                raise ConfigError(
                    f"store {self.location} was begun with other examples: {name} differs; a task "
                    "must make the same examples every time. --overwrite begins again"
                )

    def _columns_are_whole(self) -> bool:
        """Whether every array's metadata, every column and attachment is what was written."""
        try:
            return all(
                self._folder.read(key) == content
                for key, content in {**self._metadata(), **self._column_files()}.items()
            ) and all(
                crc32c(self._folder.read(name)) == self.record.attachments.get(name)
                for name in self._attachments
            )
        except FileNotFoundError:
            return False

    def _drop_damaged_blocks(self) -> None:
        """Forget blocks of the shard whose files are not what the journal says: they are written
        again."""
        mine = set(self._shard.blocks(self.blocks))
        sizes = self._folder.sizes()
        for block in set(self._journal.blocks):
            if block in mine:
                self._settle(self._journal, block, sizes)
            else:
                del self._journal.blocks[block]

    def _settle(self, journal: Journal, block: int, sizes: Mapping[str, int] | None = None) -> None:
        """Leave of a block the entry that its files agree with, or none."""
        sizes = self._folder.sizes() if sizes is None else sizes
        entries = [journal.blocks.pop(block), *journal.rivals.get(block, ())]
        true = next((entry for entry in entries if self._is_whole(block, entry, sizes)), None)
        if true is not None:
            journal.blocks[block] = true

    def _is_whole(self, block: int, entry: Entry, sizes: Mapping[str, int]) -> bool:
        for name, spec in self.specs.items():
            keys = [f"{name}/{key}" for key in spec.block_keys(block)]
            if len(entry.files.get(name, ())) != len(keys) or not all(k in sizes for k in keys):
                return False
            if spec.has_plain_files and any(sizes[key] != spec.chunk_bytes for key in keys):
                return False
            # an object store checks its objects itself, and reading all would cost as much as they
            if self._folder.appends and [file_sum(self._folder, key) for key in keys] != list(
                entry.files[name]
            ):
                return False
        return True


def file_sum(folder: Folder, key: str) -> int:
    """The CRC-32C of a file."""
    return crc32c(folder.read(key))


def _chunks(array: np.ndarray, spec: ArraySpec, count: int) -> list[memoryview]:
    """The bytes of a block's chunks; no copy."""
    shape = (count, spec.chunk_bytes // spec.disk_dtype.itemsize)
    if (
        array.dtype != spec.disk_dtype
        or not array.flags.c_contiguous
        or array.size != np.prod(shape)
    ):
        raise ValueError(f"{spec.name}: {array.dtype} {array.shape} is not the block of {spec}")
    return [chunk.data.cast("B") for chunk in array.reshape(shape)]
