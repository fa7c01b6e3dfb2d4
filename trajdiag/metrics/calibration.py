"""Whether a readout's probability is one: how often it comes true, against how sure it is."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.bootstrap import Estimate
from trajdiag.metrics.levels import levels_of, quantile_bin
from trajdiag.metrics.random_blocks import RandomBlocks

BINS = 15


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """Bins of like mass, least sure first; examples of one probability share a bin."""

    code: NDArray[np.int64]
    """[example]: its bin."""
    n: NDArray[np.int64]
    """[bin]: its examples, at least one."""
    confidence: NDArray[np.float64]
    """[bin]: the mean probability."""
    accuracy: NDArray[np.float64]
    """[bin]: the share that has the label."""


def probability(values: NDArray[np.floating], name: str, scale: str) -> NDArray[np.float64] | None:
    """The probability that a readout's values mean, float64 and of their shape; None where they
    mean none.

    The signal `top1` holds -log(1 - p); values of scale `logit` hold log(p / (1 - p)).
    """
    exact = values.astype(np.float64)
    if scale == "logit":
        with np.errstate(over="ignore"):
            return 1 / (1 + np.exp(-exact))
    if scale == "signal" and name == "top1":
        return -np.expm1(-exact)
    return None


def reliability(p: NDArray[np.floating], label: NDArray[np.bool_], bins: int = BINS) -> Reliability:
    """At most `bins` bins of the probabilities `p` [example] of a label [example]; fewer where few
    values hold most of the mass."""
    levels = levels_of(-p)
    _, code = np.unique(quantile_bin(levels.counts, bins)[levels.code], return_inverse=True)
    n = np.bincount(code)
    return Reliability(
        code=code,
        n=n,
        confidence=np.bincount(code, weights=p) / n,
        accuracy=np.bincount(code, weights=label) / n,
    )


def expected_calibration_error(found: Reliability) -> float:
    """sum_b n_b / n |accuracy_b - confidence_b| over bins of equal mass (Naeini et al., AAAI 2015;
    Nguyen & O'Connor, EMNLP 2015); NaN without examples.

    It is biased upwards, by about sqrt(2 bins / (pi n)) x the label's spread where p is calibrated.
    """
    if not len(found.n):
        return float("nan")
    return float(np.average(np.abs(found.accuracy - found.confidence), weights=found.n))


def calibration(
    p: NDArray[np.floating], label: NDArray[np.bool_], blocks: RandomBlocks
) -> tuple[dict[str, Estimate], Reliability]:
    """The estimates `ece` and `brier` of probabilities `p` [example] of a label [example], and the
    bins behind the first.

    Resampling adds to the calibration error's upward bias once more, so its resamples are moved to
    have their mean at the value, and end at 0. The bias of the value itself stays, in the interval
    too: with few examples a bin both lie too high.
    """
    found = reliability(p, label)
    gaps = blocks.sums_by(found.code, len(found.n), label - p)
    summed = blocks.resample(np.concatenate([gaps, blocks.sums(np.ones((len(p), 1)))], axis=1))
    with np.errstate(invalid="ignore"):
        ece = np.abs(summed[:, :-1]).sum(axis=1) / summed[:, -1]
    value, drawn = expected_calibration_error(found), ece[1:][np.isfinite(ece[1:])]
    if len(drawn):
        ece[1:] = np.maximum(ece[1:] + value - drawn.mean(), 0.0)
    ece[0] = value
    return {"ece": ece, "brier": blocks.means(((p - label) ** 2)[:, None])[:, 0]}, found
