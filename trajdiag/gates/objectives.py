"""What a gate can be fitted to, from each loop's cross-entropy or correctness alone.

- ponder: sum_t q_t CE_t + beta KL(q || prior) of the halting distribution q (arXiv 2107.05407).
- utility: BCE between 1 - e_t and w_t = sigmoid(k (I_t - gamma)), where I_t is what going on gains
  (Ouro's second stage). Its formula looks back, I_t = max(0, CE_{t-1} - CE_t); its wording looks
  ahead, CE_t - CE_{t+1}; a third form asks for the best later loop, CE_t - min_{s>t} CE_s.
- correctness: BCE between e_t and whether the prediction at loop t is right.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, pad

from trajdiag.gates.halting import ponder_loss

ObjectiveKind = Literal["ponder", "utility", "correctness"]
OBJECTIVES: tuple[ObjectiveKind, ...] = get_args(ObjectiveKind)
UtilityKind = Literal["next", "previous", "any-later"]
UTILITIES: tuple[UtilityKind, ...] = get_args(UtilityKind)


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A loss on the gate's logits at the loops that it uses."""

    loops: range
    """The loops, from 1, whose states the gate reads."""
    evidence: Tensor
    """float32 [example, ...]: what each example's loss depends on besides the gate."""
    loss: Callable[[Tensor, Tensor], Tensor]
    """Mean loss, nats, of gate logits [example, used loop] and the same examples' evidence."""
    baseline: float
    """The loss without looking at the states: the prior's for ponder, else the best constant's."""


def ponder(ce: Tensor, prior: Tensor, beta: float) -> Objective:
    """From cross-entropies `ce` [example, loop] and a `prior` [loop]. The last loop's gate value is
    never used, so its states are not read."""
    target = prior.float()

    def loss(gate_logit: Tensor, ce: Tensor) -> Tensor:
        return ponder_loss(ce, pad(gate_logit, (0, 1)), target, beta)

    return Objective(
        loops=range(1, ce.shape[1]),
        evidence=ce.float(),
        loss=loss,
        baseline=float((ce.double() @ prior.double()).mean()),
    )


def utility(ce: Tensor, kind: UtilityKind, k: float, gamma: float) -> Objective:
    """From cross-entropies `ce` [example, loop]; `k` in 1/nats, `gamma` in nats."""
    loops = ce.shape[1]
    stop = 1 - torch.sigmoid(k * (gain(ce, kind) - gamma))
    used = range(2, loops + 1) if kind == "previous" else range(1, loops)
    return _classification(stop, used)


def correctness(correct: Tensor) -> Objective:
    """From `correct` [example, loop]."""
    return _classification(correct, range(1, correct.shape[1] + 1))


def gain(ce: Tensor, kind: UtilityKind) -> Tensor:
    """max(0, the cross-entropy that going on saves), nats: `ce` [example, loop] gives
    [example, loop - 1], at loops 2..T for `previous` and at 1..T-1 for the others."""
    later = ce[:, 1:]
    if kind == "any-later":
        later = later.flip(1).cummin(1).values.flip(1)
    return (ce[:, :-1] - later).clamp_min(0)


def _classification(label: Tensor, loops: range) -> Objective:
    label = label.float()
    share = label.double().mean()
    return Objective(
        loops=loops,
        evidence=label,
        loss=binary_cross_entropy_with_logits,
        baseline=float(torch.special.entr(share) + torch.special.entr(1 - share)),
    )
