"""A network of all advantages: one output a price, all loops pooled, the loop among its inputs.

It learns what ridge leaves, so where there is nothing to add it adds little noise of its own.
Its targets are recomputed from time to time, from the rule that it makes so far. The iterates are
averaged over the last few dozen steps, and the average that is best on held-out examples is kept.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import silu

from trajdiag.bound.ridge import LinearRule
from trajdiag.bound.sample import Sample
from trajdiag.bound.stopping import mean_value, targets
from trajdiag.gates.adam import Adam

_WIDTH, _BATCH, _RATE = 128, 1024, 3e-3
_PASSES, _LEAST_STEPS = 8, 300
_ROUNDS = 8
"""How often targets are recomputed, and the average tried on the held-out examples."""
_WARM_UP, _AVERAGED = 30, 80
"""Steps."""


class MlpRule:
    """Advantages by a linear rule and a network with two hidden layers."""

    def __init__(self, linear: LinearRule, seed: int) -> None:
        self._linear = linear
        loops, features, prices = linear.weight.shape
        generator = torch.Generator().manual_seed(seed)

        def random(rows: int, columns: int, fan: int) -> Tensor:
            return torch.randn(rows, columns, generator=generator) / math.sqrt(fan)

        self.tensors = [
            random(features, _WIDTH, features),
            random(loops, _WIDTH, 1),
            random(_WIDTH, _WIDTH, _WIDTH),
            torch.zeros(_WIDTH),
            torch.zeros(_WIDTH, prices),
            torch.zeros(prices),
        ]

    def forward(self, features: Tensor, loop: Tensor) -> Tensor:
        """What the network adds, [..., price], of features [..., feature] at `loop`, 0 for the
        first, [...]."""
        states, loops, inner, inner_bias, outer, outer_bias = self.tensors
        x = silu(features @ states + loops[loop])
        return silu(x @ inner + inner_bias) @ outer + outer_bias

    @torch.no_grad()
    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """[loop < T, example, price] of features [loop < T, example, feature]."""
        found = self._linear(features)
        for t, x in enumerate(features):
            found[t] += self.forward(torch.from_numpy(x), torch.tensor([t])).numpy()
        return found


def fit_mlp(
    fit: Sample,
    held: Sample,
    linear: LinearRule,
    prices: NDArray[np.float32],
    *,
    seed: int = 0,
    min_depth: int = 1,
) -> MlpRule:
    """The advantages at all prices, beginning with those of `linear`."""
    loops, examples, width = fit.features.shape
    rule, average = (MlpRule(linear, seed) for _ in range(2))
    for tensor in rule.tensors:
        tensor.requires_grad_()
    adam = Adam(rule.tensors, [_RATE] * len(rule.tensors))
    generator = torch.Generator().manual_seed(seed)
    features = torch.from_numpy(fit.features).view(loops * examples, width)
    steps = max(_LEAST_STEPS, _PASSES * -(-len(features) // _BATCH))
    policy = start = linear(fit.features)
    best, best_value = average.tensors, -np.inf
    order = torch.zeros(0, dtype=torch.int64)
    for round_ in range(_ROUNDS):
        goal, _ = targets(policy, fit.correct, prices, min_depth=min_depth)
        goal = torch.from_numpy(goal - start).view(len(features), -1)
        for step in range(round_ * steps // _ROUNDS, (round_ + 1) * steps // _ROUNDS):
            if not len(order):
                order = torch.randperm(len(features), generator=generator)
            at, order = order[:_BATCH], order[_BATCH:]
            loss = (rule.forward(features[at], at // examples) - goal[at]).square().mean()
            scale = min(1.0, (step + 1) / _WARM_UP) * (
                0.52 + 0.48 * math.cos(math.pi * step / steps)
            )
            adam.step(torch.autograd.grad(loss, rule.tensors), scale)
            with torch.no_grad():
                for mean, tensor in zip(average.tensors, rule.tensors, strict=True):
                    mean.lerp_(tensor, max(1 / (step + 1), 1 / _AVERAGED))
        value = mean_value(average(held.features), held.correct, prices, min_depth)
        if value > best_value:
            best, best_value = [tensor.clone() for tensor in average.tensors], value
        policy = average(fit.features)
    average.tensors = best
    return average
