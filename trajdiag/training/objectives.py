"""Training objectives: how the losses of the loops make one number.

final   CE_T
fixed   sum_t pi_t CE_t, with a prior pi and no gate
joint   sum_t q_t CE_t + beta KL(q || pi), with q from the model's own gate (PonderNet)
"""

from collections.abc import Callable
from typing import Literal, get_args

from torch import Tensor
from torch.nn.functional import cross_entropy

from trajdiag.errors import ConfigError
from trajdiag.gates.halting import PriorKind, ponder_loss, prior

ObjectiveKind = Literal["final", "fixed", "joint"]
OBJECTIVES: tuple[ObjectiveKind, ...] = get_args(ObjectiveKind)

Objective = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""(logits [row, loop, class], target [row], gate_logit [row, loop] or None) -> the mean loss,
nats."""


def loop_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of every loop, nats: [row, loop, class] and int64 [row] give [row, loop]."""
    # The classes come first: a softmax over few that lie side by side is slow.
    log_shares = logits.permute(2, 1, 0).log_softmax(0)
    return -log_shares.gather(0, target.expand(1, logits.shape[1], -1))[0].T


def make_objective(
    kind: ObjectiveKind, *, loops: int, prior_kind: PriorKind, lam: float, beta: float
) -> Objective:
    """The objective `kind` for models of `loops` loops; `final` ignores the prior, and only `joint`
    takes beta and gate logits. Raises ConfigError for an unknown kind."""
    if kind == "final":
        return lambda logits, target, gate_logit: cross_entropy(logits[:, -1], target)
    pi = prior(prior_kind, loops, lam)
    if kind == "fixed":
        return lambda logits, target, gate_logit: (
            (loop_cross_entropy(logits, target) * pi.to(logits)).sum(-1).mean()
        )
    if kind != "joint":
        raise ConfigError(f"unknown objective {kind!r}; existing: {', '.join(OBJECTIVES)}")

    def joint(logits: Tensor, target: Tensor, gate_logit: Tensor | None) -> Tensor:
        if gate_logit is None:
            raise ConfigError("the joint objective needs a model with a gate: linear or mlp")
        return ponder_loss(loop_cross_entropy(logits, target), gate_logit, pi.to(logits), beta)

    return joint
