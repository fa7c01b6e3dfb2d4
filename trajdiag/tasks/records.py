"""Records of a user's file, one a question or document, each with its place for error messages."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from trajdiag.errors import ConfigError
from trajdiag.store.schema import SPLITS
from trajdiag.whole_text import is_whole

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Record:
    """One record and where it was read."""

    values: dict[str, Any]
    number: int
    """Its line, or, in a Parquet file, its row; counted from 1."""
    place: str
    """The file and the number, as text."""

    def refuse(self, reason: str) -> NoReturn:
        """Raise ConfigError: the place and the reason."""
        raise ConfigError(f"{self.place}: {reason}")

    def required(self, key: str) -> Any:
        """The value of a key that must be there."""
        if self.values.get(key) is None:
            self.refuse(f"{key} is missing; keys: {', '.join(map(str, self.values)) or 'none'}")
        return self.values[key]

    def text(self, key: str) -> str:
        """The text of a key that must be there."""
        return self.plain(key, self.required(key))

    def plain(self, what: str, value: object) -> str:
        """`value`, if it is text without half characters."""
        if not isinstance(value, str):
            self.refuse(f"{what} must be text, not {value!r:.60}")
        if not is_whole(value):
            self.refuse(f"{what} has half a character (a lone surrogate): {ascii(value)[:60]}")
        return value

    def label(self, key: str) -> str | None:
        """An optional name: text or an integer."""
        value = self.values.get(key)
        if type(value) is int:
            return str(value)
        if value is None:
            return None
        if not isinstance(value, str):
            self.refuse(f"{key} must be text or an integer, not {value!r:.60}")
        if self.plain(key, value) == "":
            self.refuse(f"{key} is empty")
        return value

    def number_of(self, key: str) -> float:
        """An optional finite number; NaN where it is absent."""
        value = self.values.get(key)
        if value is None:
            return math.nan
        if type(value) not in (int, float) or not _is_finite(value):
            self.refuse(f"{key} must be a finite number, not {value!r:.60}")
        return float(value)


@dataclass(frozen=True, kw_only=True)
class RecordFile:
    """The records of one file."""

    path: Path
    sha256: str = field(repr=False)
    """Of the file's bytes."""
    records: list[Record] = field(repr=False)


_SHOWN = 5
"""Files of a folder that are named."""


def read_bytes(path: str) -> tuple[bytes, str]:
    """A file's bytes and their SHA-256; ConfigError where there is none, or it is empty."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; {_beside(Path(path))}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path} cannot be read: {reason}") from None
    if not data.strip():
        raise ConfigError(f"{path} is empty; give a file that holds something")
    return data, hashlib.sha256(data).hexdigest()


def _beside(path: Path) -> str:
    """What there is instead of the file `path`, which is not."""
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"files in {folder}: {', '.join(names[:_SHOWN]) or 'none'}{more}"


def decoded(data: bytes, place: str) -> str:
    """UTF-8 text; ConfigError where it is not."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{place}: not UTF-8 text: {error.reason}") from None


def read_records(path: str) -> RecordFile:
    """The records of a Parquet file (by its suffix), else of a JSONL file: an object a line, blank
    lines aside.

    Raises ConfigError where the file is missing, empty, or not such a file.
    """
    data, sha256 = read_bytes(path)
    read: Callable[[str, bytes], list[Record]] = (
        _parquet if path.lower().endswith(".parquet") else _jsonl
    )
    records = read(path, data)
    if not records:
        raise ConfigError(f"{path} holds no records; give a JSON object a line, or Parquet's rows")
    return RecordFile(path=Path(path), sha256=sha256, records=records)


def require_unique(what: str, named: Iterable[tuple[str, Record]]) -> None:
    """Raise ConfigError where two records bear one name."""
    seen: dict[str, Record] = {}
    for name, record in named:
        if name in seen:
            record.refuse(f"{what} {name!r:.60} is that of number {seen[name].number} too")
        seen[name] = record


def given_splits(records: list[Record]) -> list[str] | None:
    """The split that each record names; None where none does.

    Raises ConfigError for an unknown split, and where only some of the records name one.
    """
    found: list[str] = []
    for record in records:
        split = record.values.get("split")
        if split is not None and split not in SPLITS:
            record.refuse(f"split must be one of {', '.join(SPLITS)}, not {split!r:.60}")
        if (split is None) != (records[0].values.get("split") is None):
            record.refuse("a split must be in all records or in none; here it differs from before")
        if split is not None:
            found.append(split)
    return found or None


def by_split(path: str, items: Iterable[T], splits: Sequence[str]) -> dict[str, list[T]]:
    """The items of the file `path`, each of the split in its place, by split.

    Raises ConfigError where none is in split test.
    """
    if "test" not in splits:
        raise ConfigError(
            f"{path} has no record in split test, on which results are told; it has "
            f"{', '.join(dict.fromkeys(splits)) or 'none'}: add some with split test, or leave "
            "split out of all"
        )
    found: dict[str, list[T]] = {split: [] for split in SPLITS if split in splits}
    for item, split in zip(items, splits, strict=True):
        found[split].append(item)
    return found


def _jsonl(path: str, data: bytes) -> list[Record]:
    records = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"{path} line {number}"
        text = decoded(line, place)
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{place} is not JSON: {error}") from None
        if not isinstance(values, dict):
            raise ConfigError(f"{place} must be a JSON object, not {text.strip()!r:.60}")
        records.append(Record(values=values, number=number, place=place))
    return records


def _parquet(path: str, data: bytes) -> list[Record]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError(f"{path}: Parquet needs pyarrow; pip install pyarrow") from None
    try:
        rows = pyarrow.parquet.read_table(pyarrow.BufferReader(data)).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{path} is not a Parquet file that can be read: {reason}") from None
    return [
        Record(values=values, number=number, place=f"{path} row {number}")
        for number, values in enumerate(rows, start=1)
    ]


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
