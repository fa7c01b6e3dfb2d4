"""What is at a location: a store's record, its arrays' metadata, whether all files are there."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from trajdiag.errors import StoreError
from trajdiag.store.fingerprint import fingerprint
from trajdiag.store.folder import Folder, of_each
from trajdiag.store.journal import COMPLETE, JOURNAL, RECORD_COPY, Journal, read_journal
from trajdiag.store.lock import is_lock
from trajdiag.store.partial import is_partial
from trajdiag.store.record import (
    FIND,
    RECORD,
    REPAIR,
    StoreRecord,
    VersionError,
    parse_group_file,
)
from trajdiag.store.schema import GROUP, ArraySpec, group_metadata, is_array_name, metadata_file

_TRIES = 20
"""How often a folder is looked at that changes meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A store that was looked at, and whose files are there."""

    folder: Folder
    record: StoreRecord
    specs: dict[str, ArraySpec]
    journal: Journal | None
    """What is there of an unfinished one; None of a complete one."""


def open_files(folder: Folder, *, unfinished: bool) -> Opened:
    """The store in `folder`, an unfinished one only where that is asked for.

    Raises StoreError where it is absent, foreign, unfinished, of another schema version, or lacks
    bytes.
    """
    record = read_record(folder)
    if record.complete:
        sizes = folder.sizes()
        specs = read_specs(folder, record.checksums)
        require_as_recorded(folder, record, specs)
        for spec in specs.values():
            require_files(folder, sizes, spec, spec.chunk_keys())
        return Opened(folder=folder, record=record, specs=specs, journal=None)
    if not unfinished:
        raise StoreError(
            f"store {folder.location} is unfinished; run the command that began it again: "
            f"{' ; '.join(record.commands) or 'the same extraction'}"
        )
    journal = read_journal(folder)
    if journal.columns is None:
        raise StoreError(
            f"store {folder.location} is unfinished and holds nothing so far; run the command that "
            f"began it again: {' ; '.join(record.commands) or 'the same extraction'}"
        )
    sizes = folder.sizes()  # later than the journal, which a writer may lengthen meanwhile
    groups = {JOURNAL.rstrip("/"), *(name.partition("/")[0] for name in _nested(sizes))}
    ours = (key.removesuffix(f"/{GROUP}") for key in sizes if key.endswith(f"/{GROUP}"))
    specs = read_specs(folder, [n for n in ours if n not in groups and is_array_name(n)])
    for name in odd_shapes(specs.values()):
        raise StoreError(
            f"store {folder.location} is damaged: {name}/{GROUP} disagrees with those of other "
            f"arrays; {REPAIR}"
        )
    for entry in journal:
        for name in entry.files:
            if name not in specs:
                raise StoreError(f"store {folder.location} is damaged: {name} is missing; {REPAIR}")
            require_files(folder, sizes, specs[name], specs[name].entry_keys(entry.block))
    return Opened(folder=folder, record=record, specs=specs, journal=journal)


def _nested(keys: Iterable[str]) -> Iterator[str]:
    """Of the arrays inside groups, the files that describe them."""
    return (key for key in keys if key.endswith(f"/{GROUP}") and key.count("/") == 2)


def read_record(folder: Folder) -> StoreRecord:
    """What the store in `folder` says of itself. Raises StoreError where it is none of ours."""
    try:
        content = folder.read(GROUP)
    except FileNotFoundError:
        if not folder.exists():
            raise StoreError(f"no store at {folder.location}; {FIND}") from None
        content = b""
    return parse_group_file(content, folder.location)


def existing_record(folder: Folder) -> StoreRecord | None:
    """The record of the store in `folder`, from its second copy where the first is damaged; None
    where nothing is there.

    Raises StoreError where something else is.
    """
    before: list[str] | None = None
    for _ in range(_TRIES):
        files = _kept(folder)
        if not files:
            return None
        if files == before:  # else another process has put a store there, or away, meanwhile
            break
        other: VersionError | None = None
        for key in (GROUP, RECORD_COPY, COMPLETE):
            try:
                return parse_group_file(folder.read(key), folder.location)
            except VersionError as error:
                other = error  # or its number has changed, and a second copy tells
            except (StoreError, OSError):
                continue
        if other is not None:
            raise other
        if _was_cut_off(folder, files):
            return None
        before = files
    raise StoreError(
        f"{folder.location} exists and is not a store of this version; choose another --name, or "
        "move it away"
    )


def _kept(folder: Folder) -> list[str]:
    """The files that tell of a store: no locks, and none that is being written."""
    return [key for key in folder.sizes() if not is_lock(key) and not is_partial(key)]


def read_specs(folder: Folder, names: Iterable[str]) -> dict[str, ArraySpec]:
    """The specs of these arrays, by name. Raises StoreError where one's metadata is damaged."""
    names = list(names)
    specs = of_each(folder, lambda name: read_spec(folder, name), names)
    return dict(zip(names, specs, strict=True))


def odd_shapes(specs: Iterable[ArraySpec]) -> list[str]:
    """The arrays whose examples, loops or blocks are not those of most others of the store."""

    specs = list(specs)
    if not specs:
        return []
    ((examples, _),) = Counter(spec.shape[0] for spec in specs).most_common(1)
    of_blocks = {spec.name: (spec.shape[1], spec.chunk[0]) for spec in specs if spec.shape[1:]}
    usual = next(iter(Counter(of_blocks.values()).most_common(1)), (None,))[0]
    return [
        spec.name
        for spec in specs
        if spec.shape[0] != examples or of_blocks.get(spec.name, usual) != usual
    ]


def is_record(folder: Folder, key: str) -> bool:
    """Whether this file of a store is a record that can be read."""
    try:
        parse_group_file(folder.read(key), folder.location)
    except (StoreError, FileNotFoundError):
        return False
    return True


def _was_cut_off(folder: Folder, files: list[str]) -> bool:
    """Whether nothing is there but the record of a store that was just begun, cut off."""
    if files != [GROUP]:
        return False
    try:
        content = folder.read(GROUP)
    except FileNotFoundError:
        return False
    begin = metadata_file(group_metadata({RECORD: {}}))
    begin = begin[: begin.index(RECORD.encode())]
    return content.startswith(begin[: len(content)]) and not content.endswith(b"}\n")


def read_spec(folder: Folder, name: str) -> ArraySpec:
    """The spec of one array. Raises StoreError where its metadata is damaged."""
    try:
        return ArraySpec.from_metadata(name, json.loads(folder.read(f"{name}/{GROUP}")))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(
            f"store {folder.location} is damaged: array {name}: {error}; {REPAIR}"
        ) from None


def require_as_recorded(folder: Folder, record: StoreRecord, specs: dict[str, ArraySpec]) -> None:
    """The fingerprint covers the metadata too: shapes, types, model, task and checksums."""
    found = fingerprint(record=record, specs=specs.values(), checksums=record.checksums)
    if found != record.fingerprint:
        raise StoreError(
            f"store {folder.location} is damaged: its metadata is not what it was made with; "
            f"{REPAIR}"
        )


def require_files(
    folder: Folder, sizes: Mapping[str, int], spec: ArraySpec, keys: Iterable[str]
) -> None:
    """Raise StoreError unless these chunk files of an array are among `sizes` (bytes by key of the
    store), whole."""
    for key in keys:
        size = sizes.get(f"{spec.name}/{key}")
        if size is None:
            raise StoreError(
                f"store {folder.location} is damaged: {spec.name}/{key} is missing; {REPAIR}"
            )
        if spec.has_plain_files and size != spec.chunk_bytes:
            raise StoreError(
                f"store {folder.location} is damaged: {spec.name}/{key} has {size} bytes, "
                f"not {spec.chunk_bytes}; {REPAIR}"
            )


def require_attachments(folder: Folder, record: StoreRecord) -> None:
    """Raise StoreError unless the whole files beside the arrays are there. A store that lacks one
    can be opened, and read but for what needs it."""
    sizes = folder.sizes()
    for name in record.attachments:
        if name not in sizes:
            raise StoreError(f"store {folder.location} is damaged: {name} is missing; {REPAIR}")
