"""Each written-out gradient against finite differences and a plain composition."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from trajdiag.models.fused import rms_norm, rotate, swiglu


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


def plain_rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return weight * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


@pytest.mark.parametrize("residual", [None, draw(5, 6, seed=3)], ids=["alone", "residual"])
def test_rms_norm_and_its_gradients(residual):
    x, weight = draw(5, 6, seed=1), draw(6, seed=2)
    expected = plain_rms_norm(x, weight, 0.1) + (0 if residual is None else residual)
    torch.testing.assert_close(rms_norm(x, weight, 0.1, residual), expected)
    inputs = (x, weight) if residual is None else (x, weight, residual)
    assert torch.autograd.gradcheck(lambda x, w, *r: rms_norm(x, w, 0.1, *r), inputs)


def test_rms_norm_of_bfloat16_rounds_before_the_weight():
    x, weight = draw(4, 8).detach().bfloat16(), draw(8, seed=1).detach().bfloat16()
    wide = x.float()
    rounded = (wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()).bfloat16()
    assert torch.equal(rms_norm(x, weight, 1e-6), rounded * weight)


def test_swiglu_and_its_gradient():
    x = draw(5, 8)
    torch.testing.assert_close(swiglu(x), silu(x[:, :4]) * x[:, 4:])
    assert torch.autograd.gradcheck(swiglu, (x,))


def test_rotation_by_halves_turns_each_pair_and_leaves_the_other_heads():
    x, angle = draw(3, 2, 4), draw(3, 1, 2, seed=1).detach()
    turned = rotate(x, torch.stack([angle.cos(), angle.sin()]), 1)
    pairs = torch.complex(x[:, :1, :2], x[:, :1, 2:]) * torch.exp(1j * angle)
    torch.testing.assert_close(turned[:, :1], torch.cat([pairs.real, pairs.imag], dim=-1))
    assert torch.equal(turned[:, 1], x[:, 1])


def test_rotation_of_neighbours_is_the_rotation_of_halves_reordered():
    x, angle = draw(3, 2, 6), draw(3, 1, 3, seed=1).detach()
    halves = rotate(x, torch.stack([angle.cos(), angle.sin()]), 2)
    reordered = x.unflatten(-1, (2, 3)).transpose(-1, -2).flatten(-2)
    neighbours = rotate(reordered, torch.exp(1j * angle), 2)
    torch.testing.assert_close(
        neighbours.unflatten(-1, (3, 2)).transpose(-1, -2).flatten(-2), halves
    )


@pytest.mark.parametrize("form", ["complex", "real"])
def test_rotation_gradients(form):
    x, angle = draw(3, 3, 4), draw(3, 1, 2, seed=1).detach()
    turn = torch.exp(1j * angle) if form == "complex" else torch.stack([angle.cos(), angle.sin()])
    assert torch.autograd.gradcheck(lambda x: rotate(x, turn, 2), (x,))
