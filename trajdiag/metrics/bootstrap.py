"""One seeded, group-aware bootstrap resample, shared by everything that is compared.

Groups (questions, documents, repeated inputs) are drawn with replacement, as many as there are. The
draw depends on nothing but the seed and the set of groups, so two stores with the same groups get
the same weights and their differences are paired. An *estimate* is an array [1 + resample, ...]:
the sample's own value, then one value a resample; arithmetic on estimates is arithmetic on paired
numbers.
"""

import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Estimate = NDArray[np.float64]

_BLOCK = 16_384
"""Groups whose columns are in float at a time."""
_ROWS = 64
"""Resamples whose weights are in float at a time."""
_KEEP = 2**30
"""Bytes of weights kept between calls; more than that are drawn again."""


class Resample:
    """Weights of `n_resamples` resamples of the groups in `group` int64 [example]."""

    def __init__(self, group: NDArray[np.integer], n_resamples: int = 1000, seed: int = 0) -> None:
        groups, inverse, sizes = np.unique(group, return_inverse=True, return_counts=True)
        self.n_resamples = n_resamples
        self.n_groups = len(groups)
        self._seed = [seed, zlib.crc32(np.ascontiguousarray(groups, dtype="<i8").tobytes())]
        self._order = np.argsort(inverse, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self._sizes = sizes
        keep = n_resamples * self.n_groups <= _KEEP and self.n_groups > 1
        self._kept = list(self._draw()) if keep else None

    def means(self, columns: NDArray[np.generic]) -> Estimate:
        """The mean of every column [example, column] over each resample: [1 + resample, column].

        With a single group there is nothing to resample, and the resamples are NaN.
        """
        width = columns.shape[1]
        sums = np.zeros((1 + self.n_resamples, width))
        examples = np.full(1 + self.n_resamples, float(len(columns)))
        if self.n_groups < 2:
            sums[1:] = np.nan
        for block in range(0, self.n_groups, _BLOCK):
            stop = min(block + _BLOCK, self.n_groups)
            by_group = self._by_group(columns, block, stop)
            sums[0] += by_group[:, :-1].sum(axis=0, dtype=np.float64)
            for row, weights in self._weights():
                part = weights[:, block:stop].astype(np.float32) @ by_group
                rows = slice(1 + row, 1 + row + len(weights))
                examples[rows] = part[:, -1] + (examples[rows] if block else 0)
                sums[rows] += part[:, :-1]
        return sums / examples[:, None]

    def _by_group(self, columns: NDArray[np.generic], start: int, stop: int) -> NDArray[np.float32]:
        """The columns, and a column of ones, summed over the examples of each group."""
        first, last = self._starts[start], self._starts[stop]
        summed = np.empty((stop - start, columns.shape[1] + 1), dtype=np.float32)
        summed[:, -1] = self._sizes[start:stop]
        taken = columns[self._order[first:last]]
        if last - first == stop - start:
            summed[:, :-1] = taken
        else:
            starts = self._starts[start:stop] - first
            np.add.reduceat(taken, starts, axis=0, dtype=np.float32, out=summed[:, :-1])
        return summed

    def _weights(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """The index of the first resample, and the weights [resample, group], of each chunk."""
        if self.n_groups > 1:
            yield from self._draw() if self._kept is None else self._kept

    def _draw(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        rng = np.random.default_rng(self._seed)
        rows = max(1, min(_ROWS, 2**22 // self.n_groups))
        for row in range(0, self.n_resamples, rows):
            count = min(rows, self.n_resamples - row)
            drawn = rng.integers(0, self.n_groups, size=(count, self.n_groups))
            drawn += np.arange(count)[:, None] * self.n_groups
            weights = np.bincount(drawn.reshape(-1), minlength=count * self.n_groups)
            # A group drawn more than 255 times has a probability below 1e-500, given 256 groups.
            yield row, weights.reshape(count, self.n_groups).astype(np.uint8)


def interval(
    estimate: Estimate, confidence: float = 0.95
) -> tuple[float | None, float | None, float | None]:
    """Value and percentile interval of an estimate [1 + resample]; None where undefined.

    Resamples in which it is undefined are left out of the interval.
    """
    value = float(estimate[0])
    if not np.isfinite(value):
        return None, None, None
    defined = estimate[1:][np.isfinite(estimate[1:])]
    if len(defined) < 2:
        return value, None, None
    tail = (1 - confidence) / 2
    rank = np.array([tail, 1 - tail]) * (len(defined) - 1)
    low, high = np.interp(rank, np.arange(len(defined)), np.sort(defined))
    return value, float(low), float(high)
