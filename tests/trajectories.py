"""Planted stores: trajectories whose right and wrong loops, and whose readouts, are known."""

import numpy as np

from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store

CLASSES = 4


def planted(
    path,
    right,
    *,
    confidence=None,
    gate_logit=None,
    difficulty=None,
    group=None,
    split=None,
    seed=0,
    ids=None,
) -> Store:
    """A store in which example i is right at loop t where `right` [example, loop] says so.

    `confidence` [example, loop] is the predicted class's logit margin, 1 + noise when absent.
    Without `split`, the first fifth is fit, then two fifths val, the rest test.
    """
    rng = np.random.default_rng(seed)
    examples, loops = right.shape
    target = rng.integers(0, CLASSES, examples)
    predicted = np.where(right, target[:, None], (target[:, None] + 1) % CLASSES)
    margin = 1 + rng.random(right.shape) if confidence is None else confidence
    logits = margin[..., None] * (predicted[..., None] == np.arange(CLASSES))
    if split is None:
        split = np.array(["fit", "val", "test"])[
            np.searchsorted([0.2, 0.6], np.arange(examples) / examples, side="right")
        ]
    return from_arrays(
        path,
        hidden=rng.normal(size=(examples, loops, 8)).astype(np.float32),
        logits=logits.astype(np.float32),
        target=target,
        gate_logit=None if gate_logit is None else gate_logit.astype(np.float32),
        difficulty=difficulty,
        group=group,
        split=split,
        id=ids,
    )


def solved_from(loop, loops):
    """Right from `loop` [example] on, never where it exceeds `loops`: [example, loop]."""
    return np.arange(1, loops + 1) >= np.asarray(loop)[:, None]
