"""Whether harder inputs leave later: rank correlation with difficulty, and bins of difficulty."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
    known = bins.code >= 0
    member = bins.code[known] == np.arange(len(bins.centre))[:, None]
    numbers = values[known].astype(np.float64)
    finite = np.isfinite(numbers)
    counts = member @ finite.astype(np.float64)
    sums = member @ np.where(finite, numbers, 0.0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


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
