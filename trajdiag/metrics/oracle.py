"""Hindsight oracles: exit depths that see the answers.

Each waits for a loop of its own kind; under a budget of mean depth the cheapest examples get it
first and the rest leave at loop 1. The earliest right loop is an upper bound for every readout of
the trajectory, inflated by luck: of guesses among 4 classes at 4 loops, 68% have some loop that is
right.
"""

import numpy as np
from numpy.typing import NDArray


def first_right(correct: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first loop that is right in `correct` [example, loop]: [example]; T + 1 where none is."""
    return np.where(correct.any(axis=1), correct.argmax(axis=1) + 1, correct.shape[1] + 1)


def stays_right(correct: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether the loop and all later ones are right, [example, loop]."""
    return np.logical_and.accumulate(correct[:, ::-1], axis=1)[:, ::-1]


def least_loss(cross_entropy: NDArray[np.floating]) -> NDArray[np.int64]:
    """The loop of least cross-entropy [example, loop], the first of equals: [example]."""
    return cross_entropy.argmin(axis=1) + 1


def saturation(predictions: NDArray[np.integer]) -> NDArray[np.int64]:
    """The loop from which the prediction [example, loop] never changes again: [example]."""
    return stays_right(predictions == predictions[:, -1:]).argmax(axis=1) + 1


def hindsight_exits(depth: NDArray[np.integer], loops: int) -> NDArray[np.int16]:
    """Exit depths of T policies, [example, policy], of an oracle that waits for loop `depth`
    [example]: policy k waits up to loop k, and leaves at loop 1 where that does not help.

    Mixtures of neighbouring policies spend a budget on the cheapest examples first. Of the earliest
    right loop they are optimal: an example whose first right loop is t costs t - 1 further loops
    for one right answer, so the small t come first.
    """
    waits = depth[:, None] <= np.arange(1, loops + 1)
    return np.where(waits, depth[:, None], 1).astype(np.int16)
