"""One pass of the block without gradients, in memory that every layer and loop use again.

The maths and the roundings are the decoder's; what differs is where results lie. A layer's linear
maps run piece by piece of the tokens, and nothing is copied to stand side by side.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import scaled_dot_product_attention, silu

from trajdiag.models.batch import Batch, LayerWeights
from trajdiag.models.causal_attention import attend_row, suits
from trajdiag.models.config import OuroConfig
from trajdiag.models.fused import turn_halves
from trajdiag.models.scratch import Scratch


def lean_loop(
    x: Tensor, batch: Batch, scratch: Scratch, last_norm: Tensor, config: OuroConfig
) -> Tensor:
    """All layers and the norm `last_norm`: [token, d_model] to a fresh [token, d_model]."""
    eps, scratch = config.rms_norm_eps, scratch.first(len(x))
    stream, residual = scratch.stream, x
    for layer in batch.layers:
        for at in _pieces(scratch):
            _project_heads(residual[at], at, layer, batch, scratch, config)
        _attend(batch, scratch, config)
        for at in _pieces(scratch):
            out = _shaped(scratch.inner[0], stream[at])
            torch.mm(scratch.queries[at], layer.output.t(), out=out)
            _add_norm(stream[at], residual[at], out, layer.attention_out_norm, eps, scratch)
            _feed_forward(stream[at], layer, scratch, config)
        residual = stream
    result = torch.empty_like(x)
    for at in _pieces(scratch):
        _norm(result[at], residual[at], last_norm, eps, scratch)
    return result


def _pieces(scratch: Scratch) -> Iterator[slice]:
    for start in range(0, len(scratch.stream), scratch.piece):
        yield slice(start, start + scratch.piece)


def _project_heads(
    x: Tensor, at: slice, layer: LayerWeights, batch: Batch, scratch: Scratch, config: OuroConfig
) -> None:
    """Queries, keys and values of the tokens `at`, whose stream is `x`, turned by their angles."""
    query, key, value = layer.qkv
    normed = scratch.normed[: len(x)]
    _norm(normed, x, layer.attention_in_norm, config.rms_norm_eps, scratch)
    cos, sin = batch.turn[:, at]
    for weight, place in ((query, scratch.queries), (key, scratch.keys)):
        still = _shaped(scratch.inner[0], place[at])
        torch.mm(normed, weight.t(), out=still)
        source, target = (h.view(len(x), -1, config.head_dim) for h in (still, place[at]))
        turn_halves(source, target, cos, sin)
    torch.mm(normed, value.t(), out=scratch.values[at])


def _attend(batch: Batch, scratch: Scratch, config: OuroConfig) -> None:
    """Put what the queries attend to in their place."""
    heads, key_heads = config.num_attention_heads, config.num_key_value_heads
    sizes = [rows * positions for rows, positions in batch.groups]
    parts = [t.split(sizes) for t in (scratch.queries, scratch.keys, scratch.values)]
    for (rows, positions), *group in zip(batch.groups, *parts, strict=True):
        causal = scratch.attention if batch.mask is None else None
        if causal is not None and suits(positions, group[0].device):
            for q, k, v in zip(*(t.split(positions) for t in group), strict=True):
                attend_row(q, k, v, config.head_dim, causal)
            continue
        # [row, head, position, head_dim]
        q, k, v = (t.view(rows, positions, -1, config.head_dim).transpose(1, 2) for t in group)
        if key_heads != heads:
            k, v = (t.repeat_interleave(heads // key_heads, dim=1) for t in (k, v))
        q.copy_(
            scaled_dot_product_attention(
                q, k, v, attn_mask=batch.mask, is_causal=batch.mask is None
            )
        )


def _feed_forward(x: Tensor, layer: LayerWeights, scratch: Scratch, config: OuroConfig) -> None:
    """Add to a piece of the stream what its feed-forward gives."""
    eps, size = config.rms_norm_eps, len(x) * config.intermediate_size
    normed = scratch.normed[: len(x)]
    _norm(normed, x, layer.mlp_in_norm, eps, scratch)
    gate, up = (flat[:size].view(len(x), -1) for flat in scratch.inner)
    for weight, place in zip(layer.gate_up, (gate, up), strict=True):
        torch.mm(normed, weight.t(), out=place)
    silu(gate, inplace=True).mul_(up)
    fed = _shaped(scratch.inner[1], x)
    torch.mm(gate, layer.down.t(), out=fed)
    _add_norm(x, x, fed, layer.mlp_out_norm, eps, scratch)


def _norm(place: Tensor, x: Tensor, weight: Tensor | None, eps: float, scratch: Scratch) -> None:
    """Put into `place`, which may be `x`, what `fused.rms_norm` gives; None is a weight of ones."""
    wide = x if scratch.wide is None else scratch.wide[: len(x)].copy_(x)
    inverse = vector_norm(wide, dim=-1, keepdim=True)
    inverse.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
    if wide is x:
        torch.mul(x, inverse, out=place)
    else:
        place.copy_(wide.mul_(inverse))
    if weight is not None:
        place.mul_(weight)


def _add_norm(
    place: Tensor, residual: Tensor, x: Tensor, weight: Tensor, eps: float, scratch: Scratch
) -> None:
    """Put into `place` the residual and the norm of `x`, whose memory is used up."""
    _norm(x, x, None, eps, scratch)
    torch.addcmul(residual, x, weight, out=place)


def _shaped(flat: Tensor, like: Tensor) -> Tensor:
    """The start of a flat buffer in the shape of `like`."""
    return flat[: like.numel()].view_as(like)
