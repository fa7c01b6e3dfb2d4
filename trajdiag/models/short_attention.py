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

    positions: int
    """Of the longest row."""
    parted: Tensor
    """int64 [part x row x head x position]: where each place's query, key or value stands in
    [token x part x head]; that of the row's first token where there is no token."""
    place: Tensor
    """int64 [token x head]: where it stands in [row x head x position]."""
    joined: Tensor
    """int64 [token x part x head]: where it stands in [part x row x head x position]."""
    taken: Tensor
    """int64 [row x head x position]: where each place stands in [token x head]; likewise."""
    real: Tensor
    """[row x head x position, 1]: 1 where there is a token, else 0."""
    turn: Tensor
    """complex [position, head_dim / 2]: the rotary angles, exp(i angle)."""
    back: Tensor
    """Their opposites, exp(-i angle)."""
    later: Tensor
    """[key, 1, query]: -inf where the key comes after the query, else 0."""


def suits(groups: Sequence[tuple[int, int]], device: torch.device) -> bool:
    """Whether groups of (rows, positions) are attended faster here than by torch."""
    return device.type == "cpu" and max(positions for _, positions in groups) <= _LONGEST


def short_rows(groups: Sequence[tuple[int, int]], angles: Tensor, heads: int) -> ShortRows:
    """Of groups of (rows, positions), tokens group after group; `angles` [position, head_dim / 2]
    are those of the positions of the longest row, in the dtype of the states."""
    rows, positions = sum(r for r, _ in groups), len(angles)
    length = torch.cat([torch.full((r,), p) for r, p in groups])
    begin = length.cumsum(0) - length
    offset, head = torch.arange(positions), torch.arange(heads)
    part = torch.arange(3).view(3, 1, 1, 1)
    real = offset < length[:, None]  # [row, position]
    token = torch.where(real, begin[:, None] + offset, begin[:, None])
    parted = (3 * token[:, None, :] + part) * heads + head[:, None]
    taken = token[:, None, :] * heads + head[:, None]
    row, position = real.nonzero().unbind(1)  # of each token
    place = (row[:, None] * heads + head) * positions + position[:, None]
    joined = place[:, None, :] + part.view(3, 1) * (rows * heads * positions)
    later = torch.full((positions, positions), -torch.inf, dtype=angles.dtype).tril(-1)
    return ShortRows(
        positions=positions,
        parted=parted.flatten(),
        place=place.flatten(),
        joined=joined.flatten(),
        taken=taken.flatten(),
        real=real[:, None].expand(taken.shape).reshape(-1, 1).to(angles.dtype),
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
        p = rows.positions
        # rows of one head are moved at once: half the time of moving tokens, then permuting
        moved = qkv.reshape(-1, head_dim).index_select(0, rows.parted)
        # [query, key or value; row x head, position, head_dim]
        parts = moved.view(3, -1, p, head_dim)
        _turn(parts[:2], rows.turn)
        q, k, v = parts
        scores = torch.empty(p, len(q), p, dtype=qkv.dtype)
        by_key = torch.bmm(k, q.transpose(1, 2)).transpose(0, 1)
        torch.add(rows.later, by_key, alpha=head_dim**-0.5, out=scores)
        shares = torch.softmax(scores, 0)
        attended = torch.bmm(shares.permute(1, 2, 0), v)
        ctx.save_for_backward(parts, shares)
        ctx.rows = rows
        by_token = attended.view(-1, head_dim).index_select(0, rows.place)
        return by_token.view(len(qkv), -1)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor, None, None]:
        (parts, shares), rows = ctx.saved_tensors, ctx.rows
        p, head_dim = parts.shape[2:]
        q, k, v = parts
        above = grad.reshape(-1, head_dim).index_select(0, rows.taken).mul_(rows.real)
        above = above.view(-1, p, head_dim)
        found = torch.empty_like(parts)
        torch.bmm(shares.transpose(0, 1), above, out=found[2])
        of_shares = torch.bmm(v, above.transpose(1, 2)).transpose(0, 1).contiguous()
        of_scores = torch.ops.aten._softmax_backward_data(of_shares, shares, 0, shares.dtype)
        of_scores.mul_(head_dim**-0.5)
        torch.bmm(of_scores.permute(1, 2, 0), k, out=found[0])
        torch.bmm(of_scores.transpose(0, 1), q, out=found[1])
        _turn(found[:2], rows.back)
        by_token = found.view(-1, head_dim).index_select(0, rows.joined)
        return by_token.view(len(grad), -1), None, None


def _turn(parts: Tensor, turn: Tensor) -> None:
    """Rotate [part, row x head, position, head_dim] in place."""
    torch.view_as_complex(parts.unflatten(-1, (-1, 2))).mul_(turn)
