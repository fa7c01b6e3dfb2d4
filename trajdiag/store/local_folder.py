"""A store's files on a file system."""

import errno
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from trajdiag.errors import OutOfSpaceError, StoreError
from trajdiag.store import durable
from trajdiag.store.folder import Content
from trajdiag.store.partial import host_name, is_alive, is_leftover

_DISCARDED, _BEGUN = "discarded", "begun"
"""What a folder beside a store's is for: to be removed, or to take its place."""
_PASSING = re.compile(rf"-(?P<pid>\d+)\.({_DISCARDED}|{_BEGUN})")


class LocalFolder:
    """See Folder."""

    appends = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._synced: set[str] = set()

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def identity(self) -> str:
        return str(self.path.resolve())

    def exists(self) -> bool:
        return self.path.exists()

    def require_space(self, needed: int) -> int | None:
        there = sum(self.sizes().values())
        self._require_writable()
        path = self.path
        while not path.exists() and path != path.parent:
            path = path.parent
        free = shutil.disk_usage(path).free
        if needed - there > free:
            raise OutOfSpaceError(
                f"store {self.path} needs {needed / 2**20:,.0f} MiB, {free / 2**20:,.0f} MiB are "
                "free; free some space, or choose another --cache-dir"
            )
        return free

    def _require_writable(self) -> None:
        """No file is tried in a store that is there: another process may be removing it."""
        if not self.path.exists():
            durable.require_writable(self.path.parent, self.path)
        elif not os.access(self.path, os.W_OK):
            raise StoreError(f"no permission to write {self.path}; choose another --cache-dir")

    def sizes(self) -> dict[str, int]:
        return dict(self._files(self.path, ""))

    def read(self, key: str) -> bytes:
        try:
            return (self.path / key).read_bytes()
        except FileNotFoundError:
            raise
        except NotADirectoryError as error:
            raise FileNotFoundError(str(error)) from error
        except OSError as error:
            raise StoreError(
                f"cannot read {key} of store {self.path}: {error.strerror}; give it back its "
                "permissions, or remove it and run the extraction again"
            ) from error

    def write(self, files: Mapping[str, Content]) -> None:
        self._make({str(Path(key).parent) for key in files})
        durable.write_files({self.path / key: content for key, content in files.items()})

    def create(self, key: str, content: bytes) -> bool:
        self._make({str(Path(key).parent)})
        return durable.create_file(self.path / key, content)

    def append(self, key: str, line: bytes) -> None:
        path = self.path / key
        self._make({str(Path(key).parent)})
        with durable.disk_errors(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            try:
                size = os.fstat(descriptor).st_size
                # a line that a kill has cut off must not swallow the next
                torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
                durable.append(descriptor, b"\n" * bool(torn) + line)
            finally:
                os.close(descriptor)
            # whoever made it may have been killed before its name was durable
            if key not in self._synced:
                durable.sync_folder(path.parent)
                durable.sync_folder(self.path)
                self._synced.add(key)

    def remove(self, keys: list[str]) -> None:
        for key in keys:
            with durable.disk_errors(self.path / key):
                (self.path / key).unlink(missing_ok=True)

    def remove_leftovers(self) -> None:
        self.remove([key for key in self.sizes() if is_leftover(key)])
        path = self.path.resolve()
        begin = f"{path.name}.{host_name()}"
        with suppress(OSError):
            for beside in path.parent.iterdir():
                ended = _PASSING.fullmatch(beside.name.removeprefix(begin))
                if beside.name.startswith(begin) and ended and not is_alive(int(ended["pid"])):
                    shutil.rmtree(beside, ignore_errors=True)

    @contextmanager
    def successor(self) -> Iterator[Path]:
        """An empty folder beside this one, removed at the end unless it has taken its place."""
        path = self._beside(_BEGUN)
        with durable.disk_errors(self.path):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def replace(self, successor: Path) -> bool:
        """Put the successor in this folder's place and remove what was there; whether nobody else
        has made a folder there meanwhile."""
        with durable.disk_errors(self.path):
            place = self.path.resolve()
            if place.exists():
                self._discard()
            try:
                successor.rename(place)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return False
            finally:
                shutil.rmtree(self._beside(_DISCARDED), ignore_errors=True)
            durable.sync_folder(place.parent)
        return True

    def _discard(self) -> None:
        """Put the folder aside at once: a kill half way leaves no ruin in its place."""
        aside = self._beside(_DISCARDED)
        shutil.rmtree(aside, ignore_errors=True)
        self.path.resolve().rename(aside)

    def fetch(
        self, keys: Sequence[str], identity: str, is_whole: Callable[[str, bytes], bool]
    ) -> Path:
        del keys, identity, is_whole  # all is here
        return self.path

    def _beside(self, what: str) -> Path:
        """A folder of this process's beside this one; beside that which a link leads to, not the
        link."""
        path = self.path.resolve()
        return path.with_name(f"{path.name}.{host_name()}-{os.getpid()}.{what}")

    def _make(self, folders: set[str]) -> None:
        """Make these folders, and their names durable."""
        for name in sorted(folders):
            path = self.path.resolve() / name
            if path.is_dir():
                continue
            with durable.disk_errors(self.path / name):
                above = [p for p in (path, *path.parents) if not p.exists()]
                path.mkdir(parents=True, exist_ok=True)
                for made in above:
                    durable.sync_folder(made.parent)

    def _files(self, folder: Path, prefix: str) -> Iterator[tuple[str, int]]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        except NotADirectoryError:
            if self.path.exists():
                raise StoreError(f"{self.path} is a file, not a store") from None
            return  # a file stands where a folder above it would
        except OSError as error:
            refused = isinstance(error, PermissionError)
            advice = "give it back its permissions" if refused else "choose another place"
            raise StoreError(f"cannot read {folder}: {error.strerror}; {advice}") from error
        for entry in entries:
            try:
                leads_out = entry.is_symlink() and self._leads_out(entry)
            except (OSError, RuntimeError):  # a link to itself leads nowhere
                continue
            if leads_out:
                raise StoreError(
                    f"{prefix}{entry.name} of store {self.path} is a link that leads out of it; "
                    "put the file itself there"
                )
            if entry.is_dir():
                yield from self._files(Path(entry.path), f"{prefix}{entry.name}/")
            else:
                try:
                    status = entry.stat()
                    if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait for ever
                        raise StoreError(
                            f"{prefix}{entry.name} of store {self.path} is neither a file nor a "
                            "folder; remove it"
                        )
                    yield prefix + entry.name, status.st_size
                except FileNotFoundError:  # renamed or removed by another process meanwhile
                    continue

    def _leads_out(self, link: os.DirEntry[str]) -> bool:
        """Whether a link leads to a folder, where it may come back to itself, or to what lies
        outside."""
        if link.is_dir():
            return True
        return not Path(link.path).resolve().is_relative_to(self.path.resolve())
