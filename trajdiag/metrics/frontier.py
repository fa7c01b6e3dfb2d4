"""The exact frontier of a stopping signal: mean depth and accuracy at every threshold at once.

A readout leaves at the first usable loop whose value crosses its threshold, else at loop T. As the
threshold eases, an example moves from T to its last running record, then to the record before that:
one sort of all records, each carrying the loops it saves and the change in correctness it brings,
gives every operating point: O(NT log NT), no grid.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.counting_sort import sort_by_high_bytes

NEVER = float("nan")
"""The threshold that no value crosses, so that everything runs to T."""
TIE = 1e-9
"""Accuracies and mean depths closer than this are equal: sums of the same outcomes in another
order."""

_MAGNITUDE = np.uint32(0x7FFFFFFF)
"""All bits of a float32 but its sign."""
_STEP_BITS = np.uint64(16)


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """Operating points from deepest to shallowest: the first is run to T, at threshold NEVER."""

    threshold: NDArray[np.float64]
    """[point], in the signal's own unit; a value that equals the threshold crosses it."""
    depth: NDArray[np.float64]
    """[point]: mean exit depth in loops, strictly falling."""
    accuracy: NDArray[np.float64]
    """[point]."""

    def __len__(self) -> int:
        return len(self.depth)

    def at(self, threshold: NDArray[np.floating], direction: str) -> NDArray[np.int64]:
        """The operating point that each of the thresholds gives; NaN gives run to T."""
        sign = -1.0 if direction == "high" else 1.0
        ascending = sign * self.threshold[1:]
        point = np.searchsorted(ascending, sign * np.asarray(threshold, np.float64), side="right")
        return np.where(np.isnan(threshold), 0, point)

    def least_depth(self, accuracy: float) -> int | None:
        """The shallowest point that reaches `accuracy`; None where none does."""
        reached = np.flatnonzero(self.accuracy >= accuracy - TIE)
        return int(reached[-1]) if len(reached) else None

    def records(self) -> NDArray[np.int64]:
        """The points that are more accurate than all shallower ones, deepest first: no other is
        the shallowest that reaches some accuracy."""
        rising = self.accuracy[::-1]
        before = np.maximum.accumulate(np.append(-np.inf, rising[:-1]))
        return (len(self) - 1 - np.flatnonzero(rising > before))[::-1]


def frontier(
    values: NDArray[np.floating], correct: NDArray[np.bool_], direction: str, first_loop: int = 1
) -> Frontier:
    """All operating points of a signal.

    `values` and `correct` are [example, loop]; `direction` is `high` or `low`, the side that means
    ready to stop; values before `first_loop`, at loop T and NaN are never used. Equal values make
    one point.
    """
    examples, loops = correct.shape
    if examples == 0:
        raise ValueError("a frontier needs at least one example")
    best = best_so_far(values, direction, first_loop)
    right = np.ascontiguousarray(correct.T).view(np.int8)[min(first_loop, loops) - 1 :]
    record, step = records(best, right)
    sort = _sort_float32 if best.dtype == np.float32 else _sort_float64
    thresholds, saved, gained = sort(best, step, record)
    if direction == "low":
        np.negative(thresholds, out=thresholds)
    return of_sums(thresholds, saved, gained, int(correct[:, -1].sum()), examples, loops)


def of_sums(
    threshold: NDArray[np.floating],
    saved: NDArray[np.integer],
    gained: NDArray[np.integer],
    right_at_last: int,
    examples: int,
    loops: int,
) -> Frontier:
    """The frontier whose points after the first have these `threshold` [point], save that many
    loops and gain that many right answers, each summed over examples, against running to T."""
    return Frontier(
        threshold=_after(NEVER, threshold, 1.0),
        depth=_after(0.0, saved, -1.0 / examples, plus=loops),
        accuracy=_after(0.0, gained, 1.0 / examples, plus=right_at_last / examples),
    )


def _after(
    first: float, rest: NDArray[np.generic], times: float, plus: float = 0.0
) -> NDArray[np.float64]:
    """`first`, then `rest`, multiplied and moved: written once, since memory costs more than
    arithmetic."""
    found = np.empty(1 + len(rest))
    found[0] = first * times
    np.multiply(rest, times, out=found[1:])
    found += plus
    return found


def best_so_far(
    values: NDArray[np.floating], direction: str, first_loop: int = 1
) -> NDArray[np.floating]:
    """The best usable value up to each loop, signed so that higher is readier: [loop, example] over
    loops first_loop..T-1, NaN until a value that is not NaN has come. float64 stays, all else is
    float32."""
    if direction not in ("high", "low"):
        raise ValueError(f"direction must be 'high' or 'low', not {direction!r}")
    dtype = np.float64 if values.dtype == np.float64 else np.float32
    best = np.array(values[:, first_loop - 1 : -1].T, dtype=dtype, order="C")
    if direction == "low":
        np.negative(best, out=best)
    best += 0.0  # -0.0 and 0.0 are one value
    for loop in range(1, len(best)):
        np.fmax(best[loop], best[loop - 1], out=best[loop])
    return best


def exit_depth(
    values: NDArray[np.floating],
    threshold: NDArray[np.floating] | float,
    direction: str,
    first_loop: int = 1,
) -> NDArray[np.int16]:
    """The loop at which each example leaves: [example], or [example, threshold] for several
    thresholds.

    `values` [example, loop] as in `frontier`; the threshold NEVER, or NaN, runs to T.
    """
    thresholds = np.atleast_1d(np.asarray(threshold, dtype=np.float64))
    if direction == "low":
        thresholds = -thresholds
    best = best_so_far(values, direction, first_loop)
    saved = np.zeros((values.shape[0], len(thresholds)), dtype=np.int16)
    for at_loop in best:
        saved += at_loop[:, None] >= thresholds
    depth = np.int16(values.shape[1]) - saved
    return depth if np.ndim(threshold) else depth[:, 0]


def right_at(correct: NDArray[np.bool_], depth: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Whether the answer at `depth` (1-based, [example] or [example, policy]) is right."""
    index = depth if depth.ndim == 2 else depth[:, None]
    right = np.take_along_axis(correct, index.astype(np.intp) - 1, axis=1)
    return right if depth.ndim == 2 else right[:, 0]


def thin(curve: Frontier, points: int) -> Frontier:
    """At most `points` (3 at least) of the operating points, with both ends: the records of
    accuracy, as far as two thirds of `points` go, and others between, both about evenly spaced in
    depth."""
    if len(curve) <= points:
        return curve
    every = np.arange(len(curve))
    best = _evenly(curve, curve.records(), 2 * points // 3)
    chosen = np.union1d(best, _evenly(curve, every, points - len(best)))
    return Frontier(
        threshold=curve.threshold[chosen],
        depth=curve.depth[chosen],
        accuracy=curve.accuracy[chosen],
    )


def _evenly(curve: Frontier, of: NDArray[np.int64], points: int) -> NDArray[np.int64]:
    """At most `points` of the operating points `of`, about evenly spaced in depth, with both
    ends."""
    if len(of) <= points:
        return of
    depth = curve.depth[of]
    wanted = np.linspace(depth[0], depth[-1], points)
    return of[np.unique(np.searchsorted(-depth, -wanted))]


def records(
    best: NDArray[np.floating], right: NDArray[np.int8]
) -> tuple[NDArray[np.bool_], NDArray[np.uint16]]:
    """Which [loop, example] of `best` are records, and what leaving there, instead of at the next
    record (at T after the last), brings: 4 x loops saved + change of `right` + 1. `right` has one
    loop more."""
    record = best == best
    np.greater(best[1:], best[:-1], out=record[1:])
    if not record[:1].all():  # the first value after NaN is a record too
        record[1:] |= np.isnan(best[:-1]) & ~np.isnan(best[1:])
    step = np.empty(best.shape, dtype=np.uint16)
    # of the next record: 4 x its loop, less whether it is right, + 1
    following = np.uint16(4 * len(best) + 1) - right[-1].view(np.uint8)
    for loop in reversed(range(len(best))):
        own = right[loop].view(np.uint8)
        np.add(following, own, out=step[loop])
        step[loop] -= np.uint16(4 * loop)
        np.copyto(following, np.uint16(4 * loop + 1) - own, where=record[loop])
    return record, step


def _sort_float32(
    best: NDArray[np.floating], step: NDArray[np.uint16], record: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], NDArray[np.integer], NDArray[np.integer]]:
    """The distinct record values in falling order, with the loops saved and the correctness gained
    so far.

    The value's bits, mapped so that unsigned order is falling order, and the step in the bits below
    make one integer of 6 bytes: sorting integers alone is several times faster than sorting with an
    index.
    """
    bits = best.view(np.uint32)
    negative = (bits.view(np.int32) >> 31).view(np.uint32)
    packed = (bits ^ (~negative & _MAGNITUDE)).astype(np.uint64)
    packed <<= _STEP_BITS
    packed |= step
    packed = packed.reshape(-1) if record.all() else packed[record]
    packed = sort_by_high_bytes(packed, low_bytes=2)
    falling = (packed >> _STEP_BITS).astype(np.uint32)
    ends = _group_ends(falling)
    bits = falling[ends]
    negative = (bits.view(np.int32) >> 31).view(np.uint32)
    thresholds = (bits ^ (~negative & _MAGNITUDE)).view(np.float32)
    return thresholds, *_sums(packed.astype(np.uint16), ends)


def _sort_float64(
    best: NDArray[np.floating], step: NDArray[np.uint16], record: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.integer], NDArray[np.integer]]:
    """As `_sort_float32`, for values whose 64 bits leave no room for the step."""
    best, step = best[record], step[record]
    order = np.argsort(-best)
    falling = best[order]
    ends = _group_ends(falling)
    return falling[ends].astype(np.float64), *_sums(step[order], ends)


def _sums(
    step: NDArray[np.uint16], ends: NDArray[np.int64]
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Loops saved and correctness gained by all steps up to each end."""
    loops = step >> 2
    room = np.int32 if loops.sum(dtype=np.int64) < 2**31 else np.int64
    saved = np.cumsum(loops, dtype=room).take(ends)
    gained = np.cumsum(step & 3, dtype=room)
    gained -= np.arange(1, len(gained) + 1, dtype=room)
    gained = gained.take(ends)
    return saved, gained


def _group_ends(ordered: NDArray[np.generic]) -> NDArray[np.int64]:
    """The last index of each run of equal values."""
    if len(ordered) == 0:
        return np.zeros(0, dtype=np.int64)
    last = np.empty(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=last[:-1])
    last[-1] = True
    return np.flatnonzero(last).astype(np.int64, copy=False)
