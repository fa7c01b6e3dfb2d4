"""The loops of short rows against the same maths under autograd, and against finite differences."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from tests.models.random_ouro import random_decoder
from trajdiag.models import decoder as decoder_module
from trajdiag.models.batch import LayerWeights
from trajdiag.models.fused import rms_norm, rotate, swiglu
from trajdiag.models.short_attention import short_rows
from trajdiag.models.short_loops import short_loops
from trajdiag.models.short_space import Spaces

HEADS, DIM, WIDTH, INNER, EPS = 2, 4, 6, 5, 0.1
GROUPS = {
    "several lengths": ((2, 3), (1, 4)),
    "one row": ((1, 3),),
    "single tokens": ((2, 1),),
}
SHAPES = {
    "qkv": (3 * HEADS * DIM, WIDTH),
    "output": (WIDTH, HEADS * DIM),
    "gate_up": (2 * INNER, WIDTH),
    "down": (WIDTH, INNER),
}
NORMS = ("attention_in_norm", "attention_out_norm", "mlp_in_norm", "mlp_out_norm")


def drawn(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


def inputs(groups: tuple[tuple[int, int], ...], layers: int) -> list[Tensor]:
    """State 0, the last norm, and every layer's maps and norms."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(sum(r * p for r, p in groups), WIDTH), (WIDTH,)]
    shapes += [*SHAPES.values(), *[(WIDTH,)] * len(NORMS)] * layers
    return [drawn(*shape, generator=generator) for shape in shapes]


def layer_weights(tensors: tuple[Tensor, ...]) -> list[LayerWeights]:
    names, found = [*SHAPES, *NORMS], []
    for at in range(0, len(tensors), len(names)):
        given = dict(zip(names, tensors[at : at + len(names)], strict=True))
        joined = {name: (given.pop(name),) for name in ("qkv", "gate_up")}
        found.append(LayerWeights(**joined, **given))
    return found


def angles(positions: int) -> Tensor:
    return torch.arange(positions)[:, None] * torch.tensor([1.0, 0.3], dtype=torch.float64)


def plain(
    x: Tensor,
    last_norm: Tensor,
    *weights: Tensor,
    groups: tuple[tuple[int, int], ...],
    read_at: Tensor,
    loops: int,
) -> Tensor:
    """Each row attended alone, each part with its own gradient."""
    lengths = [p for r, p in groups for _ in range(r)]
    read = []
    for _ in range(loops):
        for layer in layer_weights(weights):
            qkv = rms_norm(x, layer.attention_in_norm, EPS) @ layer.qkv[0].T
            attended = []
            for row in qkv.split(lengths):
                turn = torch.exp(1j * angles(len(row))).unsqueeze(1)
                turned = rotate(row.view(-1, 3 * HEADS, DIM), turn, 2 * HEADS)
                q, k, v = turned.transpose(0, 1).split(HEADS)
                out = scaled_dot_product_attention(q, k, v, is_causal=True)
                attended.append(out.transpose(0, 1).flatten(1))
            out = torch.cat(attended) @ layer.output.T
            x = rms_norm(out, layer.attention_out_norm, EPS, residual=x)
            fed = swiglu(rms_norm(x, layer.mlp_in_norm, EPS) @ layer.gate_up[0].T)
            x = rms_norm(fed @ layer.down.T, layer.mlp_out_norm, EPS, residual=x)
        x = rms_norm(x, last_norm, EPS)
        read.append(x[read_at])
    return torch.stack(read)


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS.keys())
@pytest.mark.parametrize(("layers", "loops"), [(1, 1), (1, 3), (2, 2)])
def test_states_and_gradients_are_those_of_autograd(groups, layers, loops):
    given = inputs(groups, layers)
    # tokens are left out, out of order and read twice
    read_at = torch.tensor([1, 0, 1])
    rows, spaces = short_rows(groups, angles(max(p for _, p in groups)), HEADS), Spaces()

    def short(x: Tensor, last_norm: Tensor, *weights: Tensor) -> Tensor:
        return short_loops(
            *(x, layer_weights(weights), last_norm, rows, read_at, spaces),
            head_dim=DIM,
            loops=loops,
            eps=EPS,
        )

    found = short(*given)
    expected = plain(*given, groups=groups, read_at=read_at, loops=loops)
    torch.testing.assert_close(found, expected)
    above = torch.randn(found.shape, generator=torch.Generator().manual_seed(1)).double()
    torch.testing.assert_close(
        torch.autograd.grad(found, given, above), torch.autograd.grad(expected, given, above)
    )
    assert torch.autograd.gradcheck(short, given, fast_mode=True)


def gradients(decoder: torch.nn.Module) -> list[Tensor]:
    found = [p.grad.clone() for p in decoder.parameters() if p.grad is not None]
    decoder.zero_grad()
    return found


@pytest.mark.parametrize("key_heads", [4, 2])
def test_what_is_read_does_not_know_which_path_it_took(key_heads, monkeypatch):
    decoder = random_decoder(num_key_value_heads=key_heads)
    generator = torch.Generator().manual_seed(0)
    groups = [torch.randint(0, 13, shape, generator=generator) for shape in ((3, 5), (1, 2))]
    read_at, taken = torch.tensor([4, 16, 9]), []
    monkeypatch.setattr(
        decoder_module, "short_loops", lambda *a, **k: taken.append(1) or short_loops(*a, **k)
    )
    read = decoder.read_packed(groups, read_at)
    assert len(taken) == (key_heads == 4)  # grouped heads are left to the plain path
    expected = torch.stack([hidden[read_at] for hidden in decoder.run_packed(groups).hidden])
    torch.testing.assert_close(read, expected, rtol=0, atol=2e-5)
    read.square().sum().backward()
    found = gradients(decoder)
    expected.square().sum().backward()
    torch.testing.assert_close(found, gradients(decoder), rtol=1e-3, atol=1e-3)
