"""Probabilities among somebody's own arrays: a gate's, which become logits, and those that were
taken for logits, which are refused."""

import torch
from torch import Tensor

from trajdiag.errors import ConfigError
from trajdiag.signals.padding import PADDED
from trajdiag.store.schema import GATE

GATE_PROBABILITY = "gate_probability"
"""The gate's hazard itself, kept as its logit."""
_SUM = 1e-3
"""How far from 1 the sum over classes may be, or as far as a coarser dtype rounds."""
_ENOUGH = 20
"""Values of a gate; of fewer, all may lie within 0 and 1 by chance."""
_END = -torch.log(torch.tensor(2.0, dtype=torch.float64) ** -149).item()
"""The logit of 1, and less this of 0: that of the least number above 0 that float32 holds."""


def logit(probability: Tensor) -> Tensor:
    """log(p / (1 - p)) in float64 of probabilities in [0, 1], finite at both ends."""
    p = probability.double()
    return (p.log() - (-p).log1p()).clamp(-_END, _END)


class Suspicion:
    """Whether an array of logits holds probabilities, told from its examples piece by piece."""

    def __init__(self, name: str, given_dtype: torch.dtype) -> None:
        """Of the array `name`, which came in this dtype; only `logits` and `gate_logit` can be
        suspected."""
        self._name = name
        self._sum = max(_SUM, torch.finfo(given_dtype).eps)
        self._holds = name in ("logits", GATE)
        self._values, self._least, self._most = 0, torch.inf, -torch.inf

    def look(self, piece: Tensor) -> None:
        """The next examples, [example, loop, class] or [example, loop]."""
        if not self._holds:
            return
        if self._name == "logits":
            piece = piece.double().where(piece > PADDED / 2, 0.0)
            self._holds = bool(((piece.sum(-1) - 1).abs() <= self._sum).all())
        low, high = (float(end) for end in piece.aminmax())
        self._holds &= low >= 0 and high <= 1
        self._values += piece.numel()
        self._least, self._most = min(self._least, low), max(self._most, high)

    def refuse(self) -> None:
        """Raises ConfigError where every example that was looked at speaks for probabilities."""
        if not self._holds:
            return
        if self._name == "logits":
            raise ConfigError(
                "logits are probabilities: in every example and loop they lie within 0 and 1 and "
                "sum to 1; give their logarithms"
            )
        if self._values >= _ENOUGH and self._least < self._most:
            raise ConfigError(
                f"{GATE} lies within 0 and 1 in every example and loop, as probabilities do; give "
                f"it as {GATE_PROBABILITY}, or, if these are logits, {GATE_PROBABILITY} of their "
                "sigmoid"
            )
