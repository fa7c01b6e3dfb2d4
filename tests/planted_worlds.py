"""Stores whose fault is known, because it was planted: 2,000 examples, 6 loops, 4 classes.

Each example is a question of 4 choices; its states are 12 numbers, the first of which a world may
make tell something; the model's gate, where there is one, is planted too.
"""

import numpy as np

from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store

EXAMPLES, LOOPS, CLASSES, WIDTH = 2000, 6, 4, 12


def world(
    path,
    right,
    *,
    margin,
    shown,
    gate_logit=None,
    difficulty=None,
    predicted=None,
    split=None,
    seed=0,
):
    """A store that is right where `right` [example, loop] says so, by a logit margin, and whose
    states show `shown` [example, loop] in their first direction.

    An example's wrong answer is the same at every loop, unless `predicted` [example, loop] says
    which.
    """
    rng = np.random.default_rng([seed, 99])
    target = rng.integers(0, CLASSES, len(right))
    if predicted is None:
        wrong = (target + rng.integers(1, CLASSES, len(right))) % CLASSES
        predicted = np.where(right, target[:, None], wrong[:, None])
    logits = margin[..., None] * (predicted[..., None] == np.arange(CLASSES))
    logits += rng.normal(0, 0.05, logits.shape)
    hidden = rng.normal(0, 0.3, (*right.shape, WIDTH))
    hidden[..., 0] += shown
    turn, _ = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))
    return from_arrays(
        path,
        hidden=(hidden @ turn).astype(np.float32),
        logits=logits.astype(np.float32),
        target=target,
        gate_logit=None if gate_logit is None else gate_logit.astype(np.float32),
        difficulty=difficulty,
        split=split,
    )


def solved_from(needed):
    """Right from loop `needed` [example] on."""
    return np.arange(1, LOOPS + 1) >= needed[:, None]


def good_trajectory_bad_gate(path, seed=0, never=0.03) -> Store:
    """Most examples are solved early and confidence shows when; the gate is noise."""
    rng = np.random.default_rng(seed)
    needed = np.where(rng.random(EXAMPLES) < never, 99, rng.integers(1, 5, EXAMPLES))
    right = solved_from(needed)
    return world(
        path,
        right,
        margin=np.where(right, 6.0, 1.0) + rng.normal(0, 0.5, right.shape),
        shown=np.where(right, 2.0, -2.0),
        gate_logit=rng.normal(0, 2.0, right.shape),
        difficulty=np.minimum(needed, LOOPS).astype(float),
        seed=seed,
    )


def bad_trajectory_perfect_gate(path, seed=0, never=0.4) -> Store:
    """Many examples are never right, and the gate leaves at the first right loop of the others."""
    rng = np.random.default_rng(seed)
    needed = np.where(rng.random(EXAMPLES) < never, 99, rng.integers(1, 5, EXAMPLES))
    right = solved_from(needed)
    # Where no loop is right, the perfect gate leaves at once.
    leave = right | (needed[:, None] > LOOPS)
    return world(
        path,
        right,
        margin=np.where(leave, 6.0, 1.0) + rng.normal(0, 0.5, right.shape),
        shown=np.where(leave, 2.0, -2.0),
        gate_logit=np.where(leave, 8.0, -8.0) + rng.normal(0, 0.1, right.shape),
        difficulty=np.minimum(needed, LOOPS).astype(float),
        seed=seed,
    )


def hidden_signal(path, seed=0) -> Store:
    """Every loop is right or wrong by the toss of a coin, and only the states show which."""
    rng = np.random.default_rng(seed)
    right = rng.random((EXAMPLES, LOOPS)) < 0.5
    return world(
        path,
        right,
        margin=3.0 + rng.normal(0, 1.0, right.shape).clip(-2, 2),
        shown=np.where(right, 1.5, -1.5),
        seed=seed,
    )


def pure_luck(path, seed=0, split=None) -> Store:
    """Answers that have nothing to do with the questions."""
    rng = np.random.default_rng(seed)
    target = np.random.default_rng([seed, 99]).integers(0, CLASSES, EXAMPLES)
    predicted = rng.integers(0, CLASSES, (EXAMPLES, LOOPS))
    right = predicted == target[:, None]
    return world(
        path,
        right,
        margin=3.0 + rng.normal(0, 1.0, right.shape).clip(-2, 2),
        shown=rng.normal(size=right.shape),
        gate_logit=rng.normal(0, 2.0, right.shape),
        predicted=predicted,
        split=split,
        seed=seed,
    )
