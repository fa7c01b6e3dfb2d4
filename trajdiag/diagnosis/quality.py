"""How well each readout's values tell what they are meant to tell, loop by loop, as rows.

A reading says something about readiness (is the prediction right, will more loops help), about its
own probability (does it come true) and about difficulty (do harder inputs look less ready).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.bin_intervals import BinIntervals
from trajdiag.metrics.bootstrap import Estimate, interval
from trajdiag.metrics.calibration import Reliability, calibration, probability
from trajdiag.metrics.difficulty import (
    Bins,
    correlation_of_bins,
    difficulty_bins,
    rank_correlation,
    rank_correlation_given,
)
from trajdiag.metrics.discrimination import COVERAGES, discrimination
from trajdiag.metrics.levels import Levels, levels_of
from trajdiag.metrics.modal_exit import PROBABILITIES, at_modal_exit, exits_by_probability
from trajdiag.metrics.oracle import first_right, stays_right
from trajdiag.metrics.overthinking import (
    changes,
    destructive,
    destructive_by_luck,
    settled,
)
from trajdiag.metrics.random_blocks import RandomBlocks
from trajdiag.results import QualityRow, ReliabilityRow

MOST_BINS = 20
"""Bins of difficulty in `spearman-bins/difficulty`; fewer levels are their own bins."""

_DISCRIMINATION = (
    *("auroc/right", "auprc/right", "auroc/settled", "auprc/settled", "aurc"),
    *(f"risk@coverage={c:g}" for c in COVERAGES),
)
_CALIBRATION = ("ece", "brier")
_BINS = "spearman-bins/difficulty"
_DIFFICULTY = ("spearman/difficulty", _BINS, "partial/difficulty")

Estimates = dict[tuple[str, int | None], Estimate]
"""By metric and loop; None for what is not about one loop."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A readout's values on the test examples."""

    name: str
    direction: str
    """`high` or `low`: which values mean ready to stop."""
    first_loop: int
    """The first loop at which it can stop; nothing is said of earlier ones."""
    scale: str
    """As Readout.scale. Of scales `hazard` and `cdf` nothing is said at loop T either, where they
    are the same for all: what is left leaves there."""
    values: NDArray[np.floating]
    """[example, loop]; NaN where undefined."""
    exits: NDArray[np.integer]
    """[example]: the exit loop at its operating point."""
    label: NDArray[np.bool_] | None = None
    """[example, loop]: what its probability is about; None: that the prediction is right."""


@dataclass(frozen=True, kw_only=True)
class _Sample:
    """What all readings are held against."""

    right: NDArray[np.bool_]
    settled: NDArray[np.bool_]
    stays: NDArray[np.int64]
    """[example]: the first loop from which on it is right, T + 1 where there is none."""
    known: NDArray[np.bool_]
    """[example]: whether its difficulty is."""
    difficulty: Levels
    """Of the examples with a known one, easiest first."""
    bins: Bins
    blocks: RandomBlocks
    group: NDArray[np.integer]
    confidence: float


@dataclass(frozen=True, kw_only=True)
class _Bins:
    """The bins of a probability at one loop, and the bounds of how often it comes true, [bin]."""

    found: Reliability
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def quality(
    store: str,
    readings: Iterable[Reading],
    *,
    correct: NDArray[np.bool_],
    predictions: NDArray[np.integer],
    target: NDArray[np.integer],
    difficulty: NDArray[np.floating],
    group: NDArray[np.integer],
    confidence: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[list[QualityRow], list[ReliabilityRow]]:
    """The quality of the predictions and of every reading, on the same examples.

    `correct` and `predictions` are [example, loop]; `target`, `difficulty` (NaN where unknown) and
    `group` are [example]. Intervals are percentile intervals over `n_resamples` draws of random
    blocks of groups. Readings are taken one at a time. Raises ValueError without examples, for
    `target`s that do not give `correct`, and for a direction that is neither `high` nor `low`.

    Metrics of a loop come with their mean over the loops at which they are defined, as loop None.
    Without any known difficulty there are no rows about it, and without a probability none about
    calibration.
    """
    if not len(correct):
        raise ValueError("quality needs at least one example")
    if not np.array_equal(predictions == target[:, None], correct):
        raise ValueError("correct must be where predictions are the target")
    known = np.isfinite(difficulty)
    sample = _Sample(
        right=correct,
        settled=settled(correct),
        stays=first_right(stays_right(correct)),
        known=known,
        difficulty=levels_of(-difficulty[known]),
        bins=difficulty_bins(difficulty, MOST_BINS),
        blocks=RandomBlocks.deal(group, n_resamples, seed),
        group=group,
        confidence=confidence,
    )
    found = _of_predictions(predictions, target, sample)
    rows = list(_rows(store, None, found, confidence))
    reliability: list[ReliabilityRow] = []
    for reading in readings:
        found, bins = _of_reading(reading, sample)
        rows += _rows(store, reading.name, found, confidence)
        reliability += _reliability_rows(store, reading.name, bins)
        del reading  # its values need not outlive the next one's making
    return rows, reliability


def _of_predictions(
    predictions: NDArray[np.integer], target: NDArray[np.integer], sample: _Sample
) -> Estimates:
    lost, by_luck = destructive(sample.right), destructive_by_luck(predictions, target)
    overthinking = sample.blocks.means(np.stack([lost, lost - by_luck], axis=1))
    change = changes(predictions, sample.right)
    per_loop = {
        "wasteful": change.wasted,
        "flips": change.flipped,
        "flips/gained": change.gained,
        "flips/lost": change.lost,
    }
    found: Estimates = {
        ("overthinking", None): overthinking[:, 0],
        ("overthinking/beyond-luck", None): overthinking[:, 1],
    }
    for metric, columns in per_loop.items():
        means = sample.blocks.means(columns)
        found |= _with_mean(metric, {2 + i: means[:, i] for i in range(columns.shape[1])})
    return found


def _of_reading(reading: Reading, sample: _Sample) -> tuple[Estimates, dict[int, _Bins]]:
    if reading.direction not in ("high", "low"):
        raise ValueError(f"direction must be 'high' or 'low', not {reading.direction!r}")
    score = reading.values if reading.direction == "high" else -reading.values
    p = probability(reading.values, reading.name, reading.scale)
    last = sample.right.shape[1] - (reading.scale in ("hazard", "cdf"))
    by_loop: dict[int, dict[str, Estimate]] = {}
    bins: dict[int, _Bins] = {}
    for loop in range(reading.first_loop, last + 1):
        defined = ~np.isnan(score[:, loop - 1])
        if not defined.any():
            continue
        by_loop[loop] = _readiness(score[:, loop - 1], loop - 1, defined, sample)
        if p is not None:
            label = sample.right if reading.label is None else reading.label
            probabilities, of = p[defined, loop - 1], label[defined, loop - 1]
            calibrated, found = calibration(probabilities, of, sample.blocks.of(defined))
            bins[loop] = _bounded(found, of, sample.group[defined], sample.confidence)
            by_loop[loop] |= calibrated
    if len(sample.bins.centre):
        ordering = correlation_of_bins(-score, sample.bins, sample.blocks)
        for loop in by_loop:
            by_loop[loop][_BINS] = ordering[:, loop - 1]
    found = _collect(reading, by_loop, p is not None, sample) | _exits(reading.exits, sample)
    if reading.scale == "hazard" and reading.first_loop == 1:
        found |= _modal(reading, sample)
    return found, bins


def _bounded(
    found: Reliability, label: NDArray[np.bool_], group: NDArray[np.integer], confidence: float
) -> _Bins:
    of = Bins(code=found.code, centre=found.confidence)
    low, high = BinIntervals(of, group, confidence).of_shares(label[:, None])
    return _Bins(found=found, low=low[:, 0], high=high[:, 0])


def _readiness(
    score: NDArray[np.floating], at: int, defined: NDArray[np.bool_], sample: _Sample
) -> dict[str, Estimate]:
    """Discrimination, and correlations with difficulty, of a score [example] at the loop `at`."""
    levels = levels_of(score[defined])
    right, later = sample.right[defined, at], sample.settled[defined, at]
    found = discrimination(levels, right, later, sample.blocks.of(defined))
    both = defined & sample.known
    if both.any():
        signal, blocks = levels.of(sample.known[defined]), sample.blocks.of(both)
        difficulty = sample.difficulty.of(defined[sample.known])
        given = sample.right[both, at]
        plain, partial = rank_correlation_given(signal, difficulty, given, blocks)
        found |= {"spearman/difficulty": plain, "partial/difficulty": partial}
    return found


def _exits(exits: NDArray[np.integer], sample: _Sample) -> Estimates:
    """How the exit loop [example] goes with difficulty, and with the loop from which on it is
    right, over those that are right at T."""
    found: Estimates = {}
    leaves = levels_of(-exits.astype(np.float64))
    if sample.known.any():
        at, blocks = leaves.of(sample.known), sample.blocks.of(sample.known)
        found["exit/difficulty", None] = rank_correlation(at, sample.difficulty, blocks)
    stays = sample.stays <= sample.right.shape[1]
    found["exit/stays-depth", None] = np.full(len(sample.blocks.weights), np.nan)
    if stays.any():
        depth = levels_of(-sample.stays[stays].astype(np.float64))
        at, blocks = leaves.of(stays), sample.blocks.of(stays)
        found["exit/stays-depth", None] = rank_correlation(at, depth, blocks)
    return found


def _modal(reading: Reading, sample: _Sample) -> Estimates:
    """The share of examples at a gate's commonest exit loop, at an exit probability of 1/2 and in
    the mean over probabilities."""
    there = at_modal_exit(exits_by_probability(reading.values, reading.direction))
    half = there[:, len(PROBABILITIES) // 2]
    means = sample.blocks.means(np.stack([there.mean(axis=1), half], axis=1))
    return {("modal-exit", None): means[:, 0], ("modal-exit@0.5", None): means[:, 1]}


def _collect(
    reading: Reading, by_loop: Mapping[int, dict[str, Estimate]], sure: bool, sample: _Sample
) -> Estimates:
    """Every metric at every loop, NaN where it is undefined, and its mean over loops."""
    nowhere = np.full(len(sample.blocks.weights), np.nan)
    metrics = (*_DISCRIMINATION, *(_CALIBRATION if sure else ()))
    found: Estimates = {}
    for metric in (*metrics, *(_DIFFICULTY if sample.known.any() else ())):
        loops = range(1, sample.right.shape[1] + 1)
        found |= _with_mean(metric, {t: by_loop.get(t, {}).get(metric, nowhere) for t in loops})
    return found


def _with_mean(metric: str, estimates: dict[int, Estimate]) -> Estimates:
    """The estimates of a metric by loop, and their mean over the loops at which it is defined."""
    found: Estimates = {(metric, loop): estimate for loop, estimate in estimates.items()}
    defined = [estimate for estimate in estimates.values() if np.isfinite(estimate[0])]
    if estimates:
        some = next(iter(estimates.values()))
        found[metric, None] = np.mean(defined, axis=0) if defined else np.full_like(some, np.nan)
    return found


def _rows(
    store: str, readout: str | None, found: Estimates, confidence: float
) -> Iterator[QualityRow]:
    for (metric, loop), estimate in found.items():
        value, low, high = interval(estimate, confidence)
        yield QualityRow(
            store=store,
            readout=readout,
            loop=loop,
            metric=metric,
            value=value,
            low=low,
            high=high,
        )


def _reliability_rows(
    store: str, readout: str, bins: Mapping[int, _Bins]
) -> Iterator[ReliabilityRow]:
    for loop, of in bins.items():
        found = of.found
        for b in range(len(found.n)):
            yield ReliabilityRow(
                store=store,
                readout=readout,
                loop=loop,
                bin=b + 1,
                confidence=float(found.confidence[b]),
                accuracy=float(found.accuracy[b]),
                n=int(found.n[b]),
                low=float(of.low[b]),
                high=float(of.high[b]),
            )
