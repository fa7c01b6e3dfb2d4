"""Chunk files that are compressed: `--compress zstd`."""

import numpy as np
from numcodecs.zstd import Zstd

from trajdiag.store.folder import Content
from trajdiag.store.schema import ArraySpec

LEVEL = 1
"""States hardly shrink at any level: higher ones only take longer."""


def compressed(chunk: Content, level: int) -> bytes:
    """One Zstandard frame of a chunk's numbers."""
    return bytes(Zstd(level=level).encode(np.frombuffer(chunk, np.uint8)))


def decompressed(content: bytes, spec: ArraySpec) -> np.ndarray:
    """The chunk in a file, of `spec`'s chunk shape and the dtype on disk.

    Raises ValueError where the file is no such chunk.
    """
    try:
        numbers = np.frombuffer(Zstd().decode(content), spec.disk_dtype)
        return numbers.reshape(spec.chunk)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"it does not decompress to a chunk: {error}") from error
