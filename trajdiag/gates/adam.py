"""Adam (arXiv 1412.6980) on a handful of tensors.

torch.optim would do, but making its first optimiser imports torch's compiler, which takes longer
than fitting a small gate.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

FIRST, SECOND, EPSILON = 0.9, 0.99, 1e-8
"""Decay of the mean gradient and of the mean square; floor of the divisor."""


class Adam:
    """Steps `tensors` in place, each at its own rate."""

    def __init__(self, tensors: Sequence[Tensor], rates: Sequence[float]) -> None:
        self._tensors, self._rates = list(tensors), list(rates)
        self._mean = [torch.zeros_like(tensor) for tensor in tensors]
        self._square = [torch.zeros_like(tensor) for tensor in tensors]
        self._steps = 0

    @torch.no_grad()
    def step(self, loss_gradient: Sequence[Tensor], scale: float = 1.0) -> None:
        """One step down the gradient, at `scale` times the rates."""
        self._steps += 1
        bias = math.sqrt(1 - SECOND**self._steps) / (1 - FIRST**self._steps)
        for tensor, rate, gradient, mean, square in zip(
            self._tensors, self._rates, loss_gradient, self._mean, self._square, strict=True
        ):
            mean.lerp_(gradient, 1 - FIRST)
            square.mul_(SECOND).addcmul_(gradient, gradient, value=1 - SECOND)
            tensor.addcdiv_(mean, square.sqrt().add_(EPSILON), value=-scale * rate * bias)
