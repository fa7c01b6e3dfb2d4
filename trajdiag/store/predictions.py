"""What a store's model answers at each loop, and how sure it is of the target."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from trajdiag.store.schema import VOCABULARY

if TYPE_CHECKING:
    from trajdiag.store.reader import Store

_PIECE = 2**20
"""Logits of one loop that are read at a time."""


def predictions(store: "Store", split: str | None) -> np.ndarray:
    """The predicted class, int64 [example, loop]; the first of equals."""
    rows = store.rows(split)
    found = np.empty((len(rows), store.loops), np.int64)
    if "logits" not in store.arrays:
        for loop in range(store.loops):
            top = store.numpy(VOCABULARY + "top_ids", rows=rows, loop=loop + 1)
            found[:, loop] = top[:, 0]
        return found
    for at, loop, logits in _logits_by_loop(store, rows):
        found[at, loop] = logits.argmax(1)
    return found


def cross_entropy(store: "Store", split: str | None) -> np.ndarray:
    """-log p(target), nats, float64 [example, loop]."""
    rows = store.rows(split)
    if "logits" not in store.arrays:
        kept = store.numpy(VOCABULARY + "target_log_probability", rows=rows)
        return -kept.astype(np.float64)
    found = np.empty((len(rows), store.loops))
    for at, loop, logits in _logits_by_loop(store, rows):
        z = logits.astype(np.float64)
        z -= z.max(1, keepdims=True)
        of_target = np.take_along_axis(z, store.target[rows[at], None], 1)[:, 0]
        found[at, loop] = np.log(np.exp(z).sum(1)) - of_target
    return found


def _logits_by_loop(store: "Store", rows: np.ndarray) -> Iterator[tuple[slice, int, np.ndarray]]:
    """(positions in `rows`, loop - 1, their logits [row, class]) a few at a time."""
    size = max(1, _PIECE // store.classes)
    for start in range(0, len(rows), size):
        at = slice(start, start + size)
        for loop in range(store.loops):
            yield at, loop, store.numpy("logits", rows=rows[at], loop=loop + 1)
