"""Removing a store, or what its writing has left."""

from collections.abc import Iterator
from contextlib import contextmanager

from trajdiag.errors import StoreError
from trajdiag.store.folder import Folder
from trajdiag.store.journal import COMPLETE, RECORD_COPY, journal_keys
from trajdiag.store.lock import Lock, remove_dead_locks
from trajdiag.store.opening import existing_record
from trajdiag.store.own_files import is_own
from trajdiag.store.partial import is_being_written, is_partial
from trajdiag.store.shard import WHOLE


def tidy(folder: Folder) -> None:
    """Remove what the writing of a complete store has left."""
    folder.remove(
        [
            *(key for key in journal_keys(folder) if key != COMPLETE),
            RECORD_COPY,
            # of two shards that complete a store at once, neither takes the other's files away
            *(k for k in folder.sizes() if is_partial(k) and not is_being_written(k)),
        ]
    )
    remove_dead_locks(folder)


@contextmanager
def emptied(folder: Folder) -> Iterator[Lock]:
    """The folder without the store that was in it, if there was one, and the lock of it, so that
    nobody else begins one there before it is written.

    Raises StoreError where something else is there too, BusyError where it is being written.
    """
    _require_own(folder)  # before there is a lock in what is another's
    lock = Lock(folder, WHOLE)
    try:
        if _require_own(folder):
            lock.empty_folder()
        folder.remove_leftovers()
        yield lock
    finally:
        lock.release()


def _require_own(folder: Folder) -> bool:
    """Whether a store is in the folder. Raises StoreError where something else is there too."""
    if existing_record(folder) is None:
        return False
    foreign = [key for key in folder.sizes() if not is_own(key)]
    if foreign:
        raise StoreError(
            f"store {folder.location} holds what is not trajdiag's: {', '.join(foreign[:5])}"
            f"{' and more' * (len(foreign) > 5)}; move that out of it before --overwrite"
        )
    return True
