"""Files that survive a crash: temporary name, content synced, renamed, folder synced."""

import errno
import os
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from trajdiag.errors import OutOfSpaceError, StoreError
from trajdiag.store.partial import partial_path

_OPEN_FILES = 128
_THREADS = 4
_ALIGNMENT = 4096
_DIRECT = getattr(os, "O_DIRECT", 0)


def write_file(path: Path, content: bytes | memoryview) -> None:
    """Write one file durably, under its final name only when it is whole."""
    write_files({path: content})


def write_files(contents: Mapping[Path, bytes | memoryview]) -> None:
    """Write several files durably, each under its final name only when it is whole.

    All are written before the first is synced: a file system then commits them together, which is
    many times faster than one by one.
    """
    paths = list(contents)
    for start in range(0, len(paths), _OPEN_FILES):
        _write_together({path: contents[path] for path in paths[start : start + _OPEN_FILES]})


def create_file(path: Path, content: bytes) -> bool:
    """Write one file durably unless there is one already: then False."""
    partial = partial_path(path)
    with disk_errors(path):
        descriptor = _open(partial, direct=False)
        try:
            _write_all(descriptor, memoryview(content))
            os.fsync(descriptor)
            os.link(partial, path)
        except FileExistsError:
            return False
        finally:
            os.close(descriptor)
            partial.unlink(missing_ok=True)
        sync_folder(path.parent)
    return True


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file for another library to write, which takes the name `path` once it is on disk, with the
    mode that the user's umask gives."""
    partial = partial_path(path)
    with disk_errors(path):
        try:
            partial.touch()
            mode = partial.stat().st_mode
            yield partial
            partial.chmod(mode)  # libraries make private files
            _sync(partial, os.O_RDONLY)
            partial.replace(path)
            sync_folder(path.parent)
        finally:
            partial.unlink(missing_ok=True)


def _write_together(contents: Mapping[Path, bytes | memoryview]) -> None:
    partial = {path: partial_path(path) for path in contents}
    descriptors: dict[Path, int] = {}

    def write(path: Path) -> None:
        with disk_errors(path):
            view = memoryview(contents[path]).cast("B")
            descriptors[path] = _open(partial[path], direct=_is_aligned(view))
            _write_all(descriptors[path], view)

    def sync(path: Path) -> None:
        with disk_errors(path):
            os.fsync(descriptors[path])

    def sync_names(folder: Path) -> None:
        with disk_errors(folder):
            sync_folder(folder)

    # A disk takes several writes at a time, and a file system commits files together that are
    # synced at the same time.
    with ThreadPoolExecutor(min(_THREADS, len(contents))) as threads:
        try:
            list(threads.map(write, contents))
            list(threads.map(sync, contents))
            for path in contents:
                with disk_errors(path):
                    partial[path].replace(path)
        except BaseException:
            threads.shutdown(cancel_futures=True)  # what is being written must not come back
            for path in partial.values():
                path.unlink(missing_ok=True)
            raise
        finally:
            for descriptor in descriptors.values():
                os.close(descriptor)
        list(threads.map(sync_names, {path.parent for path in contents}))


def append(descriptor: int, content: bytes) -> None:
    """Append to an open file and sync it."""
    _write_all(descriptor, memoryview(content))
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_writable(folder: Path, told: Path | None = None) -> None:
    """Raise StoreError or OutOfSpaceError, about `told` or the folder, where no file could be made
    in `folder`, which need not be there: asked before long work, whose numbers would be lost.
    Leaves nothing behind."""
    with disk_errors(told or folder):
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        descriptor, name = tempfile.mkstemp(prefix=".trajdiag-", dir=there)
        os.close(descriptor)
        Path(name).unlink()


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
        raise StoreError(
            f"cannot write {path}: {error.strerror}; choose another --cache-dir"
        ) from error


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
