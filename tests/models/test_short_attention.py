"""Attention of short rows against torch's own, and its gradient against finite differences."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from trajdiag.models.fused import rotate
from trajdiag.models.short_attention import attend_short, short_rows, suits

HEADS, DIM = 3, 4
GROUPS = {
    "one length": ((3, 5),),
    "several lengths": ((2, 3), (1, 6), (4, 2)),
    "a single token": ((2, 1), (1, 1)),
}


def drawn(groups: tuple[tuple[int, int], ...]) -> tuple[Tensor, Tensor]:
    """Queries, keys and values of all tokens; angles by position."""
    generator = torch.Generator().manual_seed(0)
    tokens, longest = sum(r * p for r, p in groups), max(p for _, p in groups)
    qkv = torch.randn(tokens, 3 * HEADS * DIM, generator=generator, dtype=torch.float64)
    return qkv.requires_grad_(), torch.rand(longest, DIM // 2, generator=generator).double()


def row_by_row(qkv: Tensor, angles: Tensor, groups: tuple[tuple[int, int], ...]) -> Tensor:
    """Each row rotated and attended alone, by torch's kernel."""
    found, begin = [], 0
    for positions in [p for r, p in groups for _ in range(r)]:
        row = qkv[begin : begin + positions].view(positions, 3 * HEADS, DIM)
        turn = torch.exp(1j * angles[:positions]).unsqueeze(1)
        q, k, v = rotate(row, turn, 2 * HEADS).transpose(0, 1).split(HEADS)
        attended = scaled_dot_product_attention(q, k, v, is_causal=True)
        found.append(attended.transpose(0, 1).reshape(positions, -1))
        begin += positions
    return torch.cat(found)


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS.keys())
def test_every_row_is_attended_as_it_is_alone(groups):
    qkv, angles = drawn(groups)
    attended = attend_short(qkv, short_rows(groups, angles, HEADS), DIM)
    torch.testing.assert_close(attended, row_by_row(qkv, angles, groups))


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS.keys())
def test_the_gradient_is_that_of_finite_differences(groups):
    qkv, angles = drawn(groups)
    rows = short_rows(groups, angles, HEADS)
    assert torch.autograd.gradcheck(lambda x: attend_short(x, rows, DIM), (qkv,))


def test_a_token_s_result_does_not_know_later_tokens_or_other_rows():
    groups = GROUPS["several lengths"]
    qkv, angles = drawn(groups)
    rows = short_rows(groups, angles, HEADS)
    other = qkv.detach().clone()
    other[5] += 1  # the last token of the second row of three
    changed = (attend_short(qkv, rows, DIM) != attend_short(other, rows, DIM)).any(1)
    assert changed.nonzero().flatten().tolist() == [5]


def test_only_short_rows_on_the_cpu_are_taken():
    assert suits(((9, 12), (1, 24)), torch.device("cpu"))
    assert not suits(((9, 12), (1, 25)), torch.device("cpu"))
    assert not suits(((9, 12),), torch.device("cuda"))
