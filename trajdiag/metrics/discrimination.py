"""How well a score tells apart what is ready from what is not: AUROC, AUPRC, risk-coverage.

All are functions of *levels*: counts of examples, and of those that have the label, at each
distinct score from most to least ready, [..., level]. With one level a distinct score they are
exact, ties included; with quantile bins as levels they are close, and cheap for every resample.
An empty level changes nothing.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.bootstrap import Estimate
from trajdiag.metrics.levels import Levels
from trajdiag.metrics.random_blocks import RandomBlocks, about

MOST_BINS = 64
"""Quantile bins of a score in its resamples."""
COVERAGES = (0.5, 0.8, 0.9)
"""Of the risks in `discrimination`."""

Metric = Callable[[NDArray[np.number], NDArray[np.number]], NDArray[np.float64]]
"""A number [...] of levels' counts of examples, and of those with the label, [..., level]."""


def auroc(n: NDArray[np.number], hits: NDArray[np.number]) -> NDArray[np.float64]:
    """Area under the receiver operating characteristic, [...]: the probability that an example with
    the label is readier than one without, ties at one half. NaN where one class is missing."""
    misses = n - hits
    below = misses.sum(axis=-1, keepdims=True) - np.cumsum(misses, axis=-1)
    won = (hits * (below + misses / 2)).sum(axis=-1)
    return _ratio(won, hits.sum(axis=-1) * misses.sum(axis=-1))


def average_precision(n: NDArray[np.number], hits: NDArray[np.number]) -> NDArray[np.float64]:
    """Area under the precision-recall curve as average precision, sum_k (R_k - R_{k-1}) P_k over
    the distinct scores (scikit-learn's), [...]; NaN where one class is missing."""
    taken, right = np.cumsum(n, axis=-1), np.cumsum(hits, axis=-1)
    precision = right / np.maximum(taken, 1)
    found = _ratio((hits * precision).sum(axis=-1), right[..., -1])
    return np.where(right[..., -1] < taken[..., -1], found, np.nan)


def aurc(n: NDArray[np.number], hits: NDArray[np.number]) -> NDArray[np.float64]:
    """Area under the risk-coverage curve, [...]: the mean over k = 1..N of the share of wrong among
    the k readiest (Geifman et al., arXiv 1805.08206), examples of one level in random order.

    In a level that follows a examples, e of them wrong, and whose share of wrong is r, the risk at
    a + j is (e + r j) / (a + j); its sum has harmonic numbers.
    """
    if n.shape[-1] == 0:
        return np.full(n.shape[:-1], np.nan)
    misses = n - hits
    end, wrong = np.cumsum(n, axis=-1), np.cumsum(misses, axis=-1)
    share = misses / np.maximum(n, 1)
    known = np.where(np.isfinite(end), end, 0).astype(np.int64)
    harmonic = np.zeros(int(known.max()) + 1)
    np.cumsum(1 / np.arange(1, len(harmonic)), out=harmonic[1:])
    reached = harmonic[known]
    step = np.diff(reached, axis=-1, prepend=0.0)
    before, wrong_before = end - n, wrong - misses
    summed = (misses + (wrong_before - share * before) * step).sum(axis=-1)
    return _ratio(summed, end[..., -1])


def risk_at(
    n: NDArray[np.number], hits: NDArray[np.number], coverage: float
) -> NDArray[np.float64]:
    """The share of wrong among the `coverage` x N readiest examples, [...]; of a level that is only
    partly in, its mean share."""
    if n.shape[-1] == 0:
        return np.full(n.shape[:-1], np.nan)
    misses = n - hits
    total = n.sum(axis=-1, keepdims=True)
    before = np.cumsum(n, axis=-1) - n
    inside = np.clip((coverage * total - before) / np.maximum(n, 1), 0, 1)
    return _ratio((inside * misses).sum(axis=-1), coverage * total[..., 0])


def discrimination(
    levels: Levels, right: NDArray[np.bool_], settled: NDArray[np.bool_], blocks: RandomBlocks
) -> dict[str, Estimate]:
    """The estimates, by name, of a score's AUROC and AUPRC for both labels [example] and of its
    risk-coverage for `right`.

    `right` must imply `settled`. The value is exact; a resample's is computed on MOST_BINS quantile
    bins of the score, and what binning takes off the value is given back to it, within [0, 1].
    """
    bins, cell = min(len(levels.counts), MOST_BINS), levels.bins(MOST_BINS)
    cell = cell + bins * np.where(right, 0, np.where(settled, 1, 2))
    table = blocks.resample(blocks.histogram(cell, 3 * bins)).reshape(-1, 3, bins)
    counts = {"right": table[:, 0], "settled": table[:, 0] + table[:, 1]}
    n = counts["settled"] + table[:, 2]
    found = {}
    for label, of in (("right", right), ("settled", settled)):
        hits = np.bincount(levels.code[of], minlength=len(levels.counts))
        metrics: dict[str, Metric] = {f"auroc/{label}": auroc, f"auprc/{label}": average_precision}
        if label == "right":
            metrics["aurc"] = aurc
            metrics |= {f"risk@coverage={c:g}": partial(risk_at, coverage=c) for c in COVERAGES}
        for name, metric in metrics.items():
            estimate = about(float(metric(levels.counts, hits)), metric(n, counts[label]))
            found[name] = np.clip(estimate, 0, 1)
    return found


def _ratio(over: NDArray[np.number], under: NDArray[np.number]) -> NDArray[np.float64]:
    positive = under > 0
    return np.where(positive, over / np.where(positive, under, 1), np.nan).astype(np.float64)
