"""What every loop of one batch shares."""

from dataclasses import dataclass

from torch import Tensor

from trajdiag.models.scratch import Scratch

Projection = tuple[Tensor, ...]
"""Weights whose outputs stand side by side: joined into one matrix, or several."""


@dataclass(frozen=True, kw_only=True)
class LayerWeights:
    """One layer's weights as a batch uses them."""

    attention_in_norm: Tensor
    qkv: Projection
    output: Tensor
    attention_out_norm: Tensor
    mlp_in_norm: Tensor
    gate_up: Projection
    down: Tensor
    mlp_out_norm: Tensor


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What every loop of one batch shares."""

    groups: tuple[tuple[int, int], ...]
    """(rows, positions) of each group, in the order of its tokens."""
    mask: Tensor | None
    """bool [row, 1, position, position], True where attended, with one group; None is causal."""
    turn: Tensor
    """The rotary angles, in either form of `fused.rotate`."""
    layers: tuple[LayerWeights, ...]
    scratch: Scratch | None = None
    """What `lean_loop` works in; None where the loop keeps what gradients need."""
