"""Blocks of far stores, kept on this machine while they are read."""

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from trajdiag.cachedir import blocks_folder
from trajdiag.errors import ConfigError, OutOfSpaceError
from trajdiag.store.durable import disk_errors
from trajdiag.store.partial import is_leftover, is_partial, partial_path

LIMIT = "TRAJDIAG_BLOCKS_GIB"
"""The environment variable that says how much is kept."""
DEFAULT_GIB = 32.0
IN_USE = 60.0
"""Seconds for which what another process has used is taken for what it is reading."""
_used: set[Path] = set()
"""Files that this process has used."""
os.register_at_fork(after_in_child=_used.clear)


class BlockCache:
    """Files by identity of their store and key, which several processes may share; those that were
    not used for longest go first. What other processes are using stays, even beyond the limit."""

    def __init__(self, cache_dir: str | os.PathLike[str] | None = None) -> None:
        """Raises ConfigError where the limit is no number."""
        self._root = blocks_folder(cache_dir)
        limit_bytes()

    def folder(self, identity: str) -> Path:
        """Where the files of one store lie under their keys."""
        return self._root / identity

    def missing(self, identity: str, keys: Sequence[str]) -> list[str]:
        """Those of the files that are not kept; the others count as used now."""
        found = []
        for key in keys:
            path = self.folder(identity) / key
            try:
                os.utime(path)
                _used.add(path)
            except FileNotFoundError:
                found.append(key)
            except PermissionError:  # another user's cache: good to read, and its owner's to shrink
                continue
        return found

    def read(self, identity: str, key: str) -> bytes | None:
        """A file; None where it is not kept."""
        try:
            return (self.folder(identity) / key).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, identity: str, key: str, content: bytes) -> None:
        """Keep a file. Where the disk is full, older files make room for it.

        Raises OutOfSpaceError where there are none.
        """
        path = self.folder(identity) / key
        try:
            self._write(path, content)
        except OutOfSpaceError:
            self._shrink(self._size() - 2 * len(content), set())
            try:
                self._write(path, content)
            except OutOfSpaceError as error:
                raise OutOfSpaceError(
                    f"no space left in {self._root} for what is read of a store elsewhere; free "
                    "some space, or choose another --cache-dir"
                ) from error

    def shrink(self, identity: str, keys: Sequence[str]) -> None:
        """Remove what was not used for longest until the rest is within the limit; the files
        `keys` of a store stay."""
        self._shrink(limit_bytes(), {self.folder(identity) / key for key in keys})

    def _write(self, path: Path, content: bytes) -> None:
        """Not durably: whoever reads it next compares it with what it should be."""
        partial = partial_path(path.with_name(f"{path.name}.{threading.get_ident()}"))
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                partial.write_bytes(content)
                _used.add(path)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)

    def _size(self) -> int:
        return sum(size for _, size, _ in self._files())

    def _files(self) -> list[tuple[int, int, Path]]:
        """When each was last used (ns), its bytes, and where it is; not what is being written."""
        found = []
        for folder, _, names in os.walk(self._root):
            for name in names:
                if is_partial(name) and not is_leftover(name):
                    continue
                file = Path(folder, name)
                with suppress(FileNotFoundError):  # another process shrinks it too
                    status = file.stat()
                    found.append((status.st_mtime_ns, status.st_size, file))
        return sorted(found)

    def _shrink(self, most: int, needed: set[Path]) -> None:
        found, idle = self._files(), time.time_ns() - IN_USE * 1e9
        total = sum(size for _, size, _ in found)
        for used, size, file in found:
            if total <= most:
                return
            if file not in needed and (file in _used or used < idle):
                with suppress(PermissionError):  # another user's, who shrinks it himself
                    file.unlink(missing_ok=True)
                    _used.discard(file)
                    total -= size


def limit_bytes() -> int:
    """Bytes of blocks that may be kept. Raises ConfigError where the variable is no number."""
    text = os.environ.get(LIMIT, str(DEFAULT_GIB))
    try:
        gib = float(text)
    except ValueError:
        gib = -1.0
    if not 0 <= gib < 2**40:
        raise ConfigError(f"{LIMIT} must be a number of GiB, got {text!r}")
    return int(gib * 2**30)
