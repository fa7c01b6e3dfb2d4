"""Arrays in a file of somebody else's: .npz, .safetensors, or a folder of .npy files.

None is held whole: they are read by slices of examples. Nothing is ever unpickled.
"""

import io
import json
import math
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from trajdiag.errors import ConfigError, TrajdiagError

_NPY = ".npy"
_NPY_VERSIONS = (1, 2, 3)
_READ_BYTES = 2**18
_TRUSTED_BYTES = 2**28
"""That are asked for at once: the sizes that an archive states may be false."""
_HEADER_BYTES = 2**16
"""More than any header that numpy takes."""
_SAID = 200
"""Of what a library says of a file, which may hold all of a header."""
_KINDS = "an .npz, a .safetensors, or a folder of .npy files"


@contextmanager
def open_arrays(path: Path) -> Iterator[Mapping[str, Any]]:
    """The arrays of the file at `path` by name, for as long as the context lasts.

    Each has a shape and gives the examples of a slice: numpy arrays, of safetensors tensors, which
    may be bfloat16. In a folder names are those of the files, without .npy; a folder in it is part
    of the name (`covariate/length`). Raises ConfigError, there and when arrays are read, for a file
    that is missing, of another kind, damaged, says it is larger than it is, or holds Python objects
    or an array twice.
    """
    opener = _opener(path)
    with ExitStack() as stack:
        with _damage_said(path):
            arrays = stack.enter_context(opener(path))
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
def _damage_said(what: str | Path, kind: str = "what its name says") -> Iterator[None]:
    """Whatever a library raises about content that is not of its `kind`, as ours."""
    try:
        yield
    except (TrajdiagError, MemoryError):
        raise
    except Exception as error:
        of_system = getattr(error, "strerror", None)
        said = of_system or " ".join(str(error).split())[:_SAID] or type(error).__name__
        if of_system or isinstance(error, NotImplementedError):
            raise ConfigError(f"{what} cannot be read: {said}") from error
        raise ConfigError(f"{what} is damaged or not {kind}: {said}; write it again") from error


def _require_once(path: Path, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ConfigError(f"{path} holds {name} more than once; write it with each array once")
        seen.add(name)


@contextmanager
def _folder(path: Path) -> Iterator[Mapping[str, Any]]:
    files = sorted(file for file in path.rglob(f"*{_NPY}") if file.is_file())
    yield {file.relative_to(path).as_posix().removesuffix(_NPY): _mapped(file) for file in files}


def _mapped(file: Path) -> np.ndarray:
    """A .npy file, mapped into memory."""
    _require_readable(file)
    with file.open("rb") as opened:
        header = _Header(opened, file.stat().st_size, str(file))
    if not math.prod(header.shape):  # which no map can be
        return np.empty(header.shape, header.dtype)
    order = "F" if header.by_column else "C"
    with _damage_said(file, "an .npy array"):
        # "c": torch takes what may be written without a copy; the file never is
        return np.memmap(file, header.dtype, "c", header.start, header.shape, order)


@contextmanager
def _npz(path: Path) -> Iterator[Mapping[str, Any]]:
    with zipfile.ZipFile(path) as archive, ExitStack() as opened:
        infos = archive.infolist()
        names = [info.filename.removesuffix(_NPY) for info in infos]
        _require_once(path, names)
        members = {}
        for name, info in zip(names, infos, strict=True):
            what = f"{name} in {path}"
            if info.flag_bits & 1:
                raise ConfigError(f"{what} is encrypted; write it without a password")
            with _damage_said(what, "an .npy array"):
                file = opened.enter_context(archive.open(info))
            members[name] = _Member(file, info.file_size, what)
        yield members


class _Member:
    """An array of an .npz. Examples are best read in order: to go back is to begin anew."""

    def __init__(self, file: IO[bytes], size: int, what: str) -> None:
        self._file, self._what = file, what
        self._header = _Header(file, size, what)
        self.shape = self._header.shape
        self._whole: np.ndarray | None = None

    def __getitem__(self, at: slice) -> np.ndarray:
        start, stop, _ = at.indices(self.shape[0])
        if self._header.by_column and len(self.shape) > 1:
            # examples do not lie together: such an array is held whole
            if self._whole is None:
                flat = self._read(0, math.prod(self.shape))
                self._whole = flat.reshape(self.shape, order="F")
            return self._whole[start:stop]
        row = math.prod(self.shape[1:])
        found = self._read(start * row, (stop - start) * row)
        return found.reshape(stop - start, *self.shape[1:])

    def _read(self, start: int, count: int) -> np.ndarray:
        size = self._header.dtype.itemsize
        total = count * size
        found = np.empty(min(total, _TRUSTED_BYTES), np.uint8)
        at = 0
        with _damage_said(self._what):
            self._file.seek(self._header.start + start * size)
            while at < total:
                # few bytes at a time pass through the processor's cache
                part = self._file.read(min(_READ_BYTES, total - at))
                if not part:
                    raise ConfigError(f"{self._what} is damaged: it ends early; write it again")
                if at + len(part) > len(found):
                    found.resize(min(total, 2 * len(found)), refcheck=False)
                found[at : at + len(part)] = np.frombuffer(part, np.uint8)
                at += len(part)
        return found.view(self._header.dtype)


class _Header:
    """What an .npy array says of itself: no more than what numpy can have and the file holds."""

    def __init__(self, file: IO[bytes], size: int, what: str) -> None:
        """`file` is at the beginning of the array, which takes `size` bytes; then at its numbers.

        Raises ConfigError, of `what`.
        """
        with _damage_said(what, "an .npy array"):
            self._parse(_before_numbers(file))
        if self.dtype.hasobject:
            raise ConfigError(
                f"{what} holds Python objects, which are never read; save numbers, and texts as an "
                "array of dtype str"
            )
        needed = math.prod(self.shape) * self.dtype.itemsize
        if needed > size - self.start:
            raise ConfigError(
                f"{what} is damaged: it should hold {list(self.shape)} of {self.dtype}, "
                f"{needed:,} bytes, and holds {size - self.start:,}; write it again"
            )

    def _parse(self, content: bytes) -> None:
        self.start = len(content)
        """Where the numbers begin."""
        file = io.BytesIO(content)
        major, minor = np.lib.format.read_magic(file)
        if major not in _NPY_VERSIONS:
            raise ValueError(f"version {major}.{minor} of the format is not known")
        read = np.lib.format.read_array_header_1_0
        if major > 1:
            read = np.lib.format.read_array_header_2_0
        with warnings.catch_warnings(action="ignore"):  # of Python, whose syntax a header has
            try:
                shape, self.by_column, self.dtype = read(file)
            except MemoryError:  # what Python's parser raises
                raise ValueError("its header is nested too deeply") from None
        if not self.dtype.itemsize or self.dtype.subdtype is not None:
            raise ValueError(f"entries cannot be {self.dtype}")
        try:  # takes no memory
            self.shape = np.broadcast_to(np.empty((), self.dtype), shape).shape
        except (ValueError, TypeError) as error:
            raise ValueError(f"there can be no array {list(shape)} of {self.dtype}") from error


def _before_numbers(file: IO[bytes]) -> bytes:
    """What an .npy array begins with, up to its numbers; less of it where that is no header."""
    found = file.read(10)
    if found[6:7] > b"\1":
        found += file.read(2)
    return found + file.read(min(int.from_bytes(found[8:], "little"), _HEADER_BYTES))


@contextmanager
def _safetensors(path: Path) -> Iterator[Mapping[str, Any]]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as opened:
        _require_once(path, _names_of_tensors(path))
        yield {name: _Tensor(opened, name, path) for name in opened.keys()}  # noqa: SIM118


def _names_of_tensors(path: Path) -> list[str]:
    """As the header gives them: of two alike safetensors itself hides the first."""
    with path.open("rb") as file:
        header = file.read(int.from_bytes(file.read(8), "little"))
    return [name for name, _ in json.loads(header, object_pairs_hook=list)]


class _Tensor:
    """A tensor of a .safetensors file."""

    def __init__(self, opened: Any, name: str, path: Path) -> None:
        self._what = f"{name} in {path}"
        with _damage_said(self._what, "of a dtype that torch has"):
            self._slice = opened.get_slice(name)
            self.shape = tuple(self._slice.get_shape())

    def __getitem__(self, at: slice) -> Any:
        with _damage_said(self._what, "of a dtype that torch has"):
            return self._slice[at]
