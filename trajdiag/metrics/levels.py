"""The distinct values of a column in their order: its ranks, and its quantile bins."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The distinct scores of the examples, the most ready first."""

    code: NDArray[np.int64]
    """[example]: its level."""
    counts: NDArray[np.int64]
    """[level]: its examples."""

    def of(self, mask: NDArray[np.bool_]) -> "Levels":
        """The levels of the examples in the mask [example] alone; some may be left empty."""
        if mask.all():
            return self
        code = self.code[mask]
        return Levels(code=code, counts=np.bincount(code, minlength=len(self.counts)))

    def ranks(self) -> NDArray[np.float64]:
        """[example]: mid-ranks as a share of the examples, less their mean of one half."""
        shares = (np.cumsum(self.counts) - self.counts / 2) / max(self.counts.sum(), 1)
        return (shares - 0.5)[self.code]

    def bins(self, most: int) -> NDArray[np.int64]:
        """[example]: at most `most` bins of like size, none of which parts a level."""
        return quantile_bin(self.counts, most)[self.code]


def levels_of(score: NDArray[np.floating]) -> Levels:
    """The levels of a score [example] of which high means ready; infinity is a value like others.

    Raises ValueError for NaN.
    """
    if np.isnan(score).any():
        raise ValueError("a score that is NaN has no rank; leave such examples out")
    order = np.argsort(-score)
    ordered = score[order]
    new = ordered[1:] != ordered[:-1]
    code = np.empty(len(score), dtype=np.int64)
    code[order] = np.concatenate([np.zeros(min(len(score), 1), np.int64), np.cumsum(new)])
    return Levels(code=code, counts=np.bincount(code))


def quantile_bin(counts: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The quantile bin, of `most`, in which the middle of each level lies, [level]: each its own
    where there are no more than `most` levels."""
    if len(counts) <= most:
        return np.arange(len(counts))
    twice_middle = 2 * np.cumsum(counts) - counts
    return twice_middle * most // (2 * counts.sum())
