"""Signals of the logits alone: how sure the prediction looks, and how much it still changes.

Probabilities are handled in log space, relative to the largest logit and, for the rest, to the
second, so that a saturated softmax still ranks.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import torch
from torch import Tensor

ABSENT = -1e31, -1e29
"""Logits between are of classes that a row does not have: see `trajdiag.store.schema.PADDED`."""

_DIVERGENCES = {"kl_current_previous", "kl_previous_current", "js"}
_MIN_P = 0.1
"""Huginn's min-p: what has less of the largest probability than this counts as noise."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One loop's logits, read; all float64."""

    z: Tensor
    """[row, class]."""
    highest: Tensor
    """[row]: the largest logit."""
    log_norm: Tensor
    """[row]: log-sum-exp of z, less the largest."""
    log_p: Tensor
    """[row, class]."""
    top: Tensor
    """int64 [row]: the predicted class."""
    p_top: Tensor
    """[row]: its probability."""
    p_runner: Tensor
    """[row]: the largest of the others."""
    weight: Tensor
    """[row, class]: every other class's probability over the runner-up's, 0 at the first."""
    signals: dict[str, Tensor]
    """[row] each: those of the probabilities at this loop alone."""

    def mean(self, values: Tensor) -> Tensor:
        """The expectation of `values` [row, class] under the prediction, [row]."""
        at_top = values.gather(1, self.top[:, None])[:, 0]
        return self.p_top * at_top + self.p_runner * (self.weight * values).sum(1)


class PredictionTracker:
    """The prediction signals of a batch of rows that runs loop after loop."""

    def __init__(self, names: Collection[str]) -> None:
        """`names`: the signals to compute, of those that read logits."""
        self._names = set(names)
        self.reset()

    def reset(self) -> None:
        """Forget the loops before: the next update is a batch's first loop."""
        self._previous: Prediction | None = None
        self._min_p: _MinP | None = None
        self._stability = self._votes = torch.zeros(())
        self._tops: list[Tensor] = []

    def update(self, logits: Tensor) -> dict[str, Tensor]:
        """Read the next loop, `logits` [row, class]; float64 [row] of each signal that is defined
        at it."""
        now, previous = read(logits), self._previous
        found = dict(now.signals)
        if "energy" in self._names:
            found["energy"] = -(now.highest + now.log_norm)
        if previous is not None:
            found |= self._change(now, previous)
        for name, track in (
            ("argmax_stability", self._runs),
            ("vote_share", self._vote),
            ("min_p_kl", self._without_noise),
        ):
            if name in self._names:
                values = track(now)
                if previous is not None:
                    found[name] = values
        looked_back_at = "kl_previous_current" in self._names
        # memory that is held until the next loop is memory that it must touch afresh
        self._previous = now if looked_back_at else replace(now, weight=now.weight[:0])
        return found

    def _change(self, now: Prediction, previous: Prediction) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        if "entropy_change" in self._names:
            found["entropy_change"] = (now.signals["entropy"] - previous.signals["entropy"]).abs()
        if "logit_change" in self._names:
            found["logit_change"] = (now.z - previous.z).square_().sum(1).sqrt()
        if not self._names.isdisjoint(_DIVERGENCES):
            gain = now.log_p - previous.log_p
            if "kl_current_previous" in self._names:
                found["kl_current_previous"] = now.mean(gain).clamp(min=0.0)
            if "kl_previous_current" in self._names:
                found["kl_previous_current"] = (-previous.mean(gain)).clamp(min=0.0)
            if "js" in self._names:
                found["js"] = _jensen_shannon(gain, torch.maximum(now.log_p, previous.log_p))
        return found

    def _runs(self, now: Prediction) -> Tensor:
        """How many of the loops just before predict the same: [row]."""
        if self._previous is None:
            self._stability = torch.zeros_like(now.p_top)
        else:
            self._stability = (self._stability + 1) * (now.top == self._previous.top)
        return self._stability

    def _vote(self, now: Prediction) -> Tensor:
        """The share of the loops so far that predict the most frequent class: [row]."""
        votes = torch.ones_like(now.p_top)
        for top in self._tops:
            votes += top == now.top
        self._votes = torch.maximum(self._votes, votes) if self._tops else votes
        self._tops.append(now.top)
        return self._votes / len(self._tops)

    def _without_noise(self, now: Prediction) -> Tensor:
        """KL(previous || current), nats, where all that is below min-p is the same noise."""
        before, self._min_p = self._min_p, _min_p(now)
        return torch.zeros_like(now.p_top) if before is None else before.kl(self._min_p)


@dataclass(frozen=True, kw_only=True)
class _MinP:
    """A prediction with the classes below min-p set to 1/V, V being the classes that a row has."""

    log_weight: Tensor
    """[row, class]: log-probability before renormalisation."""
    weight: Tensor
    """[row, class]: its exponential; 0 for a class that the row does not have."""
    total: Tensor
    """[row]: their sum."""

    def kl(self, later: "_MinP") -> Tensor:
        """KL(self || later), nats, [row].

        Every term is p (e^r - 1 - r) with r the change of a log-probability, which is never
        negative: small divergences do not drown in the rounding of large terms that cancel.
        """
        change = later.log_weight - self.log_weight
        grown = (self.weight * change.expm1()).sum(1) / self.total
        change -= grown.log1p()[:, None]
        return (self.weight * _beyond_linear(change)).sum(1) / self.total


def _min_p(now: Prediction) -> _MinP:
    highest = now.z.gather(1, now.top[:, None])
    present = ~_absent(now.z) | (now.z == highest)  # the class that is predicted is never absent
    count = present.sum(1, keepdim=True).to(now.z.dtype)
    noise = now.z - highest < math.log(_MIN_P)
    log_weight = torch.where(noise, -count.log(), now.log_p)
    weight = log_weight.exp() * present
    return _MinP(log_weight=log_weight, weight=weight, total=weight.sum(1))


def _absent(z: Tensor) -> Tensor:
    """Whether the logits `z` are of classes that a row does not have."""
    lowest, highest = ABSENT
    return (z > lowest) & (z < highest)


def _beyond_linear(r: Tensor) -> Tensor:
    """e^r - 1 - r, by its series where the difference would cancel."""
    series = r * r / 2 * (1 + r / 3 * (1 + r / 4 * (1 + r / 5 * (1 + r / 6))))
    return torch.where(r.abs() < 0.01, series, r.expm1() - r)


def _jensen_shannon(gain: Tensor, log_larger: Tensor) -> Tensor:
    """JS divergence, nats, [row], of p and q from `gain` = log p - log q and max(log p, log q).

    With g = |gain| a class gives max(p, q)/2 times (1 + e^-g) log(2 / (1 + e^-g)) - g e^-g, which
    is never negative and has no large parts that cancel.
    """
    g = gain.abs()
    fall = (-g).expm1()
    part = -g * (1 + fall) - (2 + fall) * (fall / 2).log1p()
    return (log_larger.exp() * part).sum(1).clamp(min=0.0) / 2


def read(logits: Tensor) -> Prediction:
    """One loop's `logits` [row, class], of any float dtype, with what concerns this loop alone.

    Nothing cancels: all is relative to the largest logit and, for the rest, to the second.
    """
    z = _class_major(logits.to(torch.float64))
    if z.shape[1] == 1:  # nothing is left to decide, at any loop
        return _only_class(z)
    highest, top = z.max(1)
    shifted = z - highest[:, None]
    others = shifted.scatter(1, top[:, None], -torch.inf)
    runner = others.amax(1)
    weight = (others - runner[:, None]).exp()
    log_rest = runner + weight.sum(1).log()
    log_norm = log_rest.exp().log1p()
    log_p = shifted - log_norm[:, None]
    log_runner = runner - log_norm
    log_miss = log_rest - log_norm
    p_top, p_runner = (-log_norm).exp(), log_runner.exp()
    signals = {
        "entropy": p_top * log_norm - p_runner * (weight * log_p).sum(1),
        "top1": -log_miss,
        "logit_margin": -runner,
        "probability_margin": -torch.logaddexp(log_miss, log_runner).clamp(max=0.0),
    }
    if len(runner) and float(runner.amin()) < ABSENT[1] / 2:  # else no row has one class only
        decided = _absent(highest + runner)
        signals = {name: values.masked_fill(decided, 0.0) for name, values in signals.items()}
    return Prediction(
        z=z,
        highest=highest,
        log_norm=log_norm,
        log_p=log_p,
        top=top,
        p_top=p_top,
        p_runner=p_runner,
        weight=weight,
        signals=signals,
    )


def _only_class(z: Tensor) -> Prediction:
    zero = z.new_zeros(len(z))
    names = ("entropy", "top1", "logit_margin", "probability_margin")
    return Prediction(
        z=z,
        highest=z[:, 0],
        log_norm=zero,
        log_p=z - z,
        top=torch.zeros(len(z), dtype=torch.int64, device=z.device),
        p_top=zero + 1,
        p_runner=zero,
        weight=z - z,
        signals=dict.fromkeys(names, zero),
    )


def _class_major(x: Tensor) -> Tensor:
    """The same [row, class] with rows adjacent in memory: a reduction over few classes then runs
    vectorised over rows."""
    return x.t().contiguous().t() if x.shape[1] < 64 else x
