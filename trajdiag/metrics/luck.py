"""How often some loop would be right by luck alone.

The null keeps the examples that are right at loop T as they are, and permutes the targets of those
that are wrong there among those that share their last prediction: each loop's answer then meets
only the targets that go with where the example ends up, not its own. Guesses drawn independently
from the confusion matrix are the wrong null: they exceed real oracles.
"""

import numpy as np
from numpy.typing import NDArray


def null_first_right(
    predictions: NDArray[np.integer], target: NDArray[np.integer]
) -> NDArray[np.float64]:
    """The probability that each loop is an example's first right one under that permutation,
    float64 [example, loop]; a row sums to the probability that any loop is right.

    `predictions` [example, loop], `target` [example]. In closed form: a permuted target is c with
    the share of c among the targets of the wrong examples with the same last prediction, its own
    included, and a loop can be the first right one only where its prediction is not an earlier
    loop's. Examples right at T keep their first right loop, with probability 1.
    """
    answers, wanted = predictions.astype(np.int64), target.astype(np.int64)
    found = np.zeros(answers.shape)
    if not answers.size:
        return found
    right = answers == wanted[:, None]
    kept = np.flatnonzero(right[:, -1])
    found[kept, right[kept].argmax(axis=1)] = 1.0
    wrong = np.flatnonzero(~right[:, -1])
    if len(wrong):
        found[wrong] = _share_first_met(answers[wrong], wanted[wrong])
    return found


def _share_first_met(answers: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share that each loop's answer has among the targets of its last prediction; 0 where an
    earlier loop gave the same answer."""
    lowest = min(answers.min(), wanted.min())
    width = max(answers.max(), wanted.max()) - lowest + 1
    last = answers[:, -1]
    _, ends_with, sizes = np.unique(last, return_inverse=True, return_counts=True)
    base = ends_with * width - lowest
    pairs, counts = np.unique(base + wanted, return_counts=True)
    found = np.zeros(answers.shape)
    for loop in range(answers.shape[1] - 1):
        answer = answers[:, loop]
        fresh = answer != last  # nobody here has the last prediction as a target
        for earlier in range(loop):
            fresh &= answer != answers[:, earlier]
        row = np.flatnonzero(fresh)
        pair = base[row] + answer[row]
        place = np.minimum(np.searchsorted(pairs, pair), len(pairs) - 1)
        met = np.where(pairs[place] == pair, counts[place], 0)
        found[row, loop] = met / sizes[ends_with[row]]
    return found
