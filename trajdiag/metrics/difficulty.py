"""Whether harder inputs look less ready and leave later: rank correlations with difficulty, and
bins of difficulty.

Resamples of a rank correlation are linear in how often a block of examples is drawn: each example
carries what it adds to the moments of the ranks, itself and through the ranks of all others. (With
the ranks held fixed instead, 95% intervals cover 92% at a correlation of .9.)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.bootstrap import Estimate
from trajdiag.metrics.levels import Levels
from trajdiag.metrics.random_blocks import RandomBlocks


@dataclass(frozen=True, kw_only=True)
class Bins:
    """Examples sorted into bins of difficulty, easiest first."""

    code: NDArray[np.int64]
    """[example]: the bin; -1 where the difficulty is unknown."""
    centre: NDArray[np.float64]
    """[bin]: the mean difficulty of its examples."""


def difficulty_bins(difficulty: NDArray[np.floating], most: int) -> Bins:
    """One bin for each distinct difficulty, or `most` quantile bins where there are more."""
    known = np.isfinite(difficulty)
    code = np.full(len(difficulty), -1)
    levels, code[known] = np.unique(difficulty[known], return_inverse=True)
    if len(levels) > most:
        edges = np.quantile(difficulty[known], np.linspace(0, 1, most + 1)[1:-1])
        code[known] = np.searchsorted(edges, difficulty[known], side="right")
        _, code[known] = np.unique(code[known], return_inverse=True)
    counts = np.bincount(code[known])
    return Bins(code=code, centre=np.bincount(code[known], weights=difficulty[known]) / counts)


def means_by_bin(values: NDArray[np.generic], bins: Bins) -> NDArray[np.float64]:
    """Mean of `values` [example, loop] over the examples of each bin, [bin, loop]; what is not
    finite is left out, and NaN stands where nothing is left."""
    return mean_of_sums(sums_by_bin(values, bins))


def mean_of_sums(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The means of what `sums_by_bin` summed: [bin, loop]."""
    return np.where(sums[1] > 0, sums[0] / np.maximum(sums[1], 1), np.nan)


def sums_by_bin(values: NDArray[np.generic], bins: Bins) -> NDArray[np.float64]:
    """The finite `values` [example, loop] of each bin summed, and their number: [2, bin, loop].
    Those of parts of the examples add up."""
    known, width = bins.code >= 0, len(bins.centre)
    code, found = bins.code[known], np.zeros((2, width, values.shape[1]))
    for loop in range(values.shape[1]):
        numbers = values[known, loop].astype(np.float64)
        finite = np.isfinite(numbers)
        np.copyto(numbers, 0.0, where=~finite)
        found[0, :, loop] = np.bincount(code, weights=numbers, minlength=width)
        found[1, :, loop] = np.bincount(code, weights=finite, minlength=width)
    return found


def spearman(a: NDArray[np.number], b: NDArray[np.number]) -> float:
    """Spearman's rank correlation of two columns [example], ties at their mid-rank, examples
    without a value in `b` left out; NaN where a column is constant."""
    known = np.isfinite(b)
    return float(_correlation(*(_centred_ranks(x[known]) for x in (a, b))))


def spearman_of_table(table: NDArray[np.floating]) -> NDArray[np.float64]:
    """The same from contingency tables of two ordered codes, [..., a, b], of any positive weight:
    [...].

    NaN where a margin has one level only.
    """
    total = table.sum(axis=(-2, -1))[..., None]
    total = np.where(total > 0, total, np.nan)
    rank_a, rank_b = (
        _table_ranks(table.sum(axis=-1), total),
        _table_ranks(table.sum(axis=-2), total),
    )
    joint = np.einsum("...ab,...a,...b->...", table, rank_a, rank_b)
    square_a = (table.sum(axis=-1) * rank_a**2).sum(axis=-1)
    square_b = (table.sum(axis=-2) * rank_b**2).sum(axis=-1)
    return _ratio(joint, np.sqrt(square_a * square_b))


def rank_correlation(a: Levels, b: Levels, blocks: RandomBlocks) -> Estimate:
    """Spearman's correlation of two columns of levels [example]: [1 + resample]; NaN where one
    column is constant."""
    columns = [*_rank_moments(a, b, a.ranks(), b.ranks()), np.ones(len(a.code))]
    sums = blocks.resample(blocks.sums(np.stack(columns, axis=1)))
    return _bounded(*_over(sums[:, :-1], sums[:, -1:]).T)


def rank_correlation_given(
    a: Levels, b: Levels, given: NDArray[np.bool_], blocks: RandomBlocks
) -> tuple[Estimate, Estimate]:
    """Spearman's correlation of two columns of levels [example], and the partial one given a binary
    column c, [1 + resample] each: (r_ab - r_ac r_bc) / sqrt((1 - r_ac^2) (1 - r_bc^2)).

    The partial one is the plain one where c is constant, and NaN where c decides a or b.
    """
    rank_a, rank_b, c = a.ranks(), b.ranks(), given - given.mean()
    a_c = rank_a * c
    a_c += _through_ranks(a, c) - a_c.mean()
    b_c = rank_b * c
    b_c += _through_ranks(b, c) - b_c.mean()
    columns = [*_rank_moments(a, b, rank_a, rank_b), a_c, b_c, c * c, np.ones(len(c))]
    sums = blocks.resample(blocks.sums(np.stack(columns, axis=1)))
    joint, square_a, square_b, joint_a, joint_b, square_c = _over(sums[:, :-1], sums[:, -1:]).T
    plain = _bounded(joint, square_a, square_b)
    r_a = np.nan_to_num(_bounded(joint_a, square_a, square_c))
    r_b = np.nan_to_num(_bounded(joint_b, square_b, square_c))
    left = (1 - r_a**2) * (1 - r_b**2)
    left = np.where(left > 1e-9, left, 0.0)  # what c decides, but for rounding
    return plain, np.clip(_ratio(plain - r_a * r_b, np.sqrt(left)), -1, 1)


def correlation_of_bins(values: NDArray[np.floating], bins: Bins, blocks: RandomBlocks) -> Estimate:
    """Spearman's correlation of the bins' difficulty with their mean value at each loop, of
    `values` [example, loop]: [1 + resample, loop]; the paper's difficulty ordering (arXiv
    2607.20519), with the signal turned so that high means less ready.

    Values that are not finite, and bins without any that are, are left out.
    """
    width, loops = len(bins.centre), values.shape[1]
    by_block = np.zeros((blocks.weights.shape[1], 2, loops, width))
    for loop in range(loops):
        of = (bins.code >= 0) & np.isfinite(values[:, loop])
        code, numbers = bins.code[of], values[of, loop].astype(np.float64)
        for i, x in enumerate((numbers, np.ones(len(numbers)))):
            by_block[:, i, loop] = blocks.of(of).sums_by(code, width, x)
    sums, counts = np.moveaxis(blocks.resample(by_block), 1, 0)
    means = _over(sums, counts).reshape(-1, width)
    return _ordering(means).reshape(-1, loops)


def _ordering(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spearman's correlation of each row of means [row, bin] with the bins' own order, NaN left
    out."""
    known = ~np.isnan(means)
    one, other = means[:, :, None], means[:, None, :]
    rank = (one > other).sum(axis=2) + (one == other).sum(axis=2) / 2
    total = np.maximum(known.sum(axis=1, keepdims=True), 1)
    rank = np.where(known, rank - total / 2, 0.0)
    order = np.where(known, np.cumsum(known, axis=1) - 0.5 - total / 2, 0.0)
    squares = (rank**2).sum(axis=1) * (order**2).sum(axis=1)
    return _ratio((rank * order).sum(axis=1), np.sqrt(squares))


def _rank_moments(
    a: Levels, b: Levels, rank_a: NDArray[np.float64], rank_b: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ...]:
    """What each example adds to the mean products of ranks a b, a a and b b, [example] each."""
    a_b = rank_a * rank_b
    a_b += _through_ranks(a, rank_b) + _through_ranks(b, rank_a) - 2 * a_b.mean()
    squares = []
    for levels, rank in ((a, rank_a), (b, rank_b)):
        square = rank * rank
        squares.append(square + 2 * (_through_ranks(levels, rank) - square.mean()))
    return a_b, *squares


def _through_ranks(a: Levels, y: NDArray[np.floating]) -> NDArray[np.float64]:
    """What each example adds to the mean of rank(a) x y through the ranks of those above it, for
    which it is one more below."""
    at_level = np.bincount(a.code, weights=y, minlength=len(a.counts)) / len(y)
    return (at_level.sum() - np.cumsum(at_level) + at_level / 2)[a.code]


def _bounded(
    joint: NDArray[np.float64], square_a: NDArray[np.float64], square_b: NDArray[np.float64]
) -> NDArray[np.float64]:
    """joint / sqrt(square_a square_b) within [-1, 1], NaN where one is constant."""
    scale = np.sqrt(np.maximum(square_a, 0) * np.maximum(square_b, 0))
    return np.clip(_ratio(joint, scale), -1, 1)


def _over(sums: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """sums / counts, NaN where there are none."""
    return np.where(counts > 0, sums / np.where(counts > 0, counts, 1.0), np.nan)


def _table_ranks(margin: NDArray[np.floating], total: NDArray[np.floating]) -> NDArray[np.floating]:
    """Mid-ranks of a margin's levels [..., level], less their mean, as a share of the total."""
    return (np.cumsum(margin, axis=-1) - margin / 2) / total - 0.5


def _centred_ranks(x: NDArray[np.number]) -> NDArray[np.float64]:
    """Mid-ranks of a column, less their mean."""
    _, code, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - counts / 2)[code] - len(x) / 2


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    return _ratio(a @ b, np.sqrt((a @ a) * (b @ b)))


def _ratio(over: NDArray[np.floating], under: NDArray[np.floating]) -> NDArray[np.float64]:
    """over / under, NaN where a column does not vary."""
    varies = under > 1e-12
    return np.where(varies, over / np.where(varies, under, 1.0), np.nan)
