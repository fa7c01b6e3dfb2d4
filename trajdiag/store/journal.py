"""The journal of a store: what is written, with checksums. What it does not name does not exist.

While a store is written it is made of lines, each an entry with a checksum of its own, in files
`journal/*.jsonl`: where files can grow, one a shard, else one an entry. A complete store has all
entries in the attributes of the Zarr group `journal`, with a second copy of its record, so that
nothing in it is foreign to other Zarr readers.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from trajdiag.errors import StoreError
from trajdiag.store.checksum import crc32c
from trajdiag.store.folder import Folder, of_each
from trajdiag.store.record import StoreRecord, group_attributes
from trajdiag.store.schema import GROUP, group_metadata, metadata_file

JOURNAL = "journal/"
COMPLETE = JOURNAL + GROUP
RECORD_COPY = JOURNAL + "record.json"
"""The second copy of an unfinished store's record."""
_ENTRIES = "trajdiag_journal"
_LINES = re.compile(rf"{JOURNAL}\d+-of-\d+(\.[^/.]+)?\.jsonl")
COLUMNS = "columns"

Sums = Mapping[str, list[int]]
"""By array, the CRC-32C of chunk files: of a column all of them, else a block's, in loop order."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line: that a block, or all per-example columns, are there."""

    block: int | None
    """None for the columns."""
    files: Sums
    """Of the files as they lie on disk."""
    content: Sums
    """Of the numbers in them; the same unless they are compressed."""

    def values(self) -> dict[str, Any]:
        """As JSON keeps it, with its own checksum."""
        values: dict[str, Any] = {"block": COLUMNS if self.block is None else self.block}
        values["crc32c"] = self.files
        if self.content != self.files:
            values["content_crc32c"] = self.content
        return values | {"check": crc32c(_canonical(values))}

    @classmethod
    def parse(cls, values: Any) -> "Entry | None":
        """The entry of JSON `values`; None where they have changed."""
        try:
            rest = {key: value for key, value in values.items() if key != "check"}
            if crc32c(_canonical(rest)) != values["check"]:
                return None
            block, files = rest["block"], rest["crc32c"]
            content = rest.get("content_crc32c", files)
            if not (_are_sums(files) and _are_sums(content)) or files.keys() != content.keys():
                return None
            if block != COLUMNS and not (type(block) is int and block >= 0):
                return None
            return cls(block=None if block == COLUMNS else block, files=files, content=content)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None


@dataclass(kw_only=True)
class Journal:
    """What all writers of a store have recorded."""

    columns: Entry | None = None
    blocks: dict[int, Entry] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)
    """By file, lines that are torn or have changed."""
    rivals: dict[int, list[Entry]] = field(default_factory=dict)
    """Earlier entries of blocks that say otherwise than the one that stands."""

    def __iter__(self) -> Iterator[Entry]:
        """The entries, columns first, then by block."""
        if self.columns is not None:
            yield self.columns
        for block in sorted(self.blocks):
            yield self.blocks[block]

    def add(self, entry: Entry) -> None:
        """Of two entries of one block the later stands."""
        if entry.block is None:
            self.columns = entry
            return
        earlier = self.blocks.get(entry.block, entry)
        if earlier != entry:
            self.rivals.setdefault(entry.block, []).append(earlier)
        self.blocks[entry.block] = entry

    def complete_file(self, record: StoreRecord) -> bytes:
        """The zarr.json of a complete store's journal, with a copy of the store's record."""
        entries = [entry.values() for entry in self]
        return metadata_file(group_metadata({_ENTRIES: entries, **group_attributes(record)}))


def read_journal(folder: Folder, blocks: int | None = None) -> Journal:
    """What is recorded of the store in `folder`, of so many blocks.

    Raises StoreError for an entry of a block that the store cannot have.
    """
    while True:
        try:
            return _read(folder, blocks)
        except FileNotFoundError:
            continue  # another writer has just completed the store


def _read(folder: Folder, blocks: int | None) -> Journal:
    found = Journal()
    keys = journal_keys(folder)
    for key, content in zip(keys, of_each(folder, folder.read, keys), strict=True):
        for values in _entries(key, content):
            entry = Entry.parse(values)
            if entry is None:
                found.broken[key] = found.broken.get(key, 0) + 1
                continue
            if entry.block is not None and not 0 <= entry.block < (blocks or entry.block + 1):
                raise StoreError(
                    f"{key} of store {folder.location} names block {entry.block}, and the store "
                    f"has {blocks}; remove that file and run the extraction again"
                )
            found.add(entry)
    return found


def _entries(key: str, content: bytes) -> list[Any]:
    """What one file of the journal holds; None for what is torn or no JSON."""
    if key == COMPLETE:
        try:
            return list(json.loads(content)["attributes"][_ENTRIES])
        except (ValueError, KeyError, TypeError, RecursionError):
            return [None, *_salvaged(content.decode(errors="replace"))]
    return [_json(line) for line in content.splitlines(keepends=True)]


def _salvaged(text: str) -> Iterator[Any]:
    """The entries that can still be read in a file that is no JSON any more: each has a checksum
    of its own."""
    for begin in re.finditer(r'\{\s*"block"', text):
        with suppress(ValueError, RecursionError):
            yield json.JSONDecoder().raw_decode(text, begin.start())[0]


def _json(line: bytes) -> Any:
    try:
        return json.loads(line) if line.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None


def journal_keys(folder: Folder) -> list[str]:
    """The journal's files: that of a complete store, then those of shards, by name."""
    keys = folder.sizes()
    return [COMPLETE] * (COMPLETE in keys) + sorted(key for key in keys if is_journal(key))


def is_journal(key: str) -> bool:
    """Whether a file is one of a store that is being written, in which entries are lines."""
    return _LINES.fullmatch(key) is not None


def record_entry(folder: Folder, writer: str, entry: Entry) -> None:
    """Write an entry down, durably."""
    line = _canonical(entry.values()) + b"\n"
    if folder.appends:
        folder.append(f"{JOURNAL}{writer}.jsonl", line)
    else:
        name = COLUMNS if entry.block is None else f"{entry.block:08d}"
        folder.write({f"{JOURNAL}{writer}.{name}.jsonl": line})


def _are_sums(values: Any) -> bool:
    """Whether JSON `values` are Sums."""
    return isinstance(values, dict) and all(
        isinstance(sums, list) and all(type(crc) is int and 0 <= crc < 2**32 for crc in sums)
        for sums in values.values()
    )


def _canonical(values: Mapping[str, object]) -> bytes:
    return json.dumps(values, separators=(",", ":"), ensure_ascii=True).encode()
