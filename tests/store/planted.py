"""Arrays to make stores of."""

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True, kw_only=True)
class Planted:
    hidden: torch.Tensor
    logits: torch.Tensor
    target: torch.Tensor
    gate_logit: torch.Tensor
    difficulty: np.ndarray
    group: np.ndarray
    split: np.ndarray


def planted(examples=300, loops=3, d_model=8, classes=5, dtype=torch.float32, seed=0) -> Planted:
    """Random arrays; splits lie in fit, val, test order."""
    generator = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng(seed)
    fit, val = examples // 2, examples // 4
    return Planted(
        hidden=torch.randn(examples, loops, d_model, generator=generator).to(dtype),
        logits=torch.randn(examples, loops, classes, generator=generator),
        target=torch.randint(0, classes, (examples,), generator=generator),
        gate_logit=torch.randn(examples, loops, generator=generator),
        difficulty=rng.integers(1, 4, examples).astype(float),
        group=rng.integers(0, examples // 2, examples),
        split=np.repeat(["fit", "val", "test"], [fit, val, examples - fit - val]),
    )
