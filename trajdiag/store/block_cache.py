"""Blocks of far stores, kept on this machine while they are read."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from trajdiag.cachedir import blocks_folder
from trajdiag.errors import ConfigError
from trajdiag.store import durable

LIMIT = "TRAJDIAG_BLOCKS_GIB"
"""The environment variable that says how much is kept."""
DEFAULT_GIB = 32.0


class BlockCache:
    """Files by identity of their store and key; those that were not used for longest go first."""

    def __init__(self, cache_dir: str | os.PathLike[str] | None = None) -> None:
        self._root = blocks_folder(cache_dir)

    def folder(self, identity: str) -> Path:
        """Where the files of one store lie under their keys."""
        return self._root / identity

    def missing(self, identity: str, keys: Sequence[str]) -> list[str]:
        """Those of the files that are not kept; the others count as used now."""
        found = []
        for key in keys:
            try:
                os.utime(self.folder(identity) / key)
            except OSError:
                found.append(key)
        return found

    def put(self, identity: str, key: str, content: bytes) -> None:
        """Keep a file."""
        path = self.folder(identity) / key
        with durable.disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        durable.write_file(path, content)

    def shrink(self, identity: str, keys: Sequence[str]) -> None:
        """Remove what was not used for longest until the rest is within the limit; the files
        `keys` of a store stay."""
        needed = {self.folder(identity) / key for key in keys}
        found = []
        for file in self._root.rglob("*"):
            with suppress(FileNotFoundError):  # another process shrinks it too
                status = file.stat()
                if file.is_file():
                    found.append((status.st_mtime_ns, status.st_size, file))
        total, most = sum(size for _, size, _ in found), limit_bytes()
        for _, size, file in sorted(found):
            if total <= most:
                return
            if file not in needed:
                file.unlink(missing_ok=True)
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
