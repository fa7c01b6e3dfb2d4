"""Signals that a store does not keep, computed from its states and logits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trajdiag.signals.registry import SIGNALS
from trajdiag.signals.tracker import SignalTracker

if TYPE_CHECKING:
    from trajdiag.store.reader import Store

_PIECE = 2**18
"""Numbers of one array and loop that are read at a time: few enough for a processor's cache."""


def derive_signals(store: "Store", names: Sequence[str], split: str) -> dict[str, np.ndarray]:
    """The signals `names` of a split, float32 [example, loop] each, NaN before their first loop.

    One pass over the logits and one over the states, loop by loop over few examples at a time:
    beside the results it holds a few MB, whatever the store's size. Raises NonFiniteError where
    states or logits are damaged.
    """
    rows = store.rows(split)
    found = {name: np.empty((len(rows), store.loops), np.float32) for name in names}
    for reads, array, width in (
        ("logits", "logits", store.classes),
        ("states", "hidden", store.d_model),
    ):
        asked = [name for name in names if SIGNALS[name].reads == reads]
        if asked:
            _derive(store, array, asked, rows, max(1, _PIECE // width), found)
    return found


def _derive(
    store: "Store",
    array: str,
    names: Sequence[str],
    rows: np.ndarray,
    piece: int,
    found: dict[str, np.ndarray],
) -> None:
    """Fill in the signals that read `array`."""
    tracker = SignalTracker(names)
    for start in range(0, len(rows), piece):
        part = rows[start : start + piece]
        loops = [store.torch(array, rows=part, loop=loop) for loop in range(1, store.loops + 1)]
        given = {"hidden": loops} if array == "hidden" else {"logits": loops}
        for name, values in zip(names, tracker.track(**given), strict=True):
            found[name][start : start + len(part)] = values.t().numpy()
