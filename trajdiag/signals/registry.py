"""Which stopping signals there are, and what each means.

A signal is causal: its value at loop t uses loops up to t only.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Signal:
    """What a stopping signal means."""

    name: str
    direction: Literal["high", "low"]
    """Which end means "ready to stop"."""
    first_loop: int
    """The first loop at which it is defined; it is NaN before."""
    reads: Literal["logits", "states"]
    unit: str
    formula: str
    """z: logits, p: softmax(z), H: entropy, h: hidden state, V: number of classes; (1) and (2)
    mark the two largest."""
    reference: str


_PAPER = "Adaptive Depth in Looped Transformers, arXiv 2607.20519"
_CALM = "CALM, arXiv 2207.07061"
_HUGINN = "Huginn, arXiv 2502.05171"
_TWO_SCALE = "Two-scale latent dynamics, arXiv 2509.23314"
_PABEE = "PABEE, arXiv 2006.04152"

SIGNALS: dict[str, Signal] = {
    signal.name: signal
    for signal in (
        Signal(
            name="entropy",
            direction="low",
            first_loop=1,
            reads="logits",
            unit="nats",
            formula="H_t = -sum_c p_t[c] log p_t[c]",
            reference=_PAPER,
        ),
        Signal(
            name="top1",
            direction="high",
            first_loop=1,
            reads="logits",
            unit="nats",
            formula="-log(1 - p_t(1)): orders as p_t(1), also where p_t(1) rounds to 1",
            reference=_PAPER,
        ),
        Signal(
            name="logit_margin",
            direction="high",
            first_loop=1,
            reads="logits",
            unit="logits",
            formula="z_t(1) - z_t(2)",
            reference=_PAPER,
        ),
        Signal(
            name="probability_margin",
            direction="high",
            first_loop=1,
            reads="logits",
            unit="nats",
            formula="-log(1 - (p_t(1) - p_t(2))): orders as the margin p_t(1) - p_t(2)",
            reference=_CALM,
        ),
        Signal(
            name="energy",
            direction="low",
            first_loop=1,
            reads="logits",
            unit="logits",
            formula="-log sum_c exp z_t[c]",
            reference="Energy-based out-of-distribution detection, arXiv 2010.03759",
        ),
        Signal(
            name="entropy_change",
            direction="low",
            first_loop=2,
            reads="logits",
            unit="nats",
            formula="|H_t - H_{t-1}|",
            reference=_HUGINN,
        ),
        Signal(
            name="kl_current_previous",
            direction="low",
            first_loop=2,
            reads="logits",
            unit="nats",
            formula="KL(p_t || p_{t-1}) = sum_c p_t[c] (log p_t[c] - log p_{t-1}[c])",
            reference=_PAPER,
        ),
        Signal(
            name="kl_previous_current",
            direction="low",
            first_loop=2,
            reads="logits",
            unit="nats",
            formula="KL(p_{t-1} || p_t) = sum_c p_{t-1}[c] (log p_{t-1}[c] - log p_t[c])",
            reference=_HUGINN,
        ),
        Signal(
            name="min_p_kl",
            direction="low",
            first_loop=2,
            reads="logits",
            unit="nats",
            formula="KL(m_{t-1} || m_t), m_t: p_t with all below p_t(1)/10 at 1/V, renormalised",
            reference=_HUGINN,
        ),
        Signal(
            name="js",
            direction="low",
            first_loop=2,
            reads="logits",
            unit="nats",
            formula="(KL(p_t || m) + KL(p_{t-1} || m)) / 2 with m = (p_t + p_{t-1}) / 2",
            reference="Jensen-Shannon divergence of consecutive loops, arXiv 2605.09165",
        ),
        Signal(
            name="logit_change",
            direction="low",
            first_loop=2,
            reads="logits",
            unit="logits",
            formula="||z_t - z_{t-1}||_2",
            reference=_PAPER,
        ),
        Signal(
            name="argmax_stability",
            direction="high",
            first_loop=2,
            reads="logits",
            unit="loops",
            formula="patience: consecutive loops up to t that predict argmax z_t, less one",
            reference=f"{_PABEE} (patience); {_HUGINN} (argmax stability)",
        ),
        Signal(
            name="vote_share",
            direction="high",
            first_loop=2,
            reads="logits",
            unit="share",
            formula="the share of loops 1..t that predict what most of them predict",
            reference="EENet, arXiv 2301.07099 (voting)",
        ),
        Signal(
            name="hidden_displacement",
            direction="low",
            first_loop=2,
            reads="states",
            unit="states",
            formula="||h_t - h_{t-1}||_2",
            reference=_PAPER,
        ),
        Signal(
            name="relative_change",
            direction="low",
            first_loop=2,
            reads="states",
            unit="ratio",
            formula="||h_t - h_{t-1}||_2 / ||h_t||_2, with 0/0 = 0",
            reference=_HUGINN,
        ),
        Signal(
            name="hidden_cosine",
            direction="high",
            first_loop=2,
            reads="states",
            unit="cosine",
            formula="<h_t, h_{t-1}> / (||h_t||_2 ||h_{t-1}||_2): orders as 1 - cosine, which stops "
            "when low; with 0/0: 1 if both are 0, else 0",
            reference=f"{_PAPER}; {_HUGINN} and {_CALM} (1 - cosine)",
        ),
        Signal(
            name="acceleration",
            direction="low",
            first_loop=3,
            reads="states",
            unit="states",
            formula="a_t = ||D_t - D_{t-1}||_2 with D_t = h_t - h_{t-1}",
            reference=_TWO_SCALE,
        ),
        Signal(
            name="acceleration_twice",
            direction="low",
            first_loop=4,
            reads="states",
            unit="states",
            formula="max(a_t, a_{t-1}): crosses a threshold just where two in a row do",
            reference=f"{_TWO_SCALE} (twice in a row)",
        ),
    )
}
"""Every signal by name, in the order in which stores list them."""

KEPT = (
    "entropy",
    "top1",
    "logit_margin",
    "probability_margin",
    "kl_current_previous",
    "logit_change",
    "argmax_stability",
    "hidden_displacement",
    "relative_change",
    "hidden_cosine",
)
"""Those that are written while the model runs; the others are derived from a store when asked for,
so that extraction does not pay for them."""


def signals_to_keep(loops: int, *, logits_kept: bool) -> list[str]:
    """The signals that a store of so many loops has to keep: what could not be derived later.

    Without the task's logits nothing can; what is undefined at every loop is left out.
    """
    return [
        name
        for name, signal in SIGNALS.items()
        if signal.first_loop <= loops and (name in KEPT or not logits_kept)
    ]
