"""One seeded, group-aware bootstrap resample, shared by everything that is compared.

Groups (questions, documents, repeated inputs) are drawn with replacement, as many as there are. The
draw depends on nothing but the seed, the role and the set of groups, so two stores with the same
groups get the same weights and their differences are paired. An *estimate* is an array [1 +
resample, ...]: the sample's own value, then one value a resample; arithmetic on estimates is
arithmetic on paired numbers.

Above MOST_GROUPS groups, random blocks of groups are drawn instead: the mean of a block of k groups
has the k-th part of a group's variance, so that the spread of the resampled means is the same but
for the few blocks' own noise, 1 / sqrt(2 BLOCKS) of it.
"""

import zlib
from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trajdiag.errors import ConfigError, meant_share, shown

Estimate = NDArray[np.float64]
Sums = Callable[[NDArray[np.int64], NDArray[np.int64], int], NDArray[np.floating]]
"""Of example numbers, the unit of each (0..units-1, rising) and the number of units, the sums of
columns over each unit's examples: [unit, column]."""

MOST_RESAMPLES = 100_000
"""An interval's ends are sure to a hundredth of its length by then, and memory is not yet short."""
MOST_GROUPS = 10_000
BLOCKS = 2_000
LEFT_OUT = 100
"""Random blocks of groups that are left out in turn, for the acceleration of BCa intervals."""

_BLOCK = 16_384
"""Groups whose columns are in float at a time."""
_PIECE = 65_536
"""Examples whose columns are computed at a time."""
_WEIGHTS = 2**22
"""Weights that are in float at a time."""
_KEEP = 2**30
"""Bytes of weights kept between calls; more than that are drawn again."""


def require_resamples(n_resamples: int, confidence: float, seed: int) -> None:
    """Raise ConfigError for what no interval can be made of."""
    if not 2 <= n_resamples <= MOST_RESAMPLES:
        raise ConfigError(
            f"n_resamples must be from 2 to {MOST_RESAMPLES:,}, got {shown(n_resamples)}; 1000 are "
            "enough for 95% intervals"
        )
    if not 0 < confidence < 1:
        raise ConfigError(
            f"confidence must be a share between 0 and 1, got {shown(confidence)}"
            f"{meant_share(confidence)}"
        )
    if not 0 <= seed < 2**63:
        raise ConfigError(f"seed must be from 0 to 2^63 - 1, got {shown(seed)}")


class Resample:
    """Weights of `n_resamples` resamples of the groups in `group` int64 [example].

    `role` names the sample, `test` or `val`: two samples of one store are drawn independently. With
    `leave_out`, estimates end with 2 LEFT_OUT further rows, those of the jackknife over blocks of
    val's groups, then of test's; a sample's own value stands where the other one is left out.
    """

    def __init__(
        self,
        group: NDArray[np.integer],
        n_resamples: int = 1000,
        seed: int = 0,
        *,
        role: Literal["test", "val"] = "test",
        leave_out: bool = False,
    ) -> None:
        groups, unit = np.unique(group, return_inverse=True)
        self.n_resamples = n_resamples
        self.n_groups = len(groups)
        self.role = role
        self.left_out = 2 * LEFT_OUT if leave_out else 0
        self._seed = [seed, zlib.crc32(np.ascontiguousarray(groups, dtype="<i8").tobytes())]
        if role == "val":
            self._seed.append(1)
        if self.n_groups > MOST_GROUPS:
            order = np.random.default_rng([*self._seed, 2]).permutation(self.n_groups)
            unit = (order % BLOCKS)[unit]
        sizes = np.bincount(unit)
        self._units = len(sizes)
        self._order = np.argsort(unit, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self._sizes = sizes
        keep = n_resamples * self._units <= _KEEP and self._units > 1
        self._kept = list(self._draw()) if keep else None

    @property
    def n_units(self) -> int:
        """What is drawn from: groups, or random blocks of them."""
        return self._units

    def units(self) -> NDArray[np.int32]:
        """The unit of each example, [example]."""
        found = np.empty(len(self._order), np.int32)
        found[self._order] = np.repeat(np.arange(self._units, dtype=np.int32), self._sizes)
        return found

    def means_by_unit(self, sums: NDArray[np.number]) -> Estimate:
        """As `means_of`, of sums over the examples of every unit, [unit, column]."""
        ends = iter(self._blocks())

        def following(
            rows: NDArray[np.int64], unit: NDArray[np.int64], units: int
        ) -> NDArray[np.floating]:
            return sums[slice(*next(ends))].astype(np.float32)

        return self.means_of(following)

    def __len__(self) -> int:
        """Rows of an estimate."""
        return 1 + self.n_resamples + self.left_out

    def means(self, columns: NDArray[np.generic]) -> Estimate:
        """The mean of every column [example, column] over each resample: [1 + resample, column].

        With a single group there is nothing to resample, and the resamples are NaN.
        """
        return self.means_of(lambda rows, unit, units: summed(columns[rows], unit, units))

    def means_of(self, sums: Sums) -> Estimate:
        """The same of columns that are given as sums over the examples of a unit."""
        drawn = 1 + self.n_resamples
        total, examples = np.zeros((0, 0)), np.full(len(self), float(len(self._order)))
        for first, last in self._blocks():
            by_unit = self._by_unit(sums, first, last)
            if first == 0:
                total = np.zeros((len(self), by_unit.shape[1] - 1))
            whole = by_unit[:, :-1].sum(axis=0, dtype=np.float64)
            total[0] += whole
            total[drawn:] += whole
            for row, weights in self._weights():
                part = weights[:, first:last].astype(np.float32) @ by_unit
                rows = slice(1 + row, 1 + row + len(weights))
                examples[rows] = part[:, -1] + (examples[rows] if first else 0)
                total[rows] += part[:, :-1]
            if self.left_out:
                block = self._left_out_block(first, last)
                left = (block == np.arange(LEFT_OUT)[:, None]).astype(np.float32) @ by_unit
                start = drawn + (LEFT_OUT if self.role == "test" else 0)
                total[start : start + LEFT_OUT] -= left[:, :-1]
                examples[start : start + LEFT_OUT] -= left[:, -1]
        if self._units < 2:
            total[1:] = np.nan
        return total / examples[:, None]

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Runs of units whose examples are computed together."""
        first = 0
        while first < self._units:
            most = np.searchsorted(self._starts, self._starts[first] + _PIECE, side="right") - 1
            last = int(min(max(first + 1, most), first + _BLOCK, self._units))
            yield first, last
            first = last

    def _by_unit(self, sums: Sums, start: int, stop: int) -> NDArray[np.float32]:
        """The columns, and a column of ones, summed over the examples of each unit."""
        rows = self._order[self._starts[start] : self._starts[stop]]
        unit = np.repeat(np.arange(stop - start), self._sizes[start:stop])
        found = sums(rows, unit, stop - start)
        ones = self._sizes[start:stop, None]
        return np.concatenate([found, ones], axis=1, dtype=np.float32)

    def _left_out_block(self, first: int, last: int) -> NDArray[np.int64]:
        """The jackknife's block of each unit."""
        order = np.random.default_rng([*self._seed, 3]).permutation(self._units)
        return order[first:last] * LEFT_OUT // self._units

    def _weights(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """The index of the first resample, and the weights [resample, unit], of each chunk."""
        if self._units > 1:
            yield from self._draw() if self._kept is None else self._kept

    def _draw(self) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        rng = np.random.default_rng(self._seed)
        rows = max(1, _WEIGHTS // self._units)
        for row in range(0, self.n_resamples, rows):
            count = min(rows, self.n_resamples - row)
            drawn = rng.integers(0, self._units, size=(count, self._units))
            drawn += np.arange(count)[:, None] * self._units
            weights = np.bincount(drawn.reshape(-1), minlength=count * self._units)
            # A unit drawn more than 255 times has a probability below 1e-500, given 256 units.
            yield row, weights.reshape(count, self._units).astype(np.uint8)


def summed(
    columns: NDArray[np.generic], unit: NDArray[np.int64], units: int
) -> NDArray[np.float32]:
    """Columns [example, column] summed over the examples of each unit, of which none is empty and
    which come in order: [unit, column]."""
    if len(columns) == units:
        return columns.astype(np.float32)
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    return np.add.reduceat(columns, starts, axis=0, dtype=np.float32)


def interval(
    estimate: Estimate, confidence: float = 0.95, left_out: int = 0
) -> tuple[float | None, float | None, float | None]:
    """Value and interval of an estimate [1 + resample]; None where undefined or not reached.

    Percentiles of the resamples; with `left_out` rows of a jackknife at its end, BCa (Efron 1987),
    which corrects them for bias and for a spread that changes with the value. Resamples in which it
    is undefined (NaN) are left out; a depth that is not reached is infinite and sorts as such: an
    upper end of None beside a lower one is `not reached`.
    """
    value = float(estimate[0])
    drawn = estimate[1 : len(estimate) - left_out]
    drawn = np.sort(drawn[~np.isnan(drawn)])
    if not np.isfinite(value):
        return None, None, None
    if len(drawn) < 2:
        return value, None, None
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if left_out:
        tails = _bca(value, drawn, estimate[len(estimate) - left_out :], tails)
    low, high = (_quantile(drawn, tail) for tail in tails)
    return value, low, high


def _quantile(ordered: NDArray[np.float64], share: float) -> float | None:
    """Linear between neighbours; None where it is not finite."""
    rank = share * (len(ordered) - 1)
    below = int(rank)
    above = min(below + 1, len(ordered) - 1)
    if rank == below or ordered[below] == ordered[above]:
        found = float(ordered[below])
    else:
        found = float(ordered[below] + (rank - below) * (ordered[above] - ordered[below]))
    return found if np.isfinite(found) else None


def _bca(
    value: float,
    drawn: NDArray[np.float64],
    jackknife: NDArray[np.float64],
    tails: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The percentiles to read instead of `tails`; `jackknife` holds one half for each sample."""
    normal = NormalDist()
    share = ((drawn < value).sum() + 0.5 * (drawn == value).sum()) / len(drawn)
    share = min(max(share, 0.5 / len(drawn)), 1 - 0.5 / len(drawn))
    bias = normal.inv_cdf(share)
    acceleration = _acceleration(jackknife)
    moved = bias + np.array([normal.inv_cdf(float(tail)) for tail in tails])
    return np.array(
        [normal.cdf(bias + m / max(1 - acceleration * m, 1e-6)) for m in moved.tolist()]
    )


def _acceleration(jackknife: NDArray[np.float64]) -> float:
    """A sixth of the skewness of the blocks' pulls; 0 where a value without some block is NaN or
    not reached."""
    if not np.isfinite(jackknife).all():
        return 0.0
    pull = np.concatenate([half.mean() - half for half in np.split(jackknife, 2)])
    spread = float((pull**2).sum()) ** 1.5
    return float((pull**3).sum()) / (6 * spread) if spread > 0 else 0.0
