"""Stores of planted arrays, complete or broken off, with small blocks."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.store.planted import planted
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.journal import Entry, record_entry
from trajdiag.store.local_folder import LocalFolder
from trajdiag.store.reader import Store
from trajdiag.store.writer import StoreWriter


class BrokenOff(BaseException):
    """In the place of a kill."""


def make(path: Path, **options: Any) -> Store:
    """300 examples in 5 blocks of 60, under `small_blocks`."""
    a = planted()
    return from_arrays(path, a.hidden, a.logits, a.target, split=a.split, **options)


def broken_off(path: Path, after: int, **options: Any) -> Path:
    """The store after so many blocks."""
    real = StoreWriter.write_block

    def write_block(self: StoreWriter, block: int, arrays: Mapping[str, np.ndarray]) -> None:
        if block == after:
            raise BrokenOff
        real(self, block, arrays)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(BrokenOff):
        patch.setattr(StoreWriter, "write_block", write_block)
        make(path, **options)
    return path


@contextmanager
def written_blocks() -> Iterator[list[int]]:
    """The blocks that are written meanwhile."""
    real, blocks = StoreWriter.write_block, []

    def write_block(self: StoreWriter, block: int, arrays: Mapping[str, np.ndarray]) -> None:
        blocks.append(block)
        real(self, block, arrays)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoreWriter, "write_block", write_block)
        yield blocks


def contents(path: Path) -> dict[str, bytes]:
    """Every file but those that hold the time at which the store was begun."""
    files = {str(p.relative_to(path)): p for p in sorted(path.rglob("*")) if p.is_file()}
    dated = ("zarr.json", "journal/zarr.json")
    return {key: file.read_bytes() for key, file in files.items() if key not in dated}


def flip(file: Path, at: int = -1) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


def enter(path: Path, entry: Entry, writer: str = "0-of-1") -> None:
    """Write an entry into a store's journal."""
    record_entry(LocalFolder(path), writer, entry)
