"""Resamples by random blocks of groups: an approximate bootstrap for numbers that are no means.

A curve's area or a rank correlation would have to be computed anew in each resample of each readout
at each loop. Here the groups are dealt at random into at most 500 blocks of as many groups each,
whatever can be summed (histograms, products of ranks) is summed by block, and the blocks are drawn
with replacement: one matrix product gives all resamples' sums. The blocks are exchangeable, so
their spread estimates the groups' own, with a relative error of the standard error of about
1/sqrt(2 x blocks), 3% at 500. With fewer groups than blocks each group is a block: the plain
bootstrap over groups.
"""

import zlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.bootstrap import Estimate

MOST_BLOCKS = 500


@dataclass(frozen=True, kw_only=True)
class RandomBlocks:
    """Blocks of examples, and how often each resample draws them."""

    code: NDArray[np.int64]
    """[example]: its block."""
    weights: NDArray[np.float64]
    """[1 + resample, block]: how often each is drawn; once each in the first row, the sample's."""
    weights32: NDArray[np.float32]
    """The same in float32."""

    @classmethod
    def deal(
        cls,
        group: NDArray[np.integer],
        n_resamples: int = 1000,
        seed: int = 0,
        most: int = MOST_BLOCKS,
    ) -> "RandomBlocks":
        """Deal the groups in `group` int64 [example] into at most `most` blocks.

        Nothing but the seed and the set of groups decides who is in a block and what is drawn.
        """
        groups, member = np.unique(group, return_inverse=True)
        identity = zlib.crc32(np.ascontiguousarray(groups, dtype="<i8").tobytes())
        rng = np.random.default_rng([seed, identity])
        n_blocks = max(min(most, len(groups)), 1)
        code = rng.permutation(np.arange(len(groups)) % n_blocks)[member]
        drawn = np.full((n_resamples, n_blocks), np.nan)
        if n_blocks > 1:
            picked = rng.integers(0, n_blocks, size=drawn.shape)
            picked += np.arange(n_resamples)[:, None] * n_blocks
            drawn = np.bincount(picked.reshape(-1), minlength=drawn.size).reshape(drawn.shape)
        weights = np.concatenate([np.ones((1, n_blocks)), drawn]).astype(np.float64)
        return cls(code=code, weights=weights, weights32=weights.astype(np.float32))

    def of(self, mask: NDArray[np.bool_]) -> "RandomBlocks":
        """The same draws for the examples in the mask [example] alone."""
        return self if mask.all() else replace(self, code=self.code[mask])

    def sums(self, columns: NDArray[np.generic]) -> NDArray[np.float64]:
        """The columns [example, column] summed over each block, [block, column]."""
        blocks = self.weights.shape[1]
        found = np.empty((blocks, columns.shape[1]))
        for j in range(columns.shape[1]):
            found[:, j] = np.bincount(self.code, weights=columns[:, j], minlength=blocks)
        return found

    def histogram(self, cell: NDArray[np.integer], cells: int) -> NDArray[np.float32]:
        """How many examples of each block are in each of the `cells` [example]: [block, cell]."""
        blocks = self.weights.shape[1]
        counts = np.bincount(self.code * cells + cell, minlength=blocks * cells)
        return counts.reshape(blocks, cells).astype(np.float32)

    def sums_by(
        self, cell: NDArray[np.integer], cells: int, x: NDArray[np.generic]
    ) -> NDArray[np.float64]:
        """`x` [example] summed over the examples of each block and cell, [block, cell]."""
        blocks = self.weights.shape[1]
        found = np.bincount(self.code * cells + cell, weights=x, minlength=blocks * cells)
        return found.reshape(blocks, cells).astype(np.float64)

    def resample(self, by_block: NDArray[np.floating]) -> Estimate:
        """Sums by block [block, ...] as sums over each resample, [1 + resample, ...], in float32
        where given in it. With a single block there is nothing to resample, and those are NaN."""
        flat = by_block.reshape(len(by_block), -1)
        found = (self.weights32 if flat.dtype == np.float32 else self.weights) @ flat
        return found.reshape(len(self.weights), *by_block.shape[1:])

    def means(self, columns: NDArray[np.generic]) -> Estimate:
        """The mean of every column [example, column] over each resample, [1 + resample, column];
        the first is exact, as a mean over all examples."""
        ones = np.ones((len(columns), 1))
        sums = self.resample(self.sums(np.concatenate([columns, ones], axis=1)))
        with np.errstate(invalid="ignore"):
            found = sums[:, :-1] / sums[:, -1:]
        found[0] = columns.mean(axis=0, dtype=np.float64)
        return found


def about(value: float | NDArray[np.float64], binned: Estimate) -> Estimate:
    """An estimate with its exact `value` first, from one whose numbers [1 + resample, ...] were all
    computed on the same bins: what binning takes off the sample's own value is given back to each
    resample."""
    found = binned + (value - binned[0])
    found[0] = value
    return found
