"""Signals of the logits alone: how sure the prediction looks, and how much it still changes.

Probabilities are handled in log space, relative to the largest logit and, for the rest, to the
second, so that a saturated softmax still ranks.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ABSENT = -1e31, -1e29
"""Logits between are of classes that a row does not have: see `trajdiag.store.schema.PADDED`."""

_DIVERGENCES = {"kl_current_previous", "kl_previous_current", "js"}
_MIN_P = 0.1
"""Huginn's min-p: what has less of the largest probability than this counts as noise."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Logits of some rows, read; all float64. A row is one loop of one example."""

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

    def mean(self, values: Tensor, rows: slice) -> Tensor:
        """The expectation of `values` [row, class] under the prediction of `rows`, [row]."""
        at_top = values.gather(1, self.top[rows, None])[:, 0]
        others = (self.weight[rows] * values).sum(1)
        return (self.p_top[rows] * at_top).addcmul_(self.p_runner[rows], others)


class PredictionTracker:
    """The prediction signals of whole trajectories."""

    def __init__(self, names: Collection[str]) -> None:
        """`names`: the signals to compute, of those that read logits."""
        self._names = set(names)

    def track(self, logits: Sequence[Tensor]) -> dict[str, Tensor]:
        """Read `logits`, [row, class] a loop; float64 [loop, row] of each signal, from the first
        loop at which it is defined."""
        loops, rows = len(logits), len(logits[0])
        # all loops as one: while a model runs, calls cost more than arithmetic
        all_loops = read(torch.cat(list(logits)))
        found = dict(all_loops.signals)
        if "energy" in self._names:
            found["energy"] = -(all_loops.highest + all_loops.log_norm)
        found = {name: values.view(loops, rows) for name, values in found.items()}
        if loops > 1:
            changes = self._changes(all_loops, slice(rows, None), slice(0, -rows))
            found |= {name: values.view(loops - 1, rows) for name, values in changes.items()}
            if "entropy_change" in self._names:
                found["entropy_change"] = found["entropy"].diff(dim=0).abs_()
            top = all_loops.top.view(loops, rows)
            if "argmax_stability" in self._names:
                found["argmax_stability"] = run_length(top)
            if "vote_share" in self._names:
                found["vote_share"] = vote_share(top)
        return found

    def _changes(self, p: Prediction, now: slice, before: slice) -> dict[str, Tensor]:
        """Of the rows `now` from the same examples' rows `before`: [row] each."""
        found: dict[str, Tensor] = {}
        if "logit_change" in self._names:
            found["logit_change"] = (p.z[now] - p.z[before]).square_().sum(1).sqrt_()
        if not self._names.isdisjoint(_DIVERGENCES):
            gain = p.log_p[now] - p.log_p[before]
            if "kl_current_previous" in self._names:
                found["kl_current_previous"] = p.mean(gain, now).clamp_(min=0.0)
            if "kl_previous_current" in self._names:
                found["kl_previous_current"] = p.mean(gain, before).neg_().clamp_(min=0.0)
            if "js" in self._names:
                larger = torch.maximum(p.log_p[now], p.log_p[before])
                found["js"] = _jensen_shannon(gain, larger)
        if "min_p_kl" in self._names:
            noiseless = _min_p(p)
            found["min_p_kl"] = noiseless[before].kl(noiseless[now])
        return found


def run_length(top: Tensor) -> Tensor:
    """Patience: how many of the loops just before predict the same as each after the first: int64
    [loop - 1, row] of int64 `top` [loop, row]."""
    loop = torch.arange(1, len(top), device=top.device)[:, None]
    changed_at = loop.masked_fill(top[1:] == top[:-1], 0)
    return loop - changed_at.cummax(0).values


def vote_share(top: Tensor) -> Tensor:
    """The share of the loops so far that predict the most frequent class, for each loop after the
    first: float64 [loop - 1, row] of int64 `top` [loop, row]."""
    votes = torch.stack([(top[: t + 1] == top[t]).sum(0) for t in range(len(top))])
    loop = torch.arange(1, len(top) + 1, device=top.device)[:, None]
    return (votes.cummax(0).values.double() / loop)[1:]


@dataclass(frozen=True, kw_only=True)
class _MinP:
    """A prediction with the classes below min-p set to 1/V, V being the classes that a row has."""

    log_weight: Tensor
    """[row, class]: log-probability before renormalisation."""
    weight: Tensor
    """[row, class]: its exponential; 0 for a class that the row does not have."""
    total: Tensor
    """[row]: their sum."""

    def __getitem__(self, rows: slice) -> "_MinP":
        return _MinP(
            log_weight=self.log_weight[rows], weight=self.weight[rows], total=self.total[rows]
        )

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
    """`logits` [row, class], of any float dtype, with what concerns each row alone.

    Nothing cancels: all is relative to the largest logit and, for the rest, to the second.
    """
    z = _class_major(logits.to(torch.float64))
    if z.shape[1] == 1:  # nothing is left to decide, at any loop
        return _only_class(z)
    highest, top = z.max(1)
    shifted = z - highest[:, None]
    others = shifted.scatter(1, top[:, None], -torch.inf)
    runner = others.amax(1)
    weight = others.sub_(runner[:, None]).exp_()
    log_rest = runner + weight.sum(1).log()
    log_norm = log_rest.exp().log1p()
    log_p = shifted.sub_(log_norm[:, None])
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
        # what is not finite stays NaN: the entropy tells it of every row
        decided = _absent(highest + runner) & ~signals["entropy"].isnan()
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
