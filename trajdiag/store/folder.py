"""Where a store's files are: by key, a name relative to the store with forward slashes."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from trajdiag.cachedir import is_url
from trajdiag.errors import StoreError

Content = bytes | memoryview
AT_ONCE = 16
"""Small files of a far folder that are on their way at a time."""
BLOCKS_AT_ONCE = 4
"""Blocks' files of a far folder that are on their way at a time: each is held in memory."""
_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


class Folder(Protocol):
    """A store's files, on this machine or far away. What is written is durable when a call
    returns, and no file is ever seen half-written."""

    @property
    def location(self) -> str:
        """The path or URL, as it was given."""
        ...

    @property
    def identity(self) -> str:
        """The same for two locations of one folder."""
        ...

    @property
    def appends(self) -> bool:
        """Whether a file can grow line by line."""
        ...

    def exists(self) -> bool: ...

    def require_space(self, needed: int) -> int | None:
        """Free bytes; None where there is no end of them.

        Raises OutOfSpaceError where a store of so many bytes does not fit, what is there counted,
        StoreError where nothing can be written on this machine.
        """
        ...

    def sizes(self) -> dict[str, int]:
        """Bytes of every file, by key. Raises StoreError where a link leads out of the folder."""
        ...

    def read(self, key: str) -> bytes:
        """Raises FileNotFoundError."""
        ...

    def write(self, files: Mapping[str, Content]) -> None:
        """Each under its name only when it is whole, in place of what is there."""
        ...

    def create(self, key: str, content: bytes) -> bool:
        """As `write`, unless there is such a file already: then False."""
        ...

    def append(self, key: str, line: bytes) -> None:
        """Raises ValueError where `appends` is false."""
        ...

    def remove(self, keys: list[str]) -> None:
        """Those of them that are there."""
        ...

    def remove_leftovers(self) -> None:
        """What dead processes were writing when they died."""
        ...

    def fetch(
        self, keys: Sequence[str], identity: str, is_whole: Callable[[str, bytes], bool]
    ) -> Path:
        """A local folder that holds these files under their keys, if they are there at all.

        `identity` tells apart what was at this location at different times; a file that is brought
        here is read again if it is not `is_whole`, then refused by StoreError.
        """
        ...


def of_each(
    folder: Folder, read: Callable[[_Item], _Found], items: Iterable[_Item], most: int = AT_ONCE
) -> list[_Found]:
    """What `read`, which reads files of `folder`, gives for each; `most` at a time where the folder
    is far away, and an answer takes much longer than what is read."""
    if folder.appends:
        return [read(item) for item in items]
    with ThreadPoolExecutor(most) as threads:
        return list(threads.map(read, items))


def open_folder(
    location: str | os.PathLike[str], cache_dir: str | os.PathLike[str] | None = None
) -> Folder:
    """The folder at a path or URL, which need not exist; `cache_dir` is where blocks of a far one
    are kept while they are read.

    Raises StoreError where nothing installed opens such a URL.
    """
    from trajdiag.store.local_folder import LocalFolder

    if not is_url(location):
        return LocalFolder(Path(location))
    text = os.fspath(location)
    for scheme in ("file://", "local://"):
        if text.startswith(scheme):
            return LocalFolder(Path(text.removeprefix(scheme)))
    try:
        from trajdiag.store.remote_folder import RemoteFolder
    except ImportError as error:
        raise StoreError(f"{text} needs fsspec ({error}); pip install 'trajdiag[scale]'") from error
    return RemoteFolder(text, cache_dir)
