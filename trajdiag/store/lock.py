"""Who writes which blocks of a store: a lock a shard, which a dead process does not hold.

On a file system the kernel lets go of a lock with the process that held it. Where that says
nothing (an object store, a file system without such locks, or a machine that shares the folder but
not its locks) the holder writes a beat into its lock, and one that falls silent is taken for dead.
"""

import errno
import fcntl
import json
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from trajdiag.errors import BusyError, StoreError
from trajdiag.store.durable import disk_errors
from trajdiag.store.folder import Folder
from trajdiag.store.journal import JOURNAL
from trajdiag.store.local_folder import LocalFolder
from trajdiag.store.partial import host_name, is_alive
from trajdiag.store.schema import GROUP
from trajdiag.store.shard import Shard

_SUFFIX = ".lock"
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
"""What file systems without the kernel's locks answer."""
BEAT = 5.0
"""Seconds between two beats of a holder."""
SILENCE = 20.0
"""Seconds without a beat after which a holder that cannot be asked is taken for dead."""
_TRIES = 100
"""How often a lock's file is made anew in a folder that others put away meanwhile."""
_SHARE = "or let `trajdiag extract` share the work, each with its --shards N --shard I"


class Lock:
    """The right to write a shard's blocks, held until `release`."""

    def __init__(self, folder: Folder, shard: Shard) -> None:
        """Raises BusyError where a living process holds this shard, or one with common blocks."""
        self._folder, self._shard = folder, shard
        self._key = f"{JOURNAL}{shard.name}{_SUFFIX}"
        self._beats, self._stop = 0, threading.Event()
        self._beating = threading.Lock()
        self._id = secrets.token_hex(8)
        self._descriptor: int | None = None
        self._thread: threading.Thread | None = None
        self.is_lost = False
        """Whether another process has taken this one for dead."""
        while not self._take():
            self._drop()  # the folder was put away while the lock was taken in it
        self._thread = threading.Thread(target=self._live, daemon=True, name="lock")
        self._thread.start()

    def release(self) -> None:
        """Let go of it; again is nothing."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()  # a beat must not go into whatever the descriptor is next
        self._drop()

    def empty_folder(self) -> None:
        """Remove all else that is in the folder. The lock is held throughout, so that nobody else
        writes there in between.

        Raises BusyError where another process has taken the folder's place.
        """
        with self._beating:
            if not isinstance(self._folder, LocalFolder):
                self._folder.remove([GROUP])  # first: what a kill leaves must not seem whole
                self._folder.remove([key for key in self._folder.sizes() if key != self._key])
                return
            with self._folder.successor() as begun:
                path = begun / self._key
                with disk_errors(path):
                    descriptor = _opened(path)
                try:
                    _is_held(descriptor)  # takes the kernel's lock
                    with disk_errors(path):
                        os.pwrite(descriptor, self._content(), 0)
                    taken = self._folder.replace(begun)
                except BaseException:
                    os.close(descriptor)
                    raise
                assert self._descriptor is not None
                os.close(self._descriptor)
                self._descriptor = descriptor
            if not taken:
                raise self._refusal(self._read())

    def _take(self) -> bool:
        """Whether the lock is held, in the folder that is there now, and no other of common
        blocks."""
        if isinstance(self._folder, LocalFolder):
            self._take_file(self._folder.path / self._key)
        else:
            self._take_object()
        try:
            for key in self._folder.sizes():
                other = _shard_of(key)
                if other is not None and other != self._shard and other.meets(self._shard):
                    self._require_dead(key, other)
            if self._descriptor is None:
                return True
            assert isinstance(self._folder, LocalFolder)
            return _is_at(self._folder.path / self._key, self._descriptor)
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        if self._descriptor is not None:
            assert isinstance(self._folder, LocalFolder)
            _unlink(self._folder.path / self._key, self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None
        elif not isinstance(self._folder, LocalFolder) and self._is_mine(self._read()):
            self._folder.remove([self._key])  # else another has taken it since the last beat

    def _take_file(self, path: Path) -> None:
        with disk_errors(Path(self._folder.location)):
            while True:
                descriptor = _opened(path)
                try:
                    if _is_held(descriptor):
                        raise self._refusal(_read(descriptor))
                    if _is_at(path, descriptor):
                        break
                except BaseException:
                    os.close(descriptor)
                    raise
                os.close(descriptor)  # its holder removed it between the two calls
        self._descriptor = descriptor
        try:
            with disk_errors(path):
                self._write()
        except BaseException:
            self.release()
            raise

    def _take_object(self) -> None:
        if self._folder.create(self._key, self._content()):
            return
        if _still_beats(self._read):
            raise self._refusal(self._read())
        self._folder.remove([self._key])
        if not self._folder.create(self._key, self._content()):
            raise self._refusal(self._read())

    def _require_dead(self, key: str, shard: Shard) -> None:
        """Raise unless nobody lives who writes a shard that has blocks in common with this one."""
        if isinstance(self._folder, LocalFolder):
            try:
                descriptor = os.open(self._folder.path / key, os.O_RDWR)
            except FileNotFoundError:
                return
            try:
                if not _is_held(descriptor):
                    return
                holder = _read(descriptor)
            finally:
                os.close(descriptor)
        else:
            if not _still_beats(lambda: _holder(self._read_key(key))):
                return
            holder = _holder(self._read_key(key))
        raise self._refusal(holder, f" as {shard}")

    def _live(self) -> None:
        while not self._stop.wait(BEAT):
            # a disk or network that fails for a moment shows in the writing itself
            with suppress(OSError, StoreError), self._beating:
                if not self._is_mine(self._read()):
                    self.is_lost = True
                    return
                self._write()

    def _write(self) -> None:
        self._beats += 1
        if self._descriptor is None:
            self._folder.write({self._key: self._content()})
        else:
            content = self._content()
            # in this order no other machine ever reads a torn one and takes the holder for dead
            os.pwrite(self._descriptor, content, 0)
            os.ftruncate(self._descriptor, len(content))

    def _content(self) -> bytes:
        return json.dumps(
            {"host": host_name(), "pid": os.getpid(), "id": self._id, "beat": self._beats}
        ).encode()

    def _is_mine(self, holder: dict[str, Any]) -> bool:
        mine = json.loads(self._content())
        return all(holder.get(key) == mine[key] for key in ("host", "pid", "id"))

    def _read(self) -> dict[str, Any]:
        return _holder(self._read_key(self._key))

    def _read_key(self, key: str) -> bytes:
        try:
            return self._folder.read(key)
        except FileNotFoundError:
            return b""

    def _refusal(self, holder: dict[str, Any], what: str = "") -> BusyError:
        who = f" ({holder['pid']} on {holder['host']})" if holder else ""
        return BusyError(
            f"another process{who} is writing {self._folder.location}{what}; wait for it, stop it, "
            f"{_SHARE if self._shard.count == 1 else f'or write another than {self._shard}'}"
        )


def is_lock(key: str) -> bool:
    """Whether a file of a store is a lock."""
    return key.startswith(JOURNAL) and key.endswith(_SUFFIX)


def remove_dead_locks(folder: Folder) -> None:
    """Remove the locks of processes of this machine that died while they held them."""
    if not isinstance(folder, LocalFolder):
        return
    for key in folder.sizes():
        path = folder.path / key
        if not is_lock(key):
            continue
        with disk_errors(path), suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDWR)
            try:
                holder = _read(descriptor)
                is_local = not holder or holder["host"] == host_name()
                if is_local and not _is_held(descriptor):
                    _unlink(path, descriptor)
            finally:
                os.close(descriptor)


def _opened(path: Path) -> int:
    """A lock's file, opened, and made with its folder where it is not there."""
    for tries_left in reversed(range(_TRIES)):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # the folder was put away between the two calls
            if not tries_left:
                raise
    raise AssertionError


def _unlink(path: Path, descriptor: int) -> None:
    """Remove a lock's file, if it is still the one that is open, and not one of a store that took
    the place of the first."""
    if _is_at(path, descriptor):
        path.unlink(missing_ok=True)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the file that is open is the one at `path`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _shard_of(key: str) -> Shard | None:
    """The shard whose lock a file is."""
    name = key.removeprefix(JOURNAL).removesuffix(_SUFFIX)
    return Shard.named(name) if is_lock(key) else None


def _is_held(descriptor: int) -> bool:
    """Whether a living process holds this lock file; where none does, the kernel's lock is taken.

    The kernel knows of the processes of this machine, where the file system has such locks at all,
    and of other machines' only on some.
    """
    has_locks = True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        has_locks = False
    holder = _read(descriptor)
    if not holder or (has_locks and holder["host"] == host_name()):
        return False
    # what cannot be read for a moment, over a network, is no sign of death
    return _still_beats(lambda: _read(descriptor) or holder)


def _read(descriptor: int) -> dict[str, Any]:
    return _holder(os.pread(descriptor, 4096, 0))


def _holder(content: bytes) -> dict[str, Any]:
    """Who wrote a lock; empty where nobody did."""
    try:
        holder = json.loads(content)
        types = {"host": str, "pid": int, "beat": int}
        return holder if all(isinstance(holder[k], kind) for k, kind in types.items()) else {}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def _still_beats(read: Callable[[], dict[str, Any]]) -> bool:
    """Whether the holder that `read` tells lives: of this machine by its process, else by waiting
    for a beat."""
    first = read()
    if not first:
        return False
    if first["host"] == host_name() and not is_alive(first["pid"]):
        return False
    end = time.monotonic() + SILENCE
    while time.monotonic() < end:
        time.sleep(BEAT / 10)
        now = read()
        if not now:
            return False
        if now != first:
            return True
    return False
