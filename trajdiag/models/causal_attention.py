"""Causal attention of rows of middling length on the CPU, faster than torch's own.

There torch's kernel computes all positions x positions of a row up to 512 positions and masks half
of them; here blocks of queries see only the keys up to their own end. Scores and their softmax are
float32 at least, as in torch's kernel.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_BLOCK = 128
"""Queries at a time."""
_LENGTHS = range(65, 769)
"""Positions in a row, outside of which torch's kernel is as fast (measured at 16 heads of 64)."""


@dataclass(frozen=True, kw_only=True)
class AttentionScratch:
    """What the rows of a batch are attended in, one after another."""

    later: Tensor
    """[query in block, key in block]: -inf where the key comes after the query, else 0."""
    scores: Tensor
    """Flat, for the scores of one block."""
    wide: tuple[Tensor, Tensor, Tensor] | None
    """Queries, keys and values of one row in the scores' dtype; None where they have it."""


def suits(positions: int, device: torch.device) -> bool:
    """Whether rows of this length are attended faster here than by torch."""
    return device.type == "cpu" and positions in _LENGTHS


def attention_scratch(
    positions: int, heads: int, key_heads: int, head_dim: int, dtype: torch.dtype
) -> AttentionScratch:
    """Buffers for rows of up to `positions`, of states in `dtype`, on the CPU."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    block = min(_BLOCK, positions)
    q, k, v = (
        torch.empty(positions if dtype != wide else 0, n * head_dim, dtype=wide)
        for n in (heads, key_heads, key_heads)
    )
    return AttentionScratch(
        later=torch.full((block, block), -torch.inf, dtype=wide).triu(1),
        scores=torch.empty(heads * block * positions, dtype=wide),
        wide=None if dtype == wide else (q, k, v),
    )


def attend_row(
    queries: Tensor, keys: Tensor, values: Tensor, head_dim: int, scratch: AttentionScratch
) -> None:
    """Attend one row, [position, head x head_dim] each; the result takes the queries' place.

    Fewer heads of keys and values are shared by as many queries each, in order.
    """
    q, k, v = queries, keys, values
    if scratch.wide is not None:
        q, k, v = (
            wide[: len(narrow)].copy_(narrow)
            for wide, narrow in zip(scratch.wide, (q, k, v), strict=True)
        )
    by_head = [x.view(len(x), -1, head_dim).transpose(0, 1) for x in (q, k, v)]
    _attend_heads(by_head[0], by_head[1], by_head[2], scratch)
    if scratch.wide is not None:
        queries.copy_(q)


def _attend_heads(q: Tensor, k: Tensor, v: Tensor, scratch: AttentionScratch) -> None:
    """As `attend_row`, of [head, position, head_dim]."""
    heads, positions, head_dim = q.shape
    if len(k) != heads:
        k, v = (x.repeat_interleave(heads // len(k), dim=0) for x in (k, v))
    block = len(scratch.later)
    for start in range(0, positions, block):
        end = min(start + block, positions)
        size = end - start
        scores = scratch.scores[: heads * size * end].view(heads, size, end)
        queries, keys = q[:, start:end], k[:, :end].transpose(1, 2)
        scores.baddbmm_(queries, keys, beta=0, alpha=head_dim**-0.5)
        scores[:, :, start:].add_(scratch.later[:size, :size])
        torch.softmax(scores, dim=-1, out=scores)
        # A block's queries are not read again, so what they attend to takes their place.
        torch.bmm(scores, v[:, :end], out=queries)
