"""Making a damaged store ready to be written again, but for what is whole."""

import dataclasses
from collections.abc import Callable, Mapping

from trajdiag.store.folder import Folder
from trajdiag.store.inspection import Inspection, inspect, readable_specs, whole_sums
from trajdiag.store.journal import COMPLETE, Entry, Journal, read_journal
from trajdiag.store.record import StoreRecord, group_file
from trajdiag.store.schema import GROUP, ArraySpec
from trajdiag.store.writer import tidy

Progress = Callable[[str], None]


def needs_writing(folder: Folder, record: StoreRecord | None, progress: Progress) -> bool:
    """Whether the store in `folder`, whose record this is (None where there is none), is to be
    written, wholly or in parts; a complete one of which files are damaged is made ready for it.

    Reads every byte of a complete store, unless an object store holds it, which checks its objects
    itself.
    """
    if record is None or not record.complete:
        return True
    tidy(folder)
    if not folder.appends:
        return False
    found = inspect(folder)
    for damage in found.damage:
        progress(f"store {folder.location} is damaged: {damage}")
    if found.damage:
        reopen(folder, record)
    return bool(found.damage)


def say_changed(
    folder: Folder, before: StoreRecord | None, after: StoreRecord | None, progress: Progress
) -> None:
    """Tell where a repaired store is not what it was `before`."""
    if (
        before is not None
        and before.fingerprint is not None
        and after is not None
        and after.fingerprint != before.fingerprint
    ):
        progress(
            f"store {folder.location} is not what it was: fingerprint {after.fingerprint}, was "
            f"{before.fingerprint}; this machine or its software rounds otherwise, and gates that "
            "were fitted on it must be fitted again"
        )


def reopen(folder: Folder, record: StoreRecord) -> None:
    """Turn a complete store whose files are damaged into an unfinished one, so that what is
    damaged is written again; what is whole stays."""
    specs = dict(readable_specs(folder, list(record.checksums), Inspection()))
    journal = read_journal(folder)
    rebuilt = _rebuilt(folder, record, specs, journal)
    unfinished = dataclasses.replace(record, complete=False, checksums={})
    folder.write({COMPLETE: rebuilt.complete_file(unfinished)})
    folder.write({GROUP: group_file(unfinished)})


def _rebuilt(
    folder: Folder, record: StoreRecord, specs: Mapping[str, ArraySpec], journal: Journal
) -> Journal:
    """The journal, its lost entries made again where the arrays' own checksums prove them."""
    if not journal.broken or any(spec.zstd is not None for spec in specs.values()):
        return journal
    sums = {name: whole_sums(folder, spec, record.checksums[name]) for name, spec in specs.items()}
    known = {name: found for name, found in sums.items() if found is not None}
    whole = Journal(columns=journal.columns, blocks=dict(journal.blocks))
    columns = [name for name, spec in specs.items() if len(spec.shape) == 1]
    if whole.columns is None and all(name in known for name in columns):
        of_columns = {name: known[name] for name in columns}
        whole.add(Entry(block=None, files=of_columns, content=of_columns))
    by_block = {name: spec for name, spec in specs.items() if len(spec.shape) > 1}
    if len(specs) < len(record.checksums) or any(name not in known for name in by_block):
        return whole
    for block in range(by_block["hidden"].grid[0]):
        of_block = {}
        for name, spec in by_block.items():
            count = len(spec.block_keys(block))
            of_block[name] = known[name][block * count : (block + 1) * count]
        whole.blocks.setdefault(block, Entry(block=block, files=of_block, content=of_block))
    return whole
