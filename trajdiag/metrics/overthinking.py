"""What further loops do to a prediction, whatever the readout: lose it, keep it, change it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.luck import null_first_right


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What loop t did to the prediction of loop t - 1, bool [example, loop - 1], t = 2..T."""

    flipped: NDArray[np.bool_]
    """The prediction is another one."""
    gained: NDArray[np.bool_]
    """Wrong before, right after."""
    lost: NDArray[np.bool_]
    """Right before, wrong after."""
    wasted: NDArray[np.bool_]
    """Right before and right after: the loop changed nothing. Summed over loops, it is the loops
    that were spent on what was right and stayed so."""


def changes(predictions: NDArray[np.integer], correct: NDArray[np.bool_]) -> Changes:
    """The changes of `predictions` and `correct` [example, loop] from each loop to the next."""
    before, after = correct[:, :-1], correct[:, 1:]
    return Changes(
        flipped=predictions[:, 1:] != predictions[:, :-1],
        gained=~before & after,
        lost=before & ~after,
        wasted=before & after,
    )


def destructive(correct: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Destructive overthinking, [example]: right at an earlier loop, wrong at loop T (Kaya et al.,
    Shallow-Deep Networks, arXiv 1810.07052)."""
    return correct.any(axis=1) & ~correct[:, -1]


def destructive_by_luck(
    predictions: NDArray[np.integer], target: NDArray[np.integer]
) -> NDArray[np.float64]:
    """The probability of each example [example] of being so by luck alone: 0 if it is right at loop
    T, else that an earlier loop meets the target of a random one of the examples that are wrong at
    T with the same last prediction (see metrics.luck)."""
    by_luck = null_first_right(predictions, target).sum(axis=1)
    return np.where(predictions[:, -1] == target, 0.0, by_luck)


def settled(correct: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where more loops will not help, [example, loop]: right there, or right at no later loop."""
    from_here = np.logical_or.accumulate(correct[:, ::-1], axis=1)[:, ::-1]
    return correct | ~from_here
