"""What a gate can be fitted to, from each loop's cross-entropy, prediction or correctness alone.

- ponder: sum_t q_t CE_t + beta KL(q || prior) of the halting distribution q (arXiv 2107.05407).
- utility: BCE between 1 - e_t and w_t = sigmoid(k (I_t - gamma)), where I_t is what going on gains
  (Ouro's second stage). Its formula looks back, I_t = max(0, CE_{t-1} - CE_t); its wording looks
  ahead, CE_t - CE_{t+1}; a third form asks for the best later loop, CE_t - min_{s>t} CE_s.
- correctness: BCE between e_t and whether the prediction at loop t is right.
- agreement: BCE between e_t and whether loop t predicts what the last loop predicts (CALM, arXiv
  2207.07061; TRM, arXiv 2510.04871).
- depth: squared error of the number of further loops until the prediction stays right.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss, pad

from trajdiag.gates.halting import ponder_loss

ObjectiveKind = Literal["ponder", "utility", "correctness", "agreement", "depth"]
OBJECTIVES: tuple[ObjectiveKind, ...] = get_args(ObjectiveKind)
LABELLED = tuple(kind for kind in OBJECTIVES if kind != "ponder")
"""Those whose loss is a sum over loops, each with a label of its own."""
UtilityKind = Literal["next", "previous", "any-later"]
UTILITIES: tuple[UtilityKind, ...] = get_args(UtilityKind)

Scale = Literal["hazard", "logit", "loops"]
"""What a gate's stopping value is: a cumulative hazard, the logit of a probability, or loops."""
SCALES: dict[ObjectiveKind, Scale] = {
    "ponder": "hazard",
    "utility": "hazard",
    "correctness": "logit",
    "agreement": "logit",
    "depth": "loops",
}
NATS, LOOPS_SQUARED = "nats", "loops squared"


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A loss on the gate's outputs at the loops that it uses."""

    loops: range
    """The loops, from 1, whose outputs the loss is of."""
    evidence: Tensor
    """float32 [example, ...]: what each example's loss depends on besides the gate; the labels
    [example, used loop], but for ponder."""
    loss: Callable[[Tensor, Tensor], Tensor]
    """Mean loss of gate outputs [example, used loop] and the same examples' evidence: nats of
    logits, or loops squared of loops."""
    baseline: float
    """The loss without looking at the states: the prior's for ponder, the best constant's for
    labels, and for depth, whose labels fall with the loop, that of each loop's best constant."""
    unit: str = NATS
    """Of the loss."""
    best_constant: Callable[[Tensor], float] | None = None
    """The output that suits labels of one value; None where the evidence is no labels."""

    @property
    def constant(self) -> float | None:
        """The output to give everywhere, where all labels are the same; else None."""
        label = self.evidence
        if self.best_constant is None or not (label == label[0, 0]).all():
            return None
        return self.best_constant(label)

    def of(self, examples: np.ndarray) -> "Objective":
        """The same loss on some examples' evidence; the baseline stays that of all."""
        return replace(self, evidence=self.evidence[torch.from_numpy(examples)])


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


def agreement(prediction: Tensor) -> Objective:
    """From the predicted class, `prediction` [example, loop]. The last loop agrees with itself, so
    it is not used."""
    return _classification(prediction[:, :-1] == prediction[:, -1:], range(1, prediction.shape[1]))


def depth(correct: Tensor) -> Objective:
    """From `correct` [example, loop]. At the last loop no loop is left, so it is not used."""
    label = further_loops(correct).float()
    return Objective(
        loops=range(1, correct.shape[1]),
        evidence=label,
        loss=mse_loss,
        baseline=float(label.double().var(0, correction=0).mean()),
        unit=LOOPS_SQUARED,
        best_constant=lambda label: float(label.mean()),
    )


def gain(ce: Tensor, kind: UtilityKind) -> Tensor:
    """max(0, the cross-entropy that going on saves), nats: `ce` [example, loop] gives
    [example, loop - 1], at loops 2..T for `previous` and at 1..T-1 for the others."""
    later = ce[:, 1:]
    if kind == "any-later":
        later = later.flip(1).cummin(1).values.flip(1)
    return (ce[:, :-1] - later).clamp_min(0)


def further_loops(correct: Tensor) -> Tensor:
    """How many loops after loop t the first one comes from which on all are right, int64 [example,
    loop - 1] at loops 1..T-1, from `correct` [example, loop]; 0 where it is reached, and for
    examples that are wrong at T: nothing is gained by waiting."""
    stays = correct.long().flip(1).cumprod(1).flip(1)
    missing = (1 - stays).flip(1).cumsum(1).flip(1)
    return (missing * stays[:, -1:])[:, :-1]


def _classification(label: Tensor, loops: range) -> Objective:
    label = label.float()
    share = label.double().mean()
    return Objective(
        loops=loops,
        evidence=label,
        loss=binary_cross_entropy_with_logits,
        baseline=float(torch.special.entr(share) + torch.special.entr(1 - share)),
        best_constant=_held_logit,
    )


def _held_logit(label: Tensor) -> float:
    """The labels' mean as a logit, held finite by half a label of either kind."""
    return float(torch.logit((label.double().sum() + 0.5) / (label.numel() + 1)))
