"""What every loop of one batch shares."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trajdiag.models.scratch import Scratch
from trajdiag.models.short_attention import ShortRows

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
    short: ShortRows | None = None
    """Where the tokens of short rows stand, in training; None leaves attention to torch."""

    def take(self, rows: Tensor) -> "Batch":
        """The batch of these rows alone, int64 [row], of one group; it works in this one's
        scratch."""
        ((_, positions),) = self.groups
        tokens = tokens_of(rows, positions)
        return replace(
            self,
            groups=((len(rows), positions),),
            mask=None if self.mask is None else self.mask[rows],
            turn=self.turn_of(tokens),
        )

    def join(self, others: Sequence["Batch"], scratch: Scratch | None) -> "Batch":
        """This batch's rows and then the others', each of one group with as many positions; it
        works in `scratch`."""
        batches = (self, *others)
        rows = sum(batch.groups[0][0] for batch in batches)
        positions = self.groups[0][1]
        mask = None
        if any(batch.mask is not None for batch in batches):
            mask = torch.cat([batch._explicit_mask() for batch in batches])
        return replace(
            self,
            groups=((rows, positions),),
            mask=mask,
            turn=torch.cat([batch.turn for batch in batches], dim=self._token_axis),
            scratch=scratch,
        )

    def turn_of(self, tokens: Tensor) -> Tensor:
        """The rotary angles of these tokens, int64 [token]."""
        return self.turn.index_select(self._token_axis, tokens)

    @property
    def _token_axis(self) -> int:
        """Of `turn`."""
        return 0 if self.turn.is_complex() else 1

    def _explicit_mask(self) -> Tensor:
        if self.mask is not None:
            return self.mask
        ((rows, positions),) = self.groups
        causal = torch.ones(positions, positions, dtype=torch.bool, device=self.turn.device).tril()
        return causal.expand(rows, 1, -1, -1)


def tokens_of(rows: Tensor, positions: int) -> Tensor:
    """The tokens of these rows, int64 [token], where rows of so many positions lie one after the
    other."""
    return (rows[:, None] * positions + torch.arange(positions, device=rows.device)).flatten()
