"""Whether a trajectory says anything about its targets at all."""

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.oracle import first_right

PERMUTATIONS = 400


def chance_p(predictions: NDArray[np.integer], target: NDArray[np.integer], seed: int = 0) -> float:
    """One-sided p that the earliest-right oracle is no better than with all targets permuted.

    `predictions` [example, loop], `target` [example]. The statistic is the oracle's accuracy
    averaged over the policies "wait up to loop k", which weighs every loop. With m of the n seeded
    permutations at least as good, p = (1 + m) / (1 + n).
    """
    rng = np.random.default_rng([seed, 4])
    found = _oracle(predictions, target)
    as_good = sum(
        _oracle(predictions, rng.permutation(target)) >= found for _ in range(PERMUTATIONS)
    )
    return (1 + as_good) / (1 + PERMUTATIONS)


def _oracle(predictions: NDArray[np.integer], target: NDArray[np.integer]) -> int:
    """Examples right by loop k, summed over k."""
    first = first_right(predictions == target[:, None])
    return int((predictions.shape[1] + 1 - first).sum())
