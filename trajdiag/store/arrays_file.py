"""Arrays in a file of somebody else's: .npz, .safetensors, or a folder of .npy files.

None is held whole: they are read by slices of examples. Nothing is ever unpickled.
"""

import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from trajdiag.errors import ConfigError

_NPY = ".npy"
_READ_BYTES = 2**18
_KINDS = "an .npz, a .safetensors, or a folder of .npy files"


@contextmanager
def open_arrays(path: Path) -> Iterator[Mapping[str, Any]]:
    """The arrays of the file at `path` by name, for as long as the context lasts.

    Each has a shape and gives the examples of a slice: numpy arrays, of safetensors tensors, which
    may be bfloat16. In a folder names are those of the files, without .npy; a folder in it is part
    of the name (`covariate/length`). Raises ConfigError, there and when arrays are read, for a file
    that is missing, of another kind, damaged, or holds Python objects.
    """
    opener = _opener(path)
    with _damage_said(path), opener(path) as arrays:
        if not arrays:
            raise ConfigError(f"{path} holds no arrays; wanted {_KINDS}")
        yield arrays


def _opener(path: Path) -> Any:
    if path.is_dir():
        if (path / "zarr.json").exists():
            raise ConfigError(f"{path} is a Zarr store; if it is trajdiag's, use it as it is")
        return _folder
    if not path.exists():
        raise ConfigError(f"no file {path}; import takes {_KINDS}")
    _require_readable(path)
    opener = {".npz": _npz, ".safetensors": _safetensors}.get(path.suffix.lower())
    if opener is None:
        hint = {
            _NPY: "put hidden.npy, logits.npy and target.npy in a folder and name that",
            **dict.fromkeys(
                (".pt", ".pth", ".bin", ".pkl", ".pickle"),
                "pickles are never read; write it with safetensors.torch.save_file",
            ),
        }.get(path.suffix.lower(), "write it with numpy.savez or safetensors.torch.save_file")
        raise ConfigError(f"{path} is not {_KINDS}; {hint}")
    return opener


def _require_readable(file: Path) -> None:
    try:
        file.open("rb").close()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error


@contextmanager
def _damage_said(path: Path) -> Iterator[None]:
    """What the libraries raise about a file, as ours."""
    from safetensors import SafetensorError

    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, SafetensorError) as error:
        raise ConfigError(f"{path} is damaged or not what its name says: {error}") from error


@contextmanager
def _folder(path: Path) -> Iterator[Mapping[str, Any]]:
    files = sorted(file for file in path.rglob(f"*{_NPY}") if file.is_file())
    yield {file.relative_to(path).as_posix().removesuffix(_NPY): _mapped(file) for file in files}


def _mapped(file: Path) -> np.ndarray:
    """A .npy file, mapped into memory."""
    _require_readable(file)
    with file.open("rb") as opened:
        shape, _, dtype = _header(opened, str(file))
    if not math.prod(shape):  # which no map can be
        return np.empty(shape, dtype)
    try:
        # "c": torch takes what may be written without a copy; the file never is
        return np.load(file, mmap_mode="c", allow_pickle=False)
    except ValueError as error:
        raise ConfigError(f"{file} is damaged: {error}") from error


@contextmanager
def _npz(path: Path) -> Iterator[Mapping[str, Any]]:
    with zipfile.ZipFile(path) as archive:
        members = [_Member(archive, info, path) for info in archive.infolist()]
        try:
            yield {member.name: member for member in members}
        finally:
            for member in members:
                member.close()


class _Member:
    """An array of an .npz. Examples are best read in order: to go back is to begin anew."""

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> None:
        self.name = info.filename.removesuffix(_NPY)
        self._what = f"{self.name} in {path}"
        if info.flag_bits & 1:
            raise ConfigError(f"{self._what} is encrypted; write it without a password")
        try:
            self._file = archive.open(info)
        except NotImplementedError as error:  # of compression
            raise ConfigError(f"{self._what} cannot be read: {error}") from error
        self.shape, self._by_column, self.dtype = _header(self._file, self._what)
        self._start = self._file.tell()
        self._whole: np.ndarray | None = None

    def __getitem__(self, at: slice) -> np.ndarray:
        start, stop, _ = at.indices(self.shape[0])
        if self._by_column and len(self.shape) > 1:
            # examples do not lie together: such an array is held whole
            if self._whole is None:
                flat = self._read(0, math.prod(self.shape))
                self._whole = flat.reshape(self.shape, order="F")
            return self._whole[start:stop]
        row = math.prod(self.shape[1:])
        return self._read(start * row, (stop - start) * row).reshape(-1, *self.shape[1:])

    def _read(self, start: int, count: int) -> np.ndarray:
        self._file.seek(self._start + start * self.dtype.itemsize)
        found = np.empty(count * self.dtype.itemsize, np.uint8)
        at = 0
        while at < len(found):
            # few bytes at a time pass through the processor's cache
            part = self._file.read(min(_READ_BYTES, len(found) - at))
            if not part:
                raise ConfigError(f"{self._what} is damaged: it ends early")
            found[at : at + len(part)] = np.frombuffer(part, np.uint8)
            at += len(part)
        return found.view(self.dtype)

    def close(self) -> None:
        self._file.close()


def _header(file: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether it is stored column by column, and dtype; `file` is then at the numbers."""
    try:
        major, _ = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        if major > 1:
            read = np.lib.format.read_array_header_2_0
        shape, by_column, dtype = read(file)
    except (ValueError, EOFError) as error:
        raise ConfigError(f"{what} is damaged or not an .npy array: {error}") from error
    if dtype.hasobject:
        raise ConfigError(
            f"{what} holds Python objects, which are never read; save numbers, and texts as an "
            "array of dtype str"
        )
    return shape, by_column, dtype


@contextmanager
def _safetensors(path: Path) -> Iterator[Mapping[str, Any]]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as opened:
        yield {name: _Tensor(opened.get_slice(name)) for name in opened.keys()}  # noqa: SIM118


class _Tensor:
    """A tensor of a .safetensors file."""

    def __init__(self, found: Any) -> None:
        self._slice = found
        self.shape = tuple(found.get_shape())

    def __getitem__(self, at: slice) -> Any:
        return self._slice[at]
