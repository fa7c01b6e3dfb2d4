"""Files that survive a crash: temporary name, content synced, renamed, folder synced."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from trajdiag.errors import OutOfSpaceError, StoreError

PARTIAL = ".partial"
"""Suffix of a file that is not yet whole; such files may be removed."""

_ALIGNMENT = 4096
_DIRECT = getattr(os, "O_DIRECT", 0)


def write_file(path: Path, content: bytes | memoryview) -> None:
    """Write one file durably, under its final name only when it is whole."""
    write_files(path.parent, {path.name: content})


def write_files(folder: Path, contents: Mapping[str, bytes | memoryview]) -> None:
    """Write several files of one folder durably; the names appear only when all are whole."""
    with disk_errors(folder):
        try:
            for name, content in contents.items():
                _write_synced(folder / (name + PARTIAL), content)
            for name in contents:
                (folder / (name + PARTIAL)).replace(folder / name)
        except BaseException:
            for name in contents:
                (folder / (name + PARTIAL)).unlink(missing_ok=True)
            raise
        sync_folder(folder)


def append_line(descriptor: int, line: str) -> None:
    """Append one line to an open file and sync it."""
    _write_all(descriptor, memoryview(line.encode() + b"\n"))
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's complaints about writing `path` into one-line errors."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OutOfSpaceError(
                f"no space left while writing {path}; what is complete is kept: free some space "
                "and run the same command again"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise StoreError(
                f"no permission to write {path}; choose another --cache-dir"
            ) from error
        raise StoreError(f"cannot write {path}: {error.strerror}") from error


def _write_synced(path: Path, content: bytes | memoryview) -> None:
    view = memoryview(content).cast("B")
    descriptor = _open(path, direct=_is_aligned(view))
    try:
        _write_all(descriptor, view)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open(path: Path, *, direct: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    if direct:
        # past the page cache: filling it takes a tenth of a small model's forward pass
        try:
            return os.open(path, flags | _DIRECT, 0o666)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
    return os.open(path, flags, 0o666)


def _is_aligned(view: memoryview) -> bool:
    if not _DIRECT or not len(view) or len(view) % _ALIGNMENT:
        return False
    return np.frombuffer(view, np.uint8).ctypes.data % _ALIGNMENT == 0


def _write_all(descriptor: int, view: memoryview) -> None:
    while len(view):
        view = view[os.write(descriptor, view) :]
