"""The block's elementwise parts with their gradients written out.

At the small widths of synthetic models autograd's many short operations cost as much as the matrix
products; each function here is a handful of passes forward and backward. Tokens are the first axis.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.linalg import vector_norm
from torch.nn.functional import silu


def rms_norm(x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None) -> Tensor:
    """`weight` * x / rms(x), plus `residual`: [token, d_model], in x's dtype (or the residual's).

    Normalises in float32 and casts back before the weight is multiplied, as Ouro does.
    """
    return _RmsNorm.apply(x, weight, eps, residual)  # pyright: ignore[reportReturnType]


def swiglu(gate_up: Tensor) -> Tensor:
    """silu(gate) * up of `gate_up` [token, 2 x feed_forward], gate first: [token, feed_forward]."""
    return _SwiGlu.apply(gate_up)  # pyright: ignore[reportReturnType]


def rotate(heads: Tensor, turn: Tensor, rotated: int) -> Tensor:
    """`heads` [token, head, head_dim], the first `rotated` turned by their positions' angles.

    `turn` is either complex [token, 1, head_dim / 2], exp(i angle), and dimension 2i pairs with
    2i + 1; or real [2, token, 1, head_dim / 2], cosines and sines, and dimension i pairs with
    i + head_dim / 2. (Rotary embeddings, arXiv 2104.09864.)
    """
    return _Rotate.apply(heads, turn, rotated)  # pyright: ignore[reportReturnType]


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float, residual: Tensor | None) -> Tensor:
        wide = _wide(x)
        if ctx.needs_input_grad[0]:
            # One pass less; without gradients states keep the last bits that stores hold.
            square = vector_norm(wide, dim=-1, keepdim=True).square_().mul_(1 / x.shape[-1])
        else:
            square = wide.square().mean(-1, keepdim=True)
        inverse = square.add_(eps).rsqrt_()
        normed = (wide * inverse).to(x.dtype)
        ctx.save_for_backward(normed, inverse, weight)
        ctx.has_residual = residual is not None
        if residual is None:
            return normed * weight
        if residual.dtype == normed.dtype == weight.dtype:
            return torch.addcmul(residual, normed, weight)
        return residual + normed * weight

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor, Tensor, None, Tensor | None]:
        # With n = x / rms(x): dx = (g w - n mean(g w n)) / rms(x), dw = sum over tokens of g n.
        normed, inverse, weight = ctx.saved_tensors
        wide, scale = _wide(grad), _wide(weight)
        product = wide * normed
        total = torch.mv(product, scale).unsqueeze(-1)
        grad_x = (wide * scale).addcmul_(_wide(normed), total, value=-1 / normed.shape[-1])
        grad_x.mul_(inverse)
        grad_weight = product.sum(0).to(weight.dtype)
        return grad_x.to(normed.dtype), grad_weight, None, grad if ctx.has_residual else None


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


class _SwiGlu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        ctx.save_for_backward(gate_up)
        gate, up = gate_up.chunk(2, -1)
        return silu(gate).mul_(up)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor
    ) -> Tensor:
        (gate_up,) = ctx.saved_tensors
        gate, up = gate_up.chunk(2, -1)
        grad_gate_up = torch.empty_like(gate_up)
        grad_gate, grad_up = grad_gate_up.chunk(2, -1)
        if gate.dtype in (torch.float32, torch.float64):
            # With s = sigmoid(g): d silu(g) / dg = s - s silu(g) + silu(g). In place, since what
            # leaves the cache costs more than the arithmetic.
            torch.sigmoid(gate, out=grad_gate)
            torch.mul(gate, grad_gate, out=grad_up)
            grad_gate.addcmul_(grad_gate, grad_up, value=-1).add_(grad_up).mul_(up).mul_(grad)
            grad_up.mul_(grad)
        else:
            torch.ops.aten.silu_backward.grad_input(grad * up, gate, grad_input=grad_gate)
            torch.mul(grad, silu(gate), out=grad_up)
        return grad_gate_up


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, heads: Tensor, turn: Tensor, rotated: int) -> Tensor:
        ctx.save_for_backward(turn)
        ctx.rotated = rotated
        return _turned(heads, turn, rotated, back=False)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor, None, None]:
        (turn,) = ctx.saved_tensors
        return _turned(grad, turn, ctx.rotated, back=True), None, None


def _turned(heads: Tensor, turn: Tensor, rotated: int, back: bool) -> Tensor:
    result = torch.empty_like(heads)
    result[:, rotated:] = heads[:, rotated:]
    source, target = heads[:, :rotated], result[:, :rotated]
    if turn.is_complex():
        factor = turn.conj().resolve_conj() if back else turn
        torch.mul(_as_complex(source), factor, out=_as_complex(target))
        return result
    turn_halves(source, target, turn[0], turn[1], back)
    return result


def turn_halves(
    source: Tensor, target: Tensor, cos: Tensor, sin: Tensor, back: bool = False
) -> None:
    """Put into `target` the rotation of `source`, both [token, head, head_dim], dimension i paired
    with i + head_dim / 2, by the angles (or their opposites) of cosines and sines [token, 1,
    head_dim / 2]."""
    (first, second), (to_first, to_second) = source.chunk(2, -1), target.chunk(2, -1)
    torch.mul(first, cos, out=to_first).addcmul_(second, sin, value=1 if back else -1)
    torch.mul(second, cos, out=to_second).addcmul_(first, sin, value=-1 if back else 1)


def _as_complex(pairs: Tensor) -> Tensor:
    return torch.view_as_complex(pairs.unflatten(-1, (-1, 2)))
