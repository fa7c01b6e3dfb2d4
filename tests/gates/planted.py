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


def interaction_store(path: Path, examples: int = 4000, loops: int = 4) -> Store:
    """A loop is right, by a coin's toss, just where its margin is wide and its state moved far, or
    neither; each alone says nothing."""
    rng = np.random.default_rng(0)
    shape = (examples, loops)
    wide, far = rng.random(shape) < 0.5, rng.random(shape) < 0.5
    direction = rng.normal(size=(*shape, 6))
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    step = np.where(far, 2.0, 1.0) + 0.1 * rng.normal(size=shape)
    # The offset keeps the states' length, and so the relative change, from telling more.
    hidden = 30.0 + (direction * step[..., None]).cumsum(1)
    margin = np.where(wide, 3.0, 1.0) + 0.2 * rng.normal(size=shape)
    target = rng.integers(0, 2, examples)
    sign = np.where(wide == far, 1.0, -1.0) * np.where(target == 1, 1.0, -1.0)[:, None]
    logits = np.stack([np.zeros(shape), sign * margin], -1)
    split = rng.permutation(np.repeat(["fit", "val", "test"], examples // 4 * np.array([2, 1, 1])))
    return from_arrays(path, hidden, logits, target, split=split)


FIRST_STAYS = np.array(
    [[0.7, 0.1, 0.1, 0.0, 0.1], [0.1, 0.1, 0.2, 0.5, 0.1], [0.2, 0.1, 0.1, 0.1, 0.5]]
)
"""Chance [kind of example, loop from which it is right; the last: never], with four loops."""


def waiting_store(path: Path, examples: int = 6000) -> tuple[Store, np.ndarray]:
    """A store, and the kind of each example, [example], which its margin and its states tell.

    From some loop on, drawn by FIRST_STAYS, an example is right; the states are the kind and the
    loop, one-hot.
    """
    rng = np.random.default_rng(0)
    loops = 4
    kind = rng.integers(0, 3, examples)
    drawn = rng.random((examples, 1)) > FIRST_STAYS.cumsum(1)[kind][:, :-1]
    first = drawn.sum(1) + 1
    right = np.arange(1, loops + 1) >= first[:, None]
    target = rng.integers(0, 2, examples)
    sign = np.where(right, 1.0, -1.0) * np.where(target == 1, 1.0, -1.0)[:, None]
    logits = np.stack([np.zeros(sign.shape), sign * (1.0 + kind[:, None])], -1)
    hidden = np.eye(3 * loops)[kind[:, None] * loops + np.arange(loops)]
    return from_arrays(path, hidden, logits, target), kind
