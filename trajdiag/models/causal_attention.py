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
    wide: tuple[Tensor, Tensor] | None
    """Queries and keys of one row in the scores' dtype; None where they have it."""
    shares: Tensor
    """Flat, for the softmax of the scores in the values' dtype; the scores themselves where that is
    theirs."""
    attended: Tensor
    """Flat, for what one block attends to."""


def suits(positions: int, device: torch.device) -> bool:
    """Whether rows of this length are attended faster here than by torch."""
    return device.type == "cpu" and positions in _LENGTHS


def attention_scratch(
    positions: int, heads: int, key_heads: int, head_dim: int, dtype: torch.dtype
) -> AttentionScratch:
    """Buffers for rows of up to `positions`, of states in `dtype`, on the CPU."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    block = min(_BLOCK, positions)
    scores = torch.empty(heads * block * positions, dtype=wide)
    q, k = (torch.empty(positions, n * head_dim, dtype=wide) for n in (heads, key_heads))
    return AttentionScratch(
        later=torch.full((block, block), -torch.inf, dtype=wide).triu(1),
        scores=scores,
        wide=None if dtype == wide else (q, k),
        shares=scores if dtype == wide else torch.empty_like(scores, dtype=dtype),
        attended=torch.empty(heads * block * head_dim, dtype=dtype),
    )


def attend_row(
    queries: Tensor, keys: Tensor, values: Tensor, head_dim: int, scratch: AttentionScratch
) -> None:
    """Attend one row, [position, head x head_dim] each; the result takes the queries' place.

    Fewer heads of keys and values are shared by as many queries each, in order.
    """
    q, k, v = queries, keys, values
    if scratch.wide is not None:
        q, k = (
            wide[: len(narrow)].copy_(narrow)
            for wide, narrow in zip(scratch.wide, (q, k), strict=True)
        )
    q, k, v, place = (x.view(len(x), -1, head_dim).transpose(0, 1) for x in (q, k, v, queries))
    _attend_heads(q, k, v, place, scratch)


def _attend_heads(
    q: Tensor, k: Tensor, v: Tensor, place: Tensor, scratch: AttentionScratch
) -> None:
    """Put into `place`, which may be `q`, what `q` attends to: [head, position, head_dim] each."""
    heads, positions, head_dim = q.shape
    if len(k) != heads:
        k, v = (x.repeat_interleave(heads // len(k), dim=0) for x in (k, v))
    block = len(scratch.later)
    for start in range(0, positions, block):
        end = min(start + block, positions)
        size = end - start
        scores, shares = (
            flat[: heads * size * end].view(heads, size, end)
            for flat in (scratch.scores, scratch.shares)
        )
        scores.baddbmm_(q[:, start:end], k[:, :end].mT, beta=0, alpha=head_dim**-0.5)
        scores[:, :, start:].add_(scratch.later[:size, :size])
        torch.softmax(scores, dim=-1, out=scores)
        if shares.dtype != scores.dtype:
            shares.copy_(scores)
        # Straight into `place`, whose heads are strides apart, the product takes several times as
        # long. A block's queries are not read again, so what they attend to can take their place.
        attended = scratch.attended[: heads * size * head_dim].view(heads, size, head_dim)
        torch.bmm(shares, v[:, :end], out=attended)
        place[:, start:end].copy_(attended)
