"""Whether a trajectory says anything at all about its targets."""

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.oracle import first_right

PERMUTATIONS = 400


def chance_p(
    predictions: NDArray[np.integer],
    target: NDArray[np.integer],
    group: NDArray[np.integer],
    seed: int = 0,
) -> float:
    """One-sided p that the earliest-right oracle is no better than with all targets permuted.

    `predictions` [example, loop], `target` and `group` [example]. The statistic is the oracle's
    accuracy averaged over the policies "wait up to loop k", which weighs every loop. With m of the
    n seeded permutations at least as good, p = (1 + m) / (1 + n).

    Examples of one group are no independent draws, so groups hand their targets on whole. Only
    blocks of one size can change places without a change of the statistic's spread: groups of 2^k
    to 2^(k+1) - 1 examples do so among themselves, with 2^k examples drawn from each. A group
    that is alone in its range of sizes keeps its own targets, and tells nothing.
    """
    rng = np.random.default_rng([seed, 4])
    ranges = _blocks(group, rng)
    found = sum(_oracle(predictions, target, rows, rows) for rows in ranges)
    as_good = 0
    for _ in range(PERMUTATIONS):
        given = sum(_oracle(predictions, target, rows, rng.permutation(rows)) for rows in ranges)
        as_good += given >= found
    return (1 + as_good) / (1 + PERMUTATIONS)


def _blocks(group: NDArray[np.integer], rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Example numbers [group, 2^k] of the groups of each range of sizes."""
    _, code, sizes = np.unique(group, return_inverse=True, return_counts=True)
    mixed = rng.permutation(len(code))
    by_group = mixed[np.argsort(code[mixed], kind="stable")]
    starts = np.cumsum(sizes) - sizes
    powers = np.frexp(sizes)[1] - 1
    return [
        by_group[starts[powers == power][:, None] + np.arange(2**power)]
        for power in np.unique(powers).tolist()
    ]


def _oracle(
    predictions: NDArray[np.integer],
    target: NDArray[np.integer],
    rows: NDArray[np.int64],
    given: NDArray[np.int64],
) -> int:
    """Examples `rows` that are right by loop k on the targets of the examples `given`, summed over
    k."""
    first = first_right(predictions[rows.ravel()] == target[given.ravel(), None])
    return int((predictions.shape[1] + 1 - first).sum())
