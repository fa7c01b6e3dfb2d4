"""Making a damaged store ready to be written again, but for what is whole."""

import dataclasses
from collections.abc import Mapping
from contextlib import suppress

from trajdiag.errors import StoreError
from trajdiag.progress import Progress
from trajdiag.store.folder import Folder
from trajdiag.store.inspection import Inspection, inspect, readable_specs, whole_sums
from trajdiag.store.journal import COMPLETE, Entry, Journal, read_journal
from trajdiag.store.opening import open_files, require_attachments
from trajdiag.store.record import StoreRecord, group_file
from trajdiag.store.removal import tidy
from trajdiag.store.schema import GROUP, ArraySpec
from trajdiag.store.writer import file_sum


def needs_writing(folder: Folder, record: StoreRecord | None, progress: Progress) -> bool:
    """Whether the store in `folder`, whose record this is (None where there is none), is to be
    written, wholly or in parts; a complete one of which files are damaged is made ready for it.

    Reads every byte of a complete store; of one that is far away, which file is missing.
    """
    if record is None or not record.complete:
        return True
    with suppress(StoreError):  # one that may only be read can be used all the same
        tidy(folder)
    if not folder.appends:
        # an object store checks its objects itself, and all of them would have to be brought here
        try:
            open_files(folder, unfinished=False)
            require_attachments(folder, record)
        except StoreError as error:
            progress(str(error))
            reopen(folder, record)
            return True
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
    blocks = specs["hidden"].grid[0] if "hidden" in specs else 0
    if not journal.broken and journal.columns is not None and len(journal.blocks) >= blocks:
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
    for block in set(range(blocks)) - set(whole.blocks):
        content, files = {}, {}
        for name, spec in by_block.items():
            keys = spec.block_keys(block)
            content[name] = known[name][block * len(keys) : (block + 1) * len(keys)]
            files[name] = content[name]
            if spec.zstd is not None:
                files[name] = [file_sum(folder, f"{name}/{key}") for key in keys]
        whole.add(Entry(block=block, files=files, content=content))
    return whole
