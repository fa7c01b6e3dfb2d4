"""Stores whose best exits are known, because they were planted."""

from pathlib import Path

import numpy as np

from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store

READY = {"fit": 1200, "val": 400, "test": 400}


def planted_store(
    path: Path, *, signal: float, loops: int = 4, d_model: int = 16, seed: int = 0
) -> tuple[Store, np.ndarray]:
    """A store, and the loop from which each example is right, [example].

    Before that loop the prediction is wrong, after it right, both with a probability near 0.95. The
    states are noise of unit spread, moved by +-`signal` along one direction: + where it is right.
    """
    rng = np.random.default_rng(seed)
    examples = sum(READY.values())
    first_right = rng.integers(1, loops + 1, examples)
    right = np.arange(1, loops + 1) >= first_right[:, None]
    direction = rng.normal(size=d_model)
    direction /= np.linalg.norm(direction)
    hidden = rng.normal(size=(examples, loops, d_model))
    hidden += signal * np.where(right, 1.0, -1.0)[..., None] * direction
    # Features of very different offsets and spreads, as real states have.
    hidden = 5.0 + hidden * np.logspace(-2, 1, d_model)
    target = rng.integers(0, 2, examples)
    margin = np.where(right, 3.0, -3.0) * np.where(target == 1, 1.0, -1.0)[:, None]
    store = from_arrays(
        path,
        hidden.astype(np.float32),
        np.stack([np.zeros_like(margin), margin], -1).astype(np.float32),
        target,
        difficulty=first_right,
        split=np.repeat(list(READY), list(READY.values())),
    )
    return store, first_right
