"""Attention of short rows, and its gradient, against torch's own of every row alone."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from trajdiag.models.fused import rotate
from trajdiag.models.short_attention import (
    AttentionScratch,
    KeptAttention,
    ShortRows,
    attend,
    attend_back,
    short_rows,
    suits,
)

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


def attended(qkv: Tensor, rows: ShortRows) -> tuple[KeptAttention, AttentionScratch]:
    """What `attend` keeps and works in, of memory that held no zeros."""

    def take(*shape: int) -> Tensor:
        return torch.full(shape, torch.nan, dtype=torch.float64)

    kept = KeptAttention.of(rows, DIM, take)
    scratch = AttentionScratch.of(rows, DIM, take)
    scratch.qkv.copy_(qkv.detach())
    attend(rows, kept, scratch)
    return kept, scratch


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
    kept, _ = attended(qkv, short_rows(groups, angles, HEADS))
    torch.testing.assert_close(kept.attended, row_by_row(qkv, angles, groups))


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS.keys())
def test_the_gradient_is_that_of_rows_attended_alone(groups):
    qkv, angles = drawn(groups)
    rows = short_rows(groups, angles, HEADS)
    kept, scratch = attended(qkv, rows)
    above = torch.randn(kept.attended.shape, generator=torch.Generator().manual_seed(1)).double()
    (expected,) = torch.autograd.grad(row_by_row(qkv, angles, groups), qkv, above)
    scratch.above.copy_(above)
    attend_back(rows, kept, scratch)
    torch.testing.assert_close(scratch.qkv, expected)


def test_a_token_s_result_does_not_know_later_tokens_or_other_rows():
    groups = GROUPS["several lengths"]
    qkv, angles = drawn(groups)
    rows = short_rows(groups, angles, HEADS)
    other = qkv.detach().clone()
    other[5] += 1  # the last token of the second row of three
    changed = (attended(qkv, rows)[0].attended != attended(other, rows)[0].attended).any(1)
    assert changed.nonzero().flatten().tolist() == [5]


def test_only_short_rows_on_the_cpu_are_taken():
    assert suits(((9, 12), (1, 24)), torch.device("cpu"))
    assert not suits(((9, 12), (1, 25)), torch.device("cpu"))
    assert not suits(((9, 12),), torch.device("cuda"))
