"""The memory that a batch's layers and loops work in, one after another.

A result in fresh memory costs more to touch first than to compute, and one in memory that was just
in use is still in the cache.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trajdiag.models.causal_attention import AttentionScratch, attention_scratch, suits
from trajdiag.models.config import OuroConfig

PIECE = 1024
"""The most tokens that go through a layer's linear maps together: enough for the matrix products to
be fast, and few enough for what lies between two of them to stay in the cache."""


@dataclass(frozen=True, kw_only=True)
class Scratch:
    """Buffers of one batch; nothing in them outlives a loop."""

    piece: int
    """Tokens that go through a layer's linear maps together."""
    stream: Tensor
    """[token, d_model]: the residual stream."""
    queries: Tensor
    """[token, head x head_dim], then what they attended to."""
    keys: Tensor
    """[token, key head x head_dim]."""
    values: Tensor
    """[token, key head x head_dim]."""
    normed: Tensor
    """[piece, d_model]."""
    wide: Tensor | None
    """float32 [piece, d_model]; None where the states are as wide."""
    inner: tuple[Tensor, Tensor]
    """Flat, for two results each of a piece, as wide as the feed-forward or the queries."""
    attention: AttentionScratch | None
    """None where no row suits it."""

    @property
    def tokens(self) -> int:
        """The most that it serves."""
        return len(self.stream)

    def first(self, tokens: int) -> "Scratch":
        """The same memory for a batch of at most as many tokens."""
        return replace(
            self,
            piece=_even_piece(tokens),
            stream=self.stream[:tokens],
            queries=self.queries[:tokens],
            keys=self.keys[:tokens],
            values=self.values[:tokens],
        )


def scratch_for(
    config: OuroConfig,
    groups: tuple[tuple[int, int], ...],
    causal: bool,
    device: torch.device,
    dtype: torch.dtype,
) -> Scratch:
    """Buffers for a batch of `groups` (rows, positions)."""
    tokens = sum(rows * positions for rows, positions in groups)
    most = min(tokens, PIECE)
    heads, key_heads, dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    inner = most * max(config.intermediate_size, config.hidden_size, heads * dim)
    longest = max((p for _, p in groups if causal and suits(p, device)), default=None)

    def buffer(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    # Memory made in inference mode could not be written outside of it.
    with torch.inference_mode(False), torch.no_grad():
        narrow = dtype.itemsize < torch.float32.itemsize
        attention = longest and attention_scratch(longest, heads, key_heads, dim, dtype)
        return Scratch(
            piece=_even_piece(tokens),
            stream=buffer(tokens, config.hidden_size),
            queries=buffer(tokens, heads * dim),
            keys=buffer(tokens, key_heads * dim),
            values=buffer(tokens, key_heads * dim),
            normed=buffer(most, config.hidden_size),
            wide=buffer(most, config.hidden_size, dtype=torch.float32) if narrow else None,
            inner=(buffer(inner), buffer(inner)),
            attention=attention or None,
        )


def _even_piece(tokens: int) -> int:
    """Tokens of each of as few equal pieces as there can be: a short last one would be slow."""
    return math.ceil(tokens / max(1, math.ceil(tokens / PIECE)))
