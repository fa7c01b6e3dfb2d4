"""What a live run did against what the store says that it would do."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.latency.chosen import Chosen
from trajdiag.latency.decoding import Decoded
from trajdiag.latency.runner import LiveRun
from trajdiag.metrics.frontier import exit_depth
from trajdiag.store.reader import Store


@dataclass(frozen=True, kw_only=True)
class Offline:
    """What a store says of some of its examples."""

    values: NDArray[np.floating]
    """[example, loop]: the readout's."""
    depth: NDArray[np.int16]
    """[example]: the exit depth."""
    prediction: NDArray[np.int64]
    """[example]: the class predicted there."""
    target: NDArray[np.int64]
    """[example]."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Live against offline, of the same examples."""

    depth: int
    """Examples that leave elsewhere."""
    prediction: int
    """Examples whose prediction is another."""
    distance: float | None
    """The largest distance, in the readout's unit, from the threshold of the store's value at the
    loop at which only one of the two left; None where none differs."""


def offline(store: Store, chosen: Chosen, examples: NDArray[np.int64], split: str) -> Offline:
    """What the store says of its `examples`, all of `split`, ascending."""
    at = np.searchsorted(store.rows(split), examples)
    readout = chosen.readout
    values = readout.values(store, split)[at]
    depth = exit_depth(values, chosen.threshold, readout.direction, readout.first_loop)
    predictions = store.predictions(split)[at]
    return Offline(
        values=values,
        depth=depth,
        prediction=predictions[np.arange(len(at)), depth - 1],
        target=store.target[examples],
    )


def compared(live: LiveRun | Decoded, offline: Offline, threshold: float) -> Agreement:
    """How far the two agree."""
    differs = np.flatnonzero(live.exit_depth != offline.depth)
    first = np.minimum(live.exit_depth, offline.depth)[differs] - 1
    distances = np.abs(offline.values[differs, first].astype(np.float64) - threshold)
    return Agreement(
        depth=len(differs),
        prediction=int((live.prediction != offline.prediction).sum()),
        distance=float(distances.max()) if len(differs) else None,
    )
