"""Signals of the logits alone: how sure the prediction looks, and how much it still changes.

Probabilities are handled in log space, relative to the largest logit and, for the rest, to the
second, so that a saturated softmax still ranks.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from trajdiag.signals.padding import ABSENT

_ALONE = ("entropy", "top1", "logit_margin", "probability_margin")
"""Signals of one loop's probabilities alone, attributes of Prediction."""
_DIVERGENCES = {"kl_current_previous", "kl_previous_current", "js"}
_MIN_P = 0.1
"""Huginn's min-p: what has less of the largest probability than this counts as noise."""


class Prediction:
    """Logits of some rows, read; all float64. A row is one loop of one example.

    Nothing cancels: all is relative to the largest logit and, for the rest, to the second. Each
    thing is computed once it is asked for, since a rule that runs live asks for little.
    """

    def __init__(self, logits: Tensor) -> None:
        """`logits` [row, class], of any float dtype."""
        self._given = _class_major(logits)
        if logits.shape[1] == 1:
            self.__dict__.update(_only_class(self.z))

    @cached_property
    def z(self) -> Tensor:
        """[row, class]."""
        return self._given.to(torch.float64)

    @cached_property
    def highest(self) -> Tensor:
        """[row]: the largest logit."""
        return self._largest[0].to(torch.float64)

    @cached_property
    def top(self) -> Tensor:
        """int64 [row]: the predicted class."""
        return self._largest[1]

    @cached_property
    def weight(self) -> Tensor:
        """[row, class]: every other class's probability over the runner-up's, 0 at the first."""
        runner = self._runner
        return self._spent("_others").sub_(runner[:, None]).exp_()

    @cached_property
    def log_norm(self) -> Tensor:
        """[row]: log-sum-exp of z, less the largest."""
        return self._log_rest.exp().log1p()

    @cached_property
    def log_p(self) -> Tensor:
        """[row, class]."""
        log_norm = self.log_norm
        return self._spent("_shifted").sub_(log_norm[:, None])

    @cached_property
    def p_top(self) -> Tensor:
        """[row]: the predicted class's probability."""
        return (-self.log_norm).exp()

    @cached_property
    def p_runner(self) -> Tensor:
        """[row]: the largest of the others."""
        return self._log_runner.exp()

    @cached_property
    def entropy(self) -> Tensor:
        """[row], nats."""
        found = self.p_top * self.log_norm - self.p_runner * (self.weight * self.log_p).sum(1)
        return self._at_once(found, found)

    @cached_property
    def top1(self) -> Tensor:
        """[row]: -log(1 - p) of the predicted class."""
        return self._at_once(-self._log_miss)

    @cached_property
    def logit_margin(self) -> Tensor:
        """[row]: the largest logit less the second."""
        return self._at_once(-self._runner)

    @cached_property
    def probability_margin(self) -> Tensor:
        """[row]: -log(1 - p(1) + p(2))."""
        return self._at_once(-torch.logaddexp(self._log_miss, self._log_runner).clamp(max=0.0))

    def mean(self, values: Tensor, rows: slice) -> Tensor:
        """The expectation of `values` [row, class] under the prediction of `rows`, [row]."""
        at_top = values.gather(1, self.top[rows, None])[:, 0]
        others = (self.weight[rows] * values).sum(1)
        return (self.p_top[rows] * at_top).addcmul_(self.p_runner[rows], others)

    @cached_property
    def _largest(self) -> tuple[Tensor, Tensor]:
        return self._given.max(1)

    @cached_property
    def _shifted(self) -> Tensor:
        return self.z - self.highest[:, None]

    @cached_property
    def _others(self) -> Tensor:
        return self._shifted.scatter(1, self.top[:, None], -torch.inf)

    @cached_property
    def _runner(self) -> Tensor:
        """[row]: the second largest logit, less the largest."""
        second = self._given.scatter(1, self.top[:, None], -torch.inf).amax(1)
        return second.to(torch.float64) - self.highest

    @cached_property
    def _log_rest(self) -> Tensor:
        return self._runner + self.weight.sum(1).log()

    @cached_property
    def _log_miss(self) -> Tensor:
        return self._log_rest - self.log_norm

    @cached_property
    def _log_runner(self) -> Tensor:
        return self._runner - self.log_norm

    @cached_property
    def _has_lone(self) -> bool:
        """Whether any row has one class only."""
        return len(self._runner) > 0 and float(self._runner.amin()) < ABSENT[1] / 2

    def _spent(self, name: str) -> Tensor:
        """A tensor that nothing asks for again, whose memory may be used: fresh memory costs more
        to touch than to compute in."""
        tensor = getattr(self, name)
        del self.__dict__[name]
        return tensor

    def _at_once(self, values: Tensor, entropy: Tensor | None = None) -> Tensor:
        """`values` [row], 0 where a row has one class only: nothing is left to decide, at any
        loop. What is not finite stays so: the entropy tells it of every row."""
        if not self._has_lone:
            return values
        known = (self.entropy if entropy is None else entropy).isnan().logical_not()
        return values.masked_fill(_absent(self.highest + self._runner) & known, 0.0)


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
        all_loops = Prediction(torch.cat(list(logits)))
        found = {name: getattr(all_loops, name) for name in _ALONE if name in self._names}
        if "energy" in self._names:
            found["energy"] = -(all_loops.highest + all_loops.log_norm)
        found = {name: values.view(loops, rows) for name, values in found.items()}
        if loops > 1:
            changes = self._changes(all_loops, slice(rows, None), slice(0, -rows))
            found |= {name: values.view(loops - 1, rows) for name, values in changes.items()}
            if "entropy_change" in self._names:
                entropy = all_loops.entropy.view(loops, rows)
                found["entropy_change"] = entropy.diff(dim=0).abs_()
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


def _only_class(z: Tensor) -> dict[str, Tensor]:
    """What a Prediction of `z` [row, 1] holds."""
    zero = z.new_zeros(len(z))
    return {
        "highest": z[:, 0],
        "top": torch.zeros(len(z), dtype=torch.int64, device=z.device),
        "weight": z - z,
        "log_norm": zero,
        "log_p": z - z,
        "p_top": zero + 1,
        "p_runner": zero,
        **dict.fromkeys(_ALONE, zero),
    }


def _class_major(x: Tensor) -> Tensor:
    """The same [row, class] with rows adjacent in memory: a reduction over few classes then runs
    vectorised over rows."""
    return x.t().contiguous().t() if x.shape[1] < 64 else x
