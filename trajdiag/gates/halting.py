"""The halting distribution of an exit gate, and the priors it is held to.

A gate gives one logit g_t a loop; sigmoid(g_t) is the hazard of leaving at loop t once there:

    q_t = sigmoid(g_t) prod_{j<t} (1 - sigmoid(g_j))  for t < T
    q_T = prod_{j<T} (1 - sigmoid(g_j))

Loop T takes the remainder, so the last gate value is never used (PonderNet, arXiv 2107.05407).
All is computed from logits in log space: sigmoid rounds to 1 long before leaving is certain.
"""

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from trajdiag.errors import ConfigError

PriorKind = Literal["uniform", "geometric"]
PRIORS: tuple[PriorKind, ...] = get_args(PriorKind)


def prior(kind: PriorKind, loops: int, lam: float = 0.3) -> Tensor:
    """A prior over exit loops, float64 [loop], summing to 1.

    `uniform` is 1/T; `geometric` is lam (1 - lam)^(t-1) for t < T, and the remainder at T.
    Raises ConfigError for an unknown kind, for no loops, and for `lam` outside (0, 1).
    """
    if loops < 1:
        raise ConfigError(f"a prior needs at least 1 loop, not {loops}")
    if kind == "uniform":
        return torch.full((loops,), 1.0 / loops, dtype=torch.float64)
    if kind != "geometric":
        raise ConfigError(f"unknown prior {kind!r}; existing: {', '.join(PRIORS)}")
    if not 0.0 < lam < 1.0:
        raise ConfigError(f"a geometric prior needs lam between 0 and 1 (both excluded), not {lam}")
    survival = (1.0 - lam) ** torch.arange(loops, dtype=torch.float64)
    return torch.cat([lam * survival[:-1], survival[-1:]])


def log_exit_pdf(gate_logit: Tensor) -> Tensor:
    """log q of `gate_logit` [..., loop], in its dtype and shape; one loop gives log q = 0."""
    hazard = gate_logit[..., :-1]
    log_survival = logsigmoid(-hazard).cumsum(-1)
    # One zero before (survival into loop 1) and one after (loop T takes all that is left).
    return pad(log_survival, (1, 0)) + pad(logsigmoid(hazard), (0, 1))


def cumulative_hazard(gate_logit: Tensor) -> Tensor:
    """-log(1 - CDF_t) = sum_{j<=t} softplus(g_j), float64 [..., loop], and infinity at T.

    Ranks exits as the CDF does, without its saturation: CDF_t >= alpha just where this is
    >= -log(1 - alpha).
    """
    g = gate_logit[..., :-1].double()
    # softplus, of operations that give a number's result whatever stands beside it, which torch's
    # own does not: a gate that is read live is to leave at the loop at which a store says it does
    hazard = (g.clamp(min=0.0) + (-g.abs()).exp().log1p()).cumsum(-1)
    return pad(hazard, (0, 1), value=torch.inf)


def kl_to_prior(log_q: Tensor, prior: Tensor) -> Tensor:
    """KL(q || prior) in nats over the last dimension: [..., loop] and [loop] give [...]."""
    return (log_q.exp() * (log_q - prior.to(log_q).log())).sum(-1)


def ponder_loss(ce: Tensor, gate_logit: Tensor, prior: Tensor, beta: float) -> Tensor:
    """The joint objective: mean over examples of sum_t q_t CE_t + beta KL(q || prior), in nats.

    `ce` [..., loop] is each loop's cross-entropy, `gate_logit` [..., loop], `prior` [loop].
    """
    log_q = log_exit_pdf(gate_logit)
    expected = (log_q.exp() * ce).sum(-1)
    return (expected + beta * kl_to_prior(log_q, prior)).mean()
