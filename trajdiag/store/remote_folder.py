"""A store's files in an object store, or wherever else fsspec reaches."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import fsspec
from fsspec.asyn import AsyncFileSystem

from trajdiag.errors import StoreError
from trajdiag.store.block_cache import BlockCache
from trajdiag.store.folder import AT_ONCE, BLOCKS_AT_ONCE, Content

# it else prints a wall of text about what is raised, and told in one line, anyway
logging.getLogger("gcsfs").addHandler(logging.NullHandler())


class RemoteFolder:
    """See Folder. A file is put whole or not at all, and cannot grow."""

    appends = False

    def __init__(self, url: str, cache_dir: str | os.PathLike[str] | None = None) -> None:
        """Raises StoreError where nothing installed opens such a URL."""
        scheme, _, place = url.partition("://")
        if not place.strip("/"):
            raise StoreError(f"{url} names no store; give one such as s3://BUCKET/NAME.zarr")
        self.location = f"{scheme}://{place.rstrip('/')}"
        self._cache = BlockCache(cache_dir)
        self._connect()
        self._seen: set[tuple[str, str]] = set()
        """Files of the cache that this process has compared with what was written."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_seen": set()}

    @property
    def _fs(self) -> Any:
        if self._process != os.getpid():  # a client works in the process alone that made it
            self._connect()
        return self._client

    def _connect(self) -> None:
        # s3fs asks for the size of every file before it reads one, unless it reads it in one piece
        in_one = {"max_concurrency": 1} if self.location.startswith(("s3://", "s3a://")) else {}
        try:
            # what other processes write must be seen at once
            self._client, root = fsspec.url_to_fs(self.location, use_listings_cache=False, **in_one)
        except ImportError as error:
            raise StoreError(
                f"cannot open {self.location}: {_line(error)}; pip install 'trajdiag[scale]'"
            ) from error
        except Exception as error:  # each file system has errors of its own
            raise StoreError(
                f"cannot open {self.location}: {_line(error)}; give a folder, or a URL such as "
                "s3://BUCKET/NAME.zarr"
            ) from error
        self._root = root.rstrip("/")
        self._process = os.getpid()

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
        self._make_folders(files)

        def put(item: tuple[str, Content]) -> None:
            with self._far(writes=True):
                self._fs.pipe_file(self._path(item[0]), bytes(item[1]))

        with ThreadPoolExecutor(BLOCKS_AT_ONCE) as threads:
            list(threads.map(put, files.items()))

    def create(self, key: str, content: bytes) -> bool:
        self._make_folders([key])
        try:
            with self._far(writes=True):
                self._fs.pipe_file(self._path(key), content, mode="create")
        except FileExistsError:
            # where an answer was lost on its way, the second request meets what the first has put
            with suppress(FileNotFoundError):
                return self.read(key) == content
            return False
        return True

    def append(self, key: str, line: bytes) -> None:
        raise ValueError(f"{self.location}/{key} cannot grow")

    def remove(self, keys: list[str]) -> None:
        def remove(key: str) -> None:
            with self._far(), suppress(FileNotFoundError):
                self._fs.rm_file(self._path(key))

        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(remove, keys))

    def remove_leftovers(self) -> None:
        """There are none: a file that was not put whole is not there."""

    def fetch(
        self, keys: Sequence[str], identity: str, is_whole: Callable[[str, bytes], bool]
    ) -> Path:
        def get(key: str) -> None:
            kept = self._cache.read(identity, key)
            # a disk may have changed what was whole when it came
            if kept is None or not is_whole(key, kept):
                content = self._fetched(key, is_whole)
                if content is None:
                    return
                self._cache.put(identity, key, content)
            self._seen.add((identity, key))

        missing = set(self._cache.missing(identity, keys))
        doubtful = [key for key in keys if key in missing or (identity, key) not in self._seen]
        if doubtful:
            with ThreadPoolExecutor(BLOCKS_AT_ONCE) as threads:
                list(threads.map(get, doubtful))
        if missing:
            self._cache.shrink(identity, keys)
        return self._cache.folder(identity)

    def _fetched(self, key: str, is_whole: Callable[[str, bytes], bool]) -> bytes | None:
        """A file from afar; None where there is none."""
        for _ in range(2):
            try:
                content = self.read(key)
            except FileNotFoundError:
                return None
            if is_whole(key, content):
                return content
        raise StoreError(
            f"{key} of store {self.location} is not what was written; remove that file and run the "
            "extraction that made it again: it makes what is missing anew"
        )

    def _make_folders(self, keys: Iterable[str]) -> None:
        """Where a file system, unlike an object store, has folders, make those of these files."""
        if isinstance(self._fs, AsyncFileSystem):
            return
        with self._far(writes=True):
            for path in {self._path(key).rpartition("/")[0] for key in keys}:
                self._fs.makedirs(path, exist_ok=True)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    @contextmanager
    def _far(self, *, writes: bool = False) -> Iterator[None]:
        """Turn what services complain of into one-line errors, but for a file that is not there, or
        is where it should not be."""
        try:
            yield
        except FileExistsError:
            raise
        except Exception as error:  # each service has errors of its own
            if isinstance(error, FileNotFoundError) and not writes:
                raise
            raise StoreError(
                f"cannot {'write' if writes else 'reach'} {self.location}: {type(error).__name__}: "
                f"{_line(error)}; check the address, the network and your credentials"
            ) from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
