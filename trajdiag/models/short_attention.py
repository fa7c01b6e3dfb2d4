"""Causal attention of many short rows with its gradient written out, for training small models on
the CPU.

torch's kernels work through a softmax of a few keys row by row and head by head, which costs four
times the products. Here all rows, padded to the longest, are one batch, and the softmax runs over
the first axis of [key, row x head, query], where it is vectorised.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_LONGEST = 24
"""Positions up to which rows are short; beyond, what padding and masked scores waste grows."""


@dataclass(frozen=True, kw_only=True)
class ShortRows:
    """Where the tokens of a packed batch stand among its padded rows."""

    rows: int
    positions: int
    """Of the longest row."""
    gather: Tensor
    """int64 [row x position]: each place's token; a row's first one where it has none."""
    place: Tensor
    """int64 [token]: its place."""
    turn: Tensor
    """complex [position, head_dim / 2]: the rotary angles, exp(i angle)."""
    back: Tensor
    """Their opposites, exp(-i angle)."""
    later: Tensor
    """[key, 1, query]: -inf where the key comes after the query, else 0."""


def suits(groups: Sequence[tuple[int, int]], device: torch.device) -> bool:
    """Whether groups of (rows, positions) are attended faster here than by torch."""
    return device.type == "cpu" and max(positions for _, positions in groups) <= _LONGEST


def short_rows(groups: Sequence[tuple[int, int]], angles: Tensor) -> ShortRows:
    """Of groups of (rows, positions), tokens group after group; `angles` [position, head_dim / 2]
    are those of the positions of the longest row, in the dtype of the states."""
    rows, positions = sum(r for r, _ in groups), len(angles)
    length = torch.cat([torch.full((r,), p) for r, p in groups])
    begin = length.cumsum(0) - length
    offset = torch.arange(positions)
    real = offset < length[:, None]
    gather = torch.where(real, begin[:, None] + offset, begin[:, None]).flatten()
    later = torch.full((positions, positions), -torch.inf, dtype=angles.dtype).tril(-1)
    return ShortRows(
        rows=rows,
        positions=positions,
        gather=gather,
        place=real.flatten().nonzero().squeeze(1),
        turn=torch.polar(torch.ones_like(angles), angles),
        back=torch.polar(torch.ones_like(angles), -angles),
        later=later.unsqueeze(1),
    )


def attend_short(qkv: Tensor, rows: ShortRows, head_dim: int) -> Tensor:
    """What each token attends to, [token, heads x head_dim], of queries, keys and values side by
    side, [token, 3 x heads x head_dim]; pairs of a head's rotary dimensions are neighbours."""
    return _ShortAttention.apply(qkv, rows, head_dim)  # pyright: ignore[reportReturnType]


class _ShortAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, rows: ShortRows, head_dim: int) -> Tensor:
        r, p = rows.rows, rows.positions
        padded = qkv.index_select(0, rows.gather).view(r, p, 3, -1, head_dim)
        # [query, key or value; row x head, position, head_dim]
        parts = padded.permute(2, 0, 3, 1, 4).contiguous().view(3, -1, p, head_dim)
        _turn(parts[:2], rows.turn)
        q, k, v = parts
        scores = torch.empty(p, len(q), p, dtype=qkv.dtype)
        by_key = torch.bmm(k, q.transpose(1, 2)).transpose(0, 1)
        torch.add(rows.later, by_key, alpha=head_dim**-0.5, out=scores)
        shares = torch.softmax(scores, 0)
        attended = torch.bmm(shares.permute(1, 2, 0), v)
        ctx.save_for_backward(parts, shares)
        ctx.rows = rows
        by_row = attended.view(r, -1, p, head_dim).transpose(1, 2)
        return by_row.reshape(r * p, -1).index_select(0, rows.place)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor, None, None]:
        (parts, shares), rows = ctx.saved_tensors, ctx.rows
        r, p, head_dim = rows.rows, rows.positions, parts.shape[-1]
        q, k, v = parts
        padded = grad.new_zeros(r * p, grad.shape[1]).index_copy_(0, rows.place, grad)
        above = padded.view(r, p, -1, head_dim).transpose(1, 2).reshape(-1, p, head_dim)
        found = torch.empty_like(parts)
        torch.bmm(shares.transpose(0, 1), above, out=found[2])
        of_shares = torch.bmm(v, above.transpose(1, 2)).transpose(0, 1).contiguous()
        of_scores = torch.ops.aten._softmax_backward_data(of_shares, shares, 0, shares.dtype)
        of_scores.mul_(head_dim**-0.5)
        torch.bmm(of_scores.permute(1, 2, 0), k, out=found[0])
        torch.bmm(of_scores.transpose(0, 1), q, out=found[1])
        _turn(found[:2], rows.back)
        by_token = found.view(3, r, -1, p, head_dim).permute(1, 3, 0, 2, 4).reshape(r * p, -1)
        return by_token.index_select(0, rows.place), None, None


def _turn(parts: Tensor, turn: Tensor) -> None:
    """Rotate [part, row x head, position, head_dim] in place."""
    torch.view_as_complex(parts.unflatten(-1, (-1, 2))).mul_(turn)
