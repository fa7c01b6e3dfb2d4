"""Writing a store so that a kill at any moment loses at most the block being written.

A block's chunk files are written and synced first; then one line in the journal says that they are
there, with their checksums. What the journal does not name does not exist. The journal's first line
does the same for the per-example columns. Completion replaces the group's zarr.json and removes the
journal.
"""

import dataclasses
import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from trajdiag.errors import ConfigError, StoreError
from trajdiag.store import durable
from trajdiag.store.columns import Columns, column_chunks
from trajdiag.store.fingerprint import array_checksum, crc32c, fingerprint
from trajdiag.store.record import StoreRecord
from trajdiag.store.schema import GROUP, ArraySpec, group_metadata

JOURNAL = "journal.jsonl"
_COLUMNS = "columns"
_DISCARDED = ".discarded"


class StoreWriter:
    """A store being written, or resumed; one process at a time.

    `pending` lists the blocks that are not yet there. Write each with `write_block`, then `finish`.
    """

    def __init__(
        self,
        path: Path,
        *,
        record: StoreRecord,
        columns: Columns,
        specs: Mapping[str, ArraySpec],
        attachments: Mapping[str, bytes | memoryview] | None = None,
    ) -> None:
        """Create the store at `path`, or take up an unfinished one of the same identity.

        Raises StoreError where `path` holds something else or cannot be written, ConfigError where
        it holds a store of another identity, or a complete one.
        """
        self.path = path
        self.specs = dict(specs)
        self._columns = columns.arrays()
        self._attachments = dict(attachments or {})
        """Whole files beside the arrays, by name."""
        self._journal: int | None = None
        found = existing_record(path)
        if found is not None:
            found.require_same(record, path)
            if found.complete:
                raise ConfigError(f"store {path} is complete; --overwrite makes it again")
            # the record on disk stays: a store keeps the time at which it was begun
            record = found
        self.record = record
        if found is None:
            with durable.disk_errors(path):
                path.mkdir(parents=True, exist_ok=True)
            self._write_group(record)
        self._lock()
        try:
            self._checksums = self._read_journal()
            if _COLUMNS in self._checksums:
                self._require_same_columns()
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
        """The blocks that are still to be written."""
        return [block for block in range(self.blocks) if str(block) not in self._checksums]

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
        if _COLUMNS not in self._checksums:
            self._create_arrays()
        sums: dict[str, list[int]] = {}
        files: dict[Path, memoryview] = {}
        for name, spec in self.specs.items():
            keys = spec.block_keys(block)
            chunks = _chunks(arrays[name], spec, len(keys))
            sums[name] = [crc32c(chunk) for chunk in chunks]
            files |= {self.path / name / key: c for key, c in zip(keys, chunks, strict=True)}
        durable.write_files(files)
        self._commit(str(block), sums)

    def finish(self) -> StoreRecord:
        """Mark the store complete, and give its record with the fingerprint."""
        if self.pending:
            raise StoreError(f"store {self.path} lacks blocks {self.pending}")
        columns = self._checksums[_COLUMNS]
        checksums = {name: array_checksum(columns[name]) for name in self._columns}
        for name in self.specs:
            blocks = (self._checksums[str(block)][name] for block in range(self.blocks))
            checksums[name] = array_checksum(crc for block in blocks for crc in block)
        specs = [spec for spec, _ in self._columns.values()] + list(self.specs.values())
        mark = fingerprint(record=self.record, specs=specs, checksums=checksums)
        self.record = dataclasses.replace(
            self.record, complete=True, fingerprint=mark, checksums=checksums
        )
        self._write_group(self.record)
        (self.path / JOURNAL).unlink()
        durable.sync_folder(self.path)
        self.close()
        return self.record

    def close(self) -> None:
        """Let another process take up the store."""
        if self._journal is not None:
            os.close(self._journal)
            self._journal = None

    def __enter__(self) -> "StoreWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write_group(self, record: StoreRecord) -> None:
        attributes = {"trajdiag": record.to_dict()}
        durable.write_file(self.path / GROUP, _json(group_metadata(attributes)))

    def _lock(self) -> None:
        with durable.disk_errors(self.path):
            self._journal = os.open(
                self.path / JOURNAL, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666
            )
        try:
            fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise StoreError(
                f"another process is writing {self.path}; wait for it, or stop it"
            ) from None

    def _read_journal(self) -> dict[str, dict[str, list[int]]]:
        """Checksums by block; a torn last line is cut off."""
        assert self._journal is not None
        whole, checksums = 0, {}
        for line in (self.path / JOURNAL).read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            try:
                entry = json.loads(line)
                checksums[str(entry["block"])] = dict(entry["crc32c"])
            except (ValueError, KeyError, TypeError):
                break
            whole += len(line)
        os.truncate(self._journal, whole)
        return checksums

    def _commit(self, block: str, sums: dict[str, list[int]]) -> None:
        assert self._journal is not None
        with durable.disk_errors(self.path):
            line = json.dumps({"block": block, "crc32c": sums}, separators=(",", ":"))
            durable.append(self._journal, line.encode() + b"\n")
        self._checksums[block] = sums

    def _create_arrays(self) -> None:
        """Make every array's folder and metadata, and write the per-example columns."""
        specs = {name: spec for name, (spec, _) in self._columns.items()} | self.specs
        groups = {str(Path(name).parent) for name in specs} - {"."}
        with durable.disk_errors(self.path):
            for name in specs:
                (self.path / name).mkdir(parents=True, exist_ok=True)
        files = {self.path / group / GROUP: _json(group_metadata()) for group in groups}
        sums: dict[str, list[int]] = {}
        for name, spec in specs.items():
            files[self.path / name / GROUP] = _json(spec.metadata())
            if name in self._columns:
                chunks = column_chunks(spec, self._columns[name][1])
                sums[name] = [crc32c(chunk) for chunk in chunks.values()]
                files |= {self.path / name / key: chunk for key, chunk in chunks.items()}
        files |= {self.path / name: content for name, content in self._attachments.items()}
        durable.write_files(files)
        for folder in {self.path, self.path.parent, *(self.path / group for group in groups)}:
            with durable.disk_errors(folder):
                durable.sync_folder(folder)
        self._commit(_COLUMNS, sums)

    def _require_same_columns(self) -> None:
        """A task that gives other examples the second time must not be mixed with the first."""
        for name, (spec, values) in self._columns.items():
            found = [crc32c(chunk) for chunk in column_chunks(spec, values).values()]
            if found != self._checksums[_COLUMNS].get(name):
                raise ConfigError(
                    f"store {self.path} was begun with other examples: {name} differs; a task must "
                    "make the same examples every time. --overwrite begins again"
                )

    def _columns_are_whole(self) -> bool:
        """Whether every array's metadata and every column are what they were written as."""
        specs = {name: spec for name, (spec, _) in self._columns.items()} | self.specs
        metadata = all(
            _content(self.path / name / GROUP) == _json(spec.metadata())
            for name, spec in specs.items()
        )
        return metadata and all(
            _content(self.path / name / key) == chunk
            for name, (spec, values) in self._columns.items()
            for key, chunk in column_chunks(spec, values).items()
        )

    def _drop_damaged_blocks(self) -> None:
        """Forget blocks whose files are not what the journal says: they are written again."""
        for block in [key for key in self._checksums if key != _COLUMNS]:
            sums = self._checksums[block]
            if not all(
                self._is_whole(spec, int(block), sums[name]) for name, spec in self.specs.items()
            ):
                del self._checksums[block]

    def _is_whole(self, spec: ArraySpec, block: int, sums: list[int]) -> bool:
        files = [self.path / spec.name / key for key in spec.block_keys(block)]
        return all(
            file.is_file() and crc32c(file.read_bytes()) == crc
            for file, crc in zip(files, sums, strict=True)
        )


def remove_store(path: Path) -> None:
    """Delete the store at `path`, if there is one; raises StoreError where it is not a store."""
    discarded = path.with_name(path.name + _DISCARDED)
    if existing_record(path) is None:
        remove_discarded(path)
        return
    with durable.disk_errors(path):
        # gone from its place at once: a kill half way leaves no ruin there
        shutil.rmtree(discarded, ignore_errors=True)
        path.rename(discarded)
        shutil.rmtree(discarded)


def remove_discarded(path: Path) -> None:
    """Delete what a killed `remove_store` left of an earlier store at `path`."""
    shutil.rmtree(path.with_name(path.name + _DISCARDED), ignore_errors=True)


def existing_record(path: Path) -> StoreRecord | None:
    """The record of the store at `path`; None where nothing is there."""
    if not path.exists() or _is_empty(path):
        return None
    try:
        group = json.loads((path / GROUP).read_text(encoding="utf-8"))
        return StoreRecord.from_dict(group["attributes"]["trajdiag"])
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(
            f"{path} exists and is not a store of this version; choose another --name, or move it "
            "away"
        ) from None


def _is_empty(path: Path) -> bool:
    return path.is_dir() and all(p.name.endswith(".partial") for p in path.iterdir())


def _content(file: Path) -> bytes | None:
    """The bytes of a file; None where there is none."""
    return file.read_bytes() if file.is_file() else None


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


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"
