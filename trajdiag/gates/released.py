"""The exit rule of Ouro's released code, as it rounds.

It computes the hazards, the exit distribution and its running sum in the checkpoint's dtype and
leaves at the first loop whose sum is at least the threshold, 1.0 as released. In bfloat16 sigmoid
is exactly 1 from a logit of 6.25 up, so that the sum reaches 1 before the last loop. The exact rule
(halting.cumulative_hazard) reaches it at T only. (arXiv 2510.25741 and its code.)
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

THRESHOLD = 1.0
"""The released threshold, where a checkpoint names none."""


def released_cdf(gate_logit: Tensor, dtype: torch.dtype) -> Tensor:
    """The running sum of the exit distribution of `gate_logit` [..., loop], all in `dtype`."""
    # the sigmoid, of operations that give a number's result whatever stands beside it
    wide = gate_logit.to(dtype).to(torch.promote_types(dtype, torch.float32))
    hazard = (1.0 / (1.0 + (-wide).exp())).to(dtype)
    left = torch.ones_like(hazard[..., 0])
    leaving = []
    for loop in range(gate_logit.shape[-1] - 1):
        leaving.append(hazard[..., loop] * left)
        left = left * (1.0 - hazard[..., loop])
    return torch.cumsum(torch.stack([*leaving, left], dim=-1), dim=-1)


def released_dtype(config: Mapping[str, Any], computed: str) -> torch.dtype:
    """The dtype that the released code would run a checkpoint in: config.json's, else the one that
    its states were computed in."""
    named = str(config.get("dtype") or config.get("torch_dtype") or computed)
    dtype = getattr(torch, named.removeprefix("torch."), None)
    if isinstance(dtype, torch.dtype) and dtype.is_floating_point:
        return dtype
    return getattr(torch, computed)


def released_threshold(config: Mapping[str, Any]) -> float:
    """The threshold that config.json names."""
    named = config.get("early_exit_threshold")
    return float(named) if isinstance(named, int | float) else THRESHOLD
