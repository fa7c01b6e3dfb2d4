"""Per-loop stopping signals: how sure the readout looks, and how much the loop still changes.

A signal is causal: its value at loop t uses loops up to t only. All are computed in float64, those
of probabilities in log space, so that a saturated softmax still ranks, and stored as float32.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Signal:
    """What a stopping signal means."""

    name: str
    direction: Literal["high", "low"]
    """Which end means "ready to stop"."""
    first_loop: int
    """The first loop at which it is defined; it is NaN before."""
    unit: str
    formula: str
    """z: logits, p: softmax(z), h: hidden state; (1) and (2) mark the two largest."""
    reference: str


_PAPER = "Adaptive Depth in Looped Transformers, arXiv 2607.20519"
_CALM = "CALM, arXiv 2207.07061"
_HUGINN = "Huginn, arXiv 2502.05171"

SIGNALS: dict[str, Signal] = {
    signal.name: signal
    for signal in (
        Signal(
            name="entropy",
            direction="low",
            first_loop=1,
            unit="nats",
            formula="-sum_c p_t[c] log p_t[c]",
            reference=_PAPER,
        ),
        Signal(
            name="top1",
            direction="high",
            first_loop=1,
            unit="nats",
            formula="-log(1 - p_t(1)): orders as p_t(1), also where p_t(1) rounds to 1",
            reference=_PAPER,
        ),
        Signal(
            name="logit_margin",
            direction="high",
            first_loop=1,
            unit="logits",
            formula="z_t(1) - z_t(2)",
            reference=_PAPER,
        ),
        Signal(
            name="probability_margin",
            direction="high",
            first_loop=1,
            unit="nats",
            formula="-log(1 - (p_t(1) - p_t(2))): orders as the margin p_t(1) - p_t(2)",
            reference=_CALM,
        ),
        Signal(
            name="predictive_kl",
            direction="low",
            first_loop=2,
            unit="nats",
            formula="KL(p_t || p_{t-1}) = sum_c p_t[c] (log p_t[c] - log p_{t-1}[c])",
            reference=_PAPER,
        ),
        Signal(
            name="logit_change",
            direction="low",
            first_loop=2,
            unit="logits",
            formula="||z_t - z_{t-1}||_2",
            reference=_PAPER,
        ),
        Signal(
            name="hidden_displacement",
            direction="low",
            first_loop=2,
            unit="states",
            formula="||h_t - h_{t-1}||_2",
            reference=_PAPER,
        ),
        Signal(
            name="relative_change",
            direction="low",
            first_loop=2,
            unit="ratio",
            formula="||h_t - h_{t-1}||_2 / ||h_t||_2, with 0/0 = 0",
            reference=_HUGINN,
        ),
        Signal(
            name="hidden_cosine",
            direction="high",
            first_loop=2,
            unit="cosine",
            formula="<h_t, h_{t-1}> / (||h_t||_2 ||h_{t-1}||_2); with 0/0: 1 if both are 0, else 0",
            reference=_PAPER,
        ),
        Signal(
            name="argmax_stability",
            direction="high",
            first_loop=2,
            unit="loops",
            formula="number of consecutive loops up to t that predict argmax z_t, less one",
            reference="PABEE, arXiv 2006.04152",
        ),
    )
}
"""Every signal by name, in the order in which stores keep them."""


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """What one loop leaves for the next, float64."""

    hidden: Tensor  # [row, d_model]
    norm_squared: Tensor  # [row]
    logits: Tensor  # [row, class]
    log_p: Tensor  # [row, class]
    prediction: Tensor  # [row]
    stability: Tensor  # [row]


class SignalTracker:
    """The signals of a batch of rows that runs loop after loop; holds the previous loop's readings.

    `reset` starts another batch. One tracker for many batches reuses its memory, which matters:
    touching fresh memory costs more than the arithmetic.
    """

    def __init__(self) -> None:
        self._previous: _Reading | None = None
        self._states: tuple[Tensor, Tensor, Tensor] | None = None

    def reset(self) -> None:
        """Forget the previous loop: the next update is a batch's first loop."""
        self._previous = None

    @torch.no_grad()
    def update(self, hidden: Tensor, logits: Tensor) -> dict[str, Tensor]:
        """Read the next loop: `hidden` [row, d_model], `logits` [row, class], of any float dtype.

        Gives every signal by name, float64 [row], NaN before its first loop.
        """
        z = _class_major(logits.to(torch.float64))
        values, log_p, p_top, p_runner, weight, prediction = _confidence(z)
        previous = self._previous
        h, product = self._next_states(hidden, previous)
        norm_squared = torch.mul(h, h, out=product).sum(1)
        if previous is None:
            stability = torch.zeros_like(norm_squared)
            undefined = torch.full_like(norm_squared, torch.nan)
            values |= {name: undefined for name, signal in SIGNALS.items() if signal.first_loop > 1}
        else:
            gain = log_p - previous.log_p
            at_top = gain.gather(1, prediction[:, None])[:, 0]
            kl = p_top * at_top + p_runner * (weight * gain).sum(1)
            # sqrt of the product, not product of square roots: exactly 1 for identical states
            scale = (norm_squared * previous.norm_squared).sqrt()
            dot = torch.mul(h, previous.hidden, out=product).sum(1)
            cosine = (dot / scale).clamp(-1.0, 1.0)
            both_zero = (norm_squared == 0) & (previous.norm_squared == 0)
            displacement = torch.sub(h, previous.hidden, out=product).square_().sum(1).sqrt()
            relative = displacement / norm_squared.sqrt()
            stability = (previous.stability + 1) * (prediction == previous.prediction)
            values |= {
                "predictive_kl": kl.clamp(min=0.0),
                "logit_change": (z - previous.logits).square_().sum(1).sqrt(),
                "hidden_displacement": displacement,
                "relative_change": torch.where(displacement == 0, 0.0, relative),
                "hidden_cosine": torch.where(scale > 0, cosine, both_zero.to(cosine.dtype)),
                "argmax_stability": stability,
            }
        self._previous = _Reading(
            hidden=h,
            norm_squared=norm_squared,
            logits=z,
            log_p=log_p,
            prediction=prediction,
            stability=stability,
        )
        return {name: values[name] for name in SIGNALS}

    def _next_states(self, hidden: Tensor, previous: _Reading | None) -> tuple[Tensor, Tensor]:
        """`hidden` as float64 in memory that `previous` does not hold, and room for one product."""
        if self._states is None or self._states[0].numel() < hidden.numel():
            size = (hidden.numel(),)
            kept = [torch.empty(size, dtype=torch.float64, device=hidden.device) for _ in range(3)]
            self._states = (kept[0], kept[1], kept[2])
        first, second, product = (x[: hidden.numel()].view(hidden.shape) for x in self._states)
        taken = previous is not None and previous.hidden.data_ptr() == first.data_ptr()
        return (second if taken else first).copy_(hidden), product


def compute_signals(
    hidden: Tensor | np.ndarray, logits: Tensor | np.ndarray
) -> dict[str, np.ndarray]:
    """Every signal of `hidden` [row, loop, d_model] and `logits` [row, loop, class], by name.

    Each is float32 [row, loop]: column t-1 is loop t; NaN before the signal's first loop.
    """
    hidden, logits = torch.as_tensor(hidden), torch.as_tensor(logits)
    rows, loops = hidden.shape[:2]
    signals = {name: np.empty((rows, loops), np.float32) for name in SIGNALS}
    tracker = SignalTracker()
    for loop in range(loops):
        for name, value in tracker.update(hidden[:, loop], logits[:, loop]).items():
            signals[name][:, loop] = value.cpu().numpy()
    return signals


def _confidence(z: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The signals of one loop's logits `z` [row, class] alone, and what a KL divergence needs.

    Beside the signals: log p [row, class]; p of the first and of the runner-up class [row]; every
    other class's p over the runner-up's [row, class], 0 at the first; the first's index [row].
    Everything is relative to the largest logit and, for the rest, to the second: nothing cancels.
    """
    rows, classes = z.shape
    if classes == 1:  # nothing is left to decide, at any loop
        zero = z.new_zeros(rows)
        names = ("entropy", "top1", "logit_margin", "probability_margin")
        index = torch.zeros(rows, dtype=torch.int64, device=z.device)
        return dict.fromkeys(names, zero), z - z, zero + 1, zero, z - z, index
    top, prediction = z.max(1)
    shifted = z - top[:, None]
    others = shifted.scatter(1, prediction[:, None], -torch.inf)
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
    return signals, log_p, p_top, p_runner, weight, prediction


def _class_major(x: Tensor) -> Tensor:
    """The same [row, class] with rows adjacent in memory: a reduction over few classes then runs
    vectorised over rows."""
    return x.t().contiguous().t() if x.shape[1] < 64 else x
