"""What every loop of one batch shares."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trajdiag.models.rows import gathered, gathered_tokens
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
    """What `lean_loop` works in, for as many tokens or more; None where the loop keeps what
    gradients need."""

    def turn_of(self, tokens: Tensor) -> Tensor:
        """The rotary angles of these tokens, int64 [token]."""
        return self.turn.index_select(self.token_axis, tokens)

    @property
    def token_axis(self) -> int:
        """Of `turn`."""
        return 0 if self.turn.is_complex() else 1

    def explicit_mask(self) -> Tensor:
        """`mask`, of one group, where None too is written out."""
        if self.mask is not None:
            return self.mask
        ((rows, positions),) = self.groups
        causal = torch.ones(positions, positions, dtype=torch.bool, device=self.turn.device).tril()
        return causal.expand(rows, 1, -1, -1)


def gathered_batch(parts: Sequence[tuple[Batch, Tensor]], scratch: Scratch | None) -> Batch:
    """One batch of the wanted rows, int64 [row], of batches of one group each whose positions are
    as many; it works in `scratch`."""
    first = parts[0][0]
    ((_, positions),) = first.groups
    mask = None
    if any(batch.mask is not None for batch, _ in parts):
        mask = gathered(parts, Batch.explicit_mask)
    return replace(
        first,
        groups=((sum(len(rows) for _, rows in parts), positions),),
        mask=mask,
        turn=gathered_tokens(parts, lambda batch: batch.turn, positions, first.token_axis),
        scratch=scratch,
    )
