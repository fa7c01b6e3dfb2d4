"""All loops of a training batch of short rows as one operation, its gradient written out.

Autograd's many short operations cost a small model more than its matrix products. Here a loop is a
few passes forward and backward over memory that is kept between steps, weights' gradients grow in
place from loop to loop, and nothing is kept that costs less to compute again than to read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.linalg import vector_norm

from trajdiag.models.batch import LayerWeights
from trajdiag.models.short_attention import ShortRows, attend, attend_back
from trajdiag.models.short_space import Kept, Normed, Scratch, Sizes, Spaces

_silu = torch.ops.aten.silu.out
_silu_back = torch.ops.aten.silu_backward.grad_input


@dataclass(frozen=True, kw_only=True, slots=True)
class _Layer:
    """A layer's weights, or their gradients; the norms before a linear map are part of it."""

    qkv: Tensor
    output: Tensor
    attention_norm: Tensor
    gate_up: Tensor
    down: Tensor
    mlp_norm: Tensor


_WEIGHTS = tuple(field.name for field in fields(_Layer))


def short_loops(
    x: Tensor,
    layers: Sequence[LayerWeights],
    last_norm: Tensor,
    rows: ShortRows,
    read_at: Tensor,
    spaces: Spaces,
    *,
    head_dim: int,
    loops: int,
    eps: float,
) -> Tensor:
    """The states after every loop at the tokens `read_at`, int64 [read]: [loop, read, d_model], of
    state 0, [token, d_model]."""
    weights = []
    for layer in layers:
        weights += [
            layer.qkv[0] * layer.attention_in_norm,
            layer.output,
            layer.attention_out_norm,
            layer.gate_up[0] * layer.mlp_in_norm,
            layer.down,
            layer.mlp_out_norm,
        ]
    sizes = Sizes(
        loops=loops,
        layers=len(layers),
        width=x.shape[1],
        inner=layers[0].down.shape[1],
        head_dim=head_dim,
        dtype=x.dtype,
    )
    return _ShortLoops.apply(  # pyright: ignore[reportReturnType]
        x, last_norm, rows, read_at, spaces, sizes, eps, *weights
    )


class _ShortLoops(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        last_norm: Tensor,
        rows: ShortRows,
        read_at: Tensor,
        spaces: Spaces,
        sizes: Sizes,
        eps: float,
        *weights: Tensor,
    ) -> Tensor:
        layers = _by_layer(weights)
        read = x.new_empty(sizes.loops, len(read_at), sizes.width)
        ctx.borrowed = spaces.borrow(rows, sizes)
        space = ctx.borrowed.space
        scratch, added = space.scratch, x.new_tensor(eps)
        stream = scratch.stream.copy_(x)
        for inside, last, of_loop in zip(space.kept, space.last, read, strict=True):
            for layer, kept in zip(layers, inside, strict=True):
                _forward(stream, layer, kept, scratch, rows, added)
            _norm(stream, last, added)
            torch.mul(last.value, last_norm, out=stream)
            torch.index_select(stream, 0, read_at, out=of_loop)
        ctx.save_for_backward(last_norm, *weights)
        ctx.rows, ctx.read_at = rows, read_at
        return read

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, above: Tensor
    ) -> tuple[Tensor | None, ...]:
        last_norm, *weights = ctx.saved_tensors
        layers = _by_layer(weights)[::-1]
        found = [torch.zeros_like(weight) for weight in weights]
        found_layers, found_last = _by_layer(found)[::-1], torch.zeros_like(last_norm)
        space = ctx.borrowed.space
        scratch = space.scratch
        grad, through = scratch.grad.zero_(), scratch.through
        for loop in reversed(range(len(above))):
            grad.index_add_(0, ctx.read_at, above[loop])
            _outer_norm_back(grad, space.last[loop], last_norm, found_last, scratch, through)
            grad, through = through, grad
            for layer, sums, kept in zip(
                layers, found_layers, reversed(space.kept[loop]), strict=True
            ):
                _backward(grad, through, layer, sums, kept, ctx.rows, scratch)
        return grad.clone(), found_last, None, None, None, None, None, *found


def _by_layer(weights: Sequence[Tensor]) -> list[_Layer]:
    return [
        _Layer(**dict(zip(_WEIGHTS, weights[at : at + len(_WEIGHTS)], strict=True)))
        for at in range(0, len(weights), len(_WEIGHTS))
    ]


def _norm(x: Tensor, normed: Normed, eps: Tensor) -> None:
    inverse = vector_norm(x, dim=-1, keepdim=True, out=normed.inverse)
    torch.addcmul(eps, inverse, inverse, value=1 / x.shape[-1], out=inverse)
    torch.mul(x, inverse.rsqrt_(), out=normed.value)


def _forward(
    x: Tensor, layer: _Layer, kept: Kept, scratch: Scratch, rows: ShortRows, eps: Tensor
) -> None:
    """Turn the stream `x` into that after the layer."""
    _norm(x, kept.attention_in, eps)
    torch.mm(kept.attention_in.value, layer.qkv.T, out=scratch.attention.qkv)
    attend(rows, kept.attention, scratch.attention)
    torch.mm(kept.attention.attended, layer.output.T, out=scratch.mapped)
    _norm(scratch.mapped, kept.attention_out, eps)
    x.addcmul_(kept.attention_out.value, layer.attention_norm)
    _norm(x, kept.mlp_in, eps)
    torch.mm(kept.mlp_in.value, layer.gate_up.T, out=kept.gate_up)
    _silu(kept.gate, out=scratch.active)
    torch.mm(scratch.active.mul_(kept.up), layer.down.T, out=scratch.mapped)
    _norm(scratch.mapped, kept.mlp_out, eps)
    x.addcmul_(kept.mlp_out.value, layer.mlp_norm)


def _backward(
    grad: Tensor,
    through: Tensor,
    layer: _Layer,
    sums: _Layer,
    kept: Kept,
    rows: ShortRows,
    scratch: Scratch,
) -> None:
    """Turn `grad`, that of the stream after the layer, into that of the stream before it."""
    _outer_norm_back(grad, kept.mlp_out, layer.mlp_norm, sums.mlp_norm, scratch, through)
    _swiglu_back(through, layer, sums, kept, scratch)
    _inner_back(
        grad, scratch.of_gate_up, kept.mlp_in, layer.gate_up, sums.gate_up, scratch, through
    )
    attention = scratch.attention
    _outer_norm_back(
        grad, kept.attention_out, layer.attention_norm, sums.attention_norm, scratch, through
    )
    sums.output.addmm_(through.T, kept.attention.attended)
    torch.mm(through, layer.output, out=attention.above)
    attend_back(rows, kept.attention, attention)
    _inner_back(grad, attention.qkv, kept.attention_in, layer.qkv, sums.qkv, scratch, through)


def _outer_norm_back(
    grad: Tensor, normed: Normed, weight: Tensor, sums: Tensor, scratch: Scratch, through: Tensor
) -> None:
    # With n = x / rms(x): dx = (g w - n mean(g w n)) / rms(x), dw = sum over tokens of g n.
    product = torch.mul(grad, normed.value, out=scratch.product)
    sums.addmv_(product.T, scratch.ones)
    torch.mv(product, weight, out=scratch.total_flat)
    torch.mul(grad, weight, out=through)
    through.addcmul_(normed.value, scratch.total, value=-1 / len(weight))
    through.mul_(normed.inverse)


def _inner_back(
    grad: Tensor,
    above: Tensor,
    normed: Normed,
    weight: Tensor,
    sums: Tensor,
    scratch: Scratch,
    through: Tensor,
) -> None:
    sums.addmm_(above.T, normed.value)
    torch.mm(above, weight, out=through)
    torch.mul(through, normed.value, out=scratch.product)
    torch.sum(scratch.product, -1, keepdim=True, out=scratch.total)
    through.addcmul_(normed.value, scratch.total, value=-1 / through.shape[-1])
    grad.addcmul_(through, normed.inverse)


def _swiglu_back(
    through: Tensor, layer: _Layer, sums: _Layer, kept: Kept, scratch: Scratch
) -> None:
    """Leave the gradient of gate and up in `scratch`, of that of what `down` gives."""
    above = torch.mm(through, layer.down, out=scratch.fed)
    active = _silu(kept.gate, out=scratch.active)
    torch.mul(active, above, out=scratch.of_up)
    sums.down.addmm_(through.T, active.mul_(kept.up))
    above.mul_(kept.up)
    _silu_back(above, kept.gate, grad_input=scratch.of_gate)
