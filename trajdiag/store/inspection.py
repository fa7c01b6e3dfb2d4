"""Reading every byte of a store and comparing it with what was recorded."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from trajdiag.errors import StoreError
from trajdiag.store.checksum import array_checksum, crc32c
from trajdiag.store.compression import decompressed
from trajdiag.store.fingerprint import fingerprint
from trajdiag.store.folder import BLOCKS_AT_ONCE, Folder, of_each
from trajdiag.store.journal import (
    COMPLETE,
    RECORD_COPY,
    Journal,
    is_journal,
    read_journal,
)
from trajdiag.store.lock import is_lock
from trajdiag.store.opening import existing_record, is_record, odd_shapes, read_spec
from trajdiag.store.own_files import is_own
from trajdiag.store.partial import is_partial
from trajdiag.store.record import FIND, StoreRecord, group_file
from trajdiag.store.schema import GROUP, ArraySpec, group_metadata, metadata_file


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One file that is not what was written."""

    key: str
    problem: str

    def __str__(self) -> str:
        return f"{self.key} {self.problem}"


@dataclass(kw_only=True)
class Inspection:
    """What was found."""

    damage: list[Damage] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    """Files that trajdiag did not write; they are left alone."""
    blocks: int = 0
    """Blocks recorded and read."""
    bytes: int = 0
    """Bytes read."""


def inspect(folder: Folder) -> Inspection:
    """Compare every file of the store in `folder`, complete or not, with its journal.

    Raises StoreError where no store of this version is there.
    """
    record = existing_record(folder)
    if record is None:
        raise StoreError(f"no store at {folder.location}; {FIND}")
    found = Inspection()
    journal = read_journal(folder)
    sizes = folder.sizes()
    expected = {GROUP}
    _compare(folder, GROUP, group_file(record), found)
    if record.complete:
        expected.add(COMPLETE)
        _compare(folder, COMPLETE, journal.complete_file(record), found)
        names = list(record.checksums)
    else:
        found.damage += [
            Damage(key=key, problem=f"has {count} torn or changed lines")
            for key, count in journal.broken.items()
        ]
        if RECORD_COPY in sizes and not is_record(folder, RECORD_COPY):
            problem = "has changed since it was written"
            found.damage.append(Damage(key=RECORD_COPY, problem=problem))
        names = list({name: None for entry in journal for name in entry.files})
    specs = dict(readable_specs(folder, names, found))
    for group in {name.rpartition("/")[0] for name in names} - {""}:
        expected.add(f"{group}/{GROUP}")
        _compare(folder, f"{group}/{GROUP}", metadata_file(group_metadata()), found)
    # the fingerprint does not tell a level, which is the same for all blocks
    levels = Counter(spec.zstd for spec in specs.values() if len(spec.shape) > 1)
    for name, spec in specs.items():
        if len(spec.shape) > 1:
            spec = dataclasses.replace(spec, zstd=levels.most_common(1)[0][0])
        _compare(folder, f"{name}/{GROUP}", metadata_file(spec.metadata()), found)
    for name in odd_shapes(specs.values()):
        problem = "disagrees with those of other arrays"
        found.damage.append(Damage(key=f"{name}/{GROUP}", problem=problem))
    if record.complete and len(specs) == len(names):
        _require_whole(folder, record, specs, journal, found)
    expected |= {f"{name}/{GROUP}" for name in names}
    recorded = [*record.attachments.items(), *_files(journal)]
    expected |= {key for key, _ in recorded}
    for count, damage in of_each(
        folder, lambda file: _checked(folder, sizes, *file), recorded, BLOCKS_AT_ONCE
    ):
        found.bytes += count
        found.damage += damage
    found.blocks = len(journal.blocks)
    found.foreign = [
        key
        for key in sizes
        # what is being written is not recorded so far
        if key not in expected and not (_passing(key) if record.complete else is_own(key))
    ]
    return found


def readable_specs(
    folder: Folder, names: list[str], found: Inspection
) -> Iterator[tuple[str, ArraySpec]]:
    """Those of the arrays whose metadata can be read, by name; the others are damage `found`."""
    for name in names:
        try:
            yield name, read_spec(folder, name)
        except StoreError as error:
            problem = str(error).partition("is damaged: ")[2].partition("; ")[0]
            found.damage.append(Damage(key=f"{name}/{GROUP}", problem=f"is unreadable: {problem}"))


def _require_whole(
    folder: Folder,
    record: StoreRecord,
    specs: Mapping[str, ArraySpec],
    journal: Journal,
    found: Inspection,
) -> None:
    """The journal must add up to the record, and the metadata to its fingerprint."""
    mark = fingerprint(record=record, specs=specs.values(), checksums=record.checksums)
    if mark != record.fingerprint:
        found.damage.append(
            Damage(key=GROUP, problem="and the arrays' metadata disagree with the fingerprint")
        )
        return
    for name, spec in specs.items():
        if array_checksum(_recorded(journal, spec)) == record.checksums[name]:
            continue
        if COMPLETE not in {damage.key for damage in found.damage}:
            found.damage.append(Damage(key=COMPLETE, problem="does not add up to the record"))
        if whole_sums(folder, spec, record.checksums[name]) is None:
            problem = "has changed since it was written; in which file, the journal cannot tell"
            found.damage.append(Damage(key=name, problem=problem))


def _recorded(journal: Journal, spec: ArraySpec) -> list[int]:
    """The checksums of an array's chunks, as far as the journal has them."""
    if len(spec.shape) == 1:
        return [] if journal.columns is None else list(journal.columns.content.get(spec.name, []))
    blocks = (journal.blocks.get(block) for block in range(spec.grid[0]))
    return [crc for entry in blocks if entry for crc in entry.content.get(spec.name, [])]


def whole_sums(folder: Folder, spec: ArraySpec, checksum: str) -> list[int] | None:
    """The checksums of an array's chunks, from the files; None where they are not `checksum`'s."""
    sums = []
    try:
        for key in spec.chunk_keys():
            content = folder.read(f"{spec.name}/{key}")
            sums.append(
                crc32c(content)
                if spec.zstd is None
                else crc32c(decompressed(content, spec).data.cast("B"))
            )
    except (FileNotFoundError, ValueError):
        return None
    return sums if array_checksum(sums) == checksum else None


def _files(journal: Journal) -> Iterator[tuple[str, int]]:
    """Every chunk file that is recorded, and its checksum; also of arrays whose metadata is lost:
    where a block has several files there is one a loop."""
    for entry in journal:
        for name, sums in entry.files.items():
            for index, crc in enumerate(sums):
                if entry.block is None:
                    key = ArraySpec.key((index,))
                elif len(sums) == 1:
                    key = ArraySpec.key((entry.block, 0))
                else:
                    key = ArraySpec.key((entry.block, index, 0))
                yield f"{name}/{key}", crc


def _checked(
    folder: Folder, sizes: Mapping[str, int], key: str, crc: int
) -> tuple[int, list[Damage]]:
    """The bytes read, and what is wrong with a file."""
    if key not in sizes:
        return 0, [Damage(key=key, problem="is missing")]
    content = folder.read(key)
    if crc32c(content) == crc:
        return len(content), []
    return len(content), [Damage(key=key, problem="has changed since it was written")]


def _compare(folder: Folder, key: str, expected: bytes, found: Inspection) -> None:
    try:
        content = folder.read(key)
    except FileNotFoundError:
        found.damage.append(Damage(key=key, problem="is missing"))
        return
    found.bytes += len(content)
    if content != expected:
        found.damage.append(Damage(key=key, problem="has changed since it was written"))


def _passing(key: str) -> bool:
    """Whether a file belongs to the writing of the store, not to the store."""
    return is_lock(key) or is_partial(key) or key in (RECORD_COPY, COMPLETE) or is_journal(key)
