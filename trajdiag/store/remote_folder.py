"""A store's files in an object store, or wherever else fsspec reaches."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import fsspec

from trajdiag.errors import StoreError
from trajdiag.store.block_cache import BlockCache
from trajdiag.store.folder import Content
from trajdiag.store.schema import GROUP

_AT_ONCE = 4
"""Files on their way at a time: each is held in memory."""


class RemoteFolder:
    """See Folder. A file is put whole or not at all, and cannot grow."""

    appends = False

    def __init__(self, url: str, cache_dir: str | os.PathLike[str] | None = None) -> None:
        """Raises StoreError where nothing installed opens such a URL."""
        self.location = url.rstrip("/")
        self._cache = BlockCache(cache_dir)
        try:
            # what other processes write must be seen at once
            self._fs, self._root = fsspec.url_to_fs(self.location, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise StoreError(
                f"cannot open {url}: {_line(error)}; pip install 'trajdiag[scale]'"
            ) from error
        self._root = self._root.rstrip("/")

    @property
    def identity(self) -> str:
        return str(self._fs.unstrip_protocol(self._root))

    def exists(self) -> bool:
        return bool(self.sizes())

    def require_space(self, needed: int) -> None:
        """Nothing says how much there is."""

    def sizes(self) -> dict[str, int]:
        with self._far():
            self._fs.invalidate_cache()
            try:
                found = self._fs.find(self._root, detail=True)
            except FileNotFoundError:
                return {}
        start = len(self._root) + 1
        return {path[start:]: int(info["size"]) for path, info in found.items() if path[start:]}

    def read(self, key: str) -> bytes:
        with self._far():
            return self._fs.cat_file(self._path(key))

    def write(self, files: Mapping[str, Content]) -> None:
        def put(item: tuple[str, Content]) -> None:
            with self._far():
                self._fs.pipe_file(self._path(item[0]), bytes(item[1]))

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(put, files.items()))

    def create(self, key: str, content: bytes) -> bool:
        try:
            self._fs.pipe_file(self._path(key), content, mode="create")
        except Exception as error:
            if key in self.sizes():
                return False
            raise self._unreachable(error) from error
        return True

    def append(self, key: str, line: bytes) -> None:
        raise ValueError(f"{self.location}/{key} cannot grow")

    def remove(self, keys: list[str]) -> None:
        there = set(self.sizes())
        for key in keys:
            if key in there:
                with self._far():
                    self._fs.rm_file(self._path(key))

    def remove_leftovers(self) -> None:
        """There are none: a file that was not put whole is not there."""

    def remove_all(self) -> None:
        self.remove([GROUP])  # first, so that a kill half way leaves no store that seems whole
        with self._far():
            self._fs.rm(self._root, recursive=True)

    def fetch(
        self, keys: Sequence[str], identity: str, is_whole: Callable[[str, bytes], bool]
    ) -> Path:
        def get(key: str) -> None:
            for _ in range(2):
                try:
                    content = self.read(key)
                except FileNotFoundError:
                    return
                if is_whole(key, content):
                    self._cache.put(identity, key, content)
                    return
            raise StoreError(
                f"{key} of store {self.location} is not what was written; run the extraction that "
                "made it again: it makes what is damaged anew"
            )

        missing = self._cache.missing(identity, keys)
        if missing:
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                list(threads.map(get, missing))
            self._cache.shrink(identity, keys)
        return self._cache.folder(identity)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    @contextmanager
    def _far(self) -> Iterator[None]:
        """Turn what services complain of into one-line errors."""
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:  # each service has errors of its own
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> StoreError:
        return StoreError(
            f"cannot reach {self.location}: {type(error).__name__}: {_line(error)}; check the "
            "address, the network and your credentials"
        )


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
