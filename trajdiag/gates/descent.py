"""Fitting a gate network: Adam at a constant rate, its iterates averaged, stopped by val.

The average weighs late iterates more, (step + gamma)^gamma-like ("polynomial-decay averaging",
Shamir & Zhang 2013, arXiv 1212.1824), which acts as a decaying rate without knowing the end.
"""

import copy
import math
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from trajdiag.errors import GateError
from trajdiag.gates.adam import Adam
from trajdiag.gates.frozen_states import FrozenStates, Standardiser
from trajdiag.gates.network import GateKind, GateNetwork
from trajdiag.gates.objectives import Objective
from trajdiag.progress import Progress

LARGEST_BATCH, SMALLEST_BATCH = 256, 32
STEPS_PER_PASS = 64
"""Steps between two looks at val, at least: batches shrink, then small splits are passed over more
than once."""
WARM_UP = 50
AVERAGING = 8.0
"""The average spans about the last 1/(AVERAGING + 1) of the steps."""
LEAST_GAIN = 1e-4
"""Share of the val loss by which a pass must better it to count."""
LONGEST_SILENCE = 30.0
"""Seconds after which the next pass is told, whichever it is."""


def fit_network(
    network: GateNetwork,
    fit: tuple[FrozenStates, Objective],
    val: tuple[FrozenStates, Objective],
    *,
    rng: np.random.Generator,
    dtype: torch.dtype,
    epochs: int,
    patience: int,
    progress: Progress,
) -> tuple[GateNetwork, list[float]]:
    """The network (of standardised states) with the least val loss; the val loss after each pass.

    Matrix products run in `dtype`, weights and losses are float32. Told are passes 1, 2, 4, 8 and
    so on, the last, and more of slow ones.
    """
    states, objective = fit
    size = min(len(states), _batch_size(len(states)))
    weights = list(network.parameters())
    adam = Adam(weights, _rates(network))
    average = copy.deepcopy(network)
    best, mark, stale, step = average, math.inf, 0, 0
    history: list[float] = []
    told = time.monotonic()
    for epoch in range(1, epochs + 1):
        for _ in range(math.ceil(STEPS_PER_PASS * size / len(states))):
            for examples, batch in states.shuffled(rng, size):
                step += 1
                loss = objective.loss(_logits(network, batch, dtype), objective.evidence[examples])
                adam.step(torch.autograd.grad(loss, weights), scale=min(1.0, step / WARM_UP))
                _average(average, network, (AVERAGING + 1) / (step + AVERAGING))
        history.append(mean_loss(average, *val, dtype))
        if not math.isfinite(history[-1]):
            raise GateError(
                f"the val loss is {history[-1]} after pass {epoch}: the states or the "
                "cross-entropies are too large for float32; check the store's states and logits"
            )
        if history[-1] <= min(history):
            best = copy.deepcopy(average)
        # Against the last mark, so that a run of small gains counts as their sum.
        if mark - history[-1] > LEAST_GAIN * abs(history[-1]):
            mark, stale = history[-1], 0
        else:
            stale += 1
        last = stale >= patience or epoch == epochs
        is_slow = time.monotonic() - told > LONGEST_SILENCE
        if last or is_slow or epoch.bit_count() == 1:
            progress(f"pass {epoch}: val loss {history[-1]:.5f} {objective.unit}")
            told = time.monotonic()
        if last:
            break
    return best, history


@torch.no_grad()
def mean_loss(
    network: GateNetwork, states: FrozenStates, objective: Objective, dtype: torch.dtype
) -> float:
    """The objective over all of `states`."""
    total = 0.0
    for examples, batch in states.in_order():
        loss = objective.loss(_logits(network, batch, dtype), objective.evidence[examples])
        total += loss.item() * len(examples)
    return total / len(states)


def new_network(kind: GateKind, d_model: int, seed: int) -> GateNetwork:
    """A network with the initial weights of this seed; the caller's generator is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GateNetwork(kind, d_model)


@torch.no_grad()
def constant_network(network: GateNetwork, value: float) -> GateNetwork:
    """A network of the same shape that gives `value` for every state."""
    network = copy.deepcopy(network)
    for weight in network.parameters():
        weight.zero_()
    network.output.bias.fill_(value)
    return network


@torch.no_grad()
def on_raw_states(network: GateNetwork, standardise: Standardiser) -> GateNetwork:
    """The same function of the states as they are stored: the standardiser folded into a layer."""
    folded = copy.deepcopy(network)
    layer = folded.hidden if folded.hidden is not None else folded.output
    weight = layer.weight.double() / standardise.spread.double()
    layer.bias.sub_((weight @ standardise.mean.double()).to(layer.bias))
    layer.weight.copy_(weight)
    return folded.requires_grad_(False)


def _logits(network: GateNetwork, states: Tensor, dtype: torch.dtype) -> Tensor:
    weights = {name: weight.to(dtype) for name, weight in network.named_parameters()}
    return functional_call(network, weights, (states,)).float()


def _rates(network: GateNetwork) -> list[float]:
    """Of each parameter. Wide inputs take smaller steps, as many weights move a unit together. The
    output layer takes smaller ones still: when it moves first, hidden units grow alike and the gate
    overfits."""
    rate = min(1e-2, 0.768 / network.output.in_features)
    if network.hidden is None:
        return [rate for _ in network.parameters()]
    return [rate / 10 if "output" in name else rate for name, _ in network.named_parameters()]


@torch.no_grad()
def _average(average: nn.Module, network: nn.Module, weight: float) -> None:
    for mean, value in zip(average.parameters(), network.parameters(), strict=True):
        mean.lerp_(value, weight)


def _batch_size(examples: int) -> int:
    """The largest power of two that leaves STEPS_PER_PASS steps, within bounds."""
    wanted = max(1, examples // STEPS_PER_PASS)
    return min(LARGEST_BATCH, max(SMALLEST_BATCH, 2 ** (wanted.bit_length() - 1)))
