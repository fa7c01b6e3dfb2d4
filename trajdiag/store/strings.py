"""Text columns as Zarr's vlen-utf8 bytes: a count, then each item's length and UTF-8 bytes."""

from collections.abc import Sequence

import numpy as np


def encode(items: Sequence[str], count: int) -> bytes:
    """The chunk of `items`, padded with empty strings to `count`."""
    texts = [item.encode() for item in items]
    sizes = np.fromiter(map(len, texts), "<u4", len(texts)).tobytes()
    parts = [b""] * (2 * len(texts))
    parts[::2] = [sizes[at : at + 4] for at in range(0, len(sizes), 4)]
    parts[1::2] = texts
    padding = bytes(4 * (count - len(texts)))
    return b"".join([count.to_bytes(4, "little"), *parts, padding])


def decode(content: bytes, count: int) -> np.ndarray:
    """The first `count` items of a chunk, object array [example]. Raises ValueError on damage."""
    items = np.empty(count, object)
    offset = 4
    for i in range(count):
        if len(content) < offset + 4:
            raise ValueError("text chunk ends early")
        size = int.from_bytes(content[offset : offset + 4], "little")
        text = content[offset + 4 : offset + 4 + size]
        if len(text) != size:
            raise ValueError("text chunk ends early")
        items[i] = text.decode()
        offset += 4 + size
    return items
