import pytest
import torch
from torch import Tensor

from trajdiag.models.causal_attention import attend_row, attention_scratch


def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Straight from the definition, [position, head, head_dim] in float64."""
    q, k, v = q.double(), k.double(), v.double()
    result = torch.empty_like(q)
    for head in range(q.shape[1]):
        own = head * k.shape[1] // q.shape[1]
        for place in range(len(q)):
            scores = k[: place + 1, own] @ q[place, head] / q.shape[2] ** 0.5
            result[place, head] = scores.softmax(0) @ v[: place + 1, own]
    return result


@pytest.mark.parametrize("positions", [1, 127, 128, 129, 300])
@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 1e-2)]
)
def test_a_row_is_attended_as_defined(positions, key_heads, dtype, tolerance):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(positions, heads, 8, generator=generator).to(dtype)
        for heads in (4, key_heads, key_heads)
    )
    expected = attended(q, k, v)
    scratch = attention_scratch(300, 4, key_heads, 8, dtype)
    scratch.scores.fill_(torch.nan)  # Whatever was there before is not read.
    attend_row(q.flatten(1), k.flatten(1), v.flatten(1), 8, scratch)
    torch.testing.assert_close(q.double(), expected, rtol=tolerance, atol=tolerance)
