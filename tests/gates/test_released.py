"""The released exit rule: as Ouro's own code computes it, rounding included."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from trajdiag.gates.released import released_cdf, released_dtype, released_threshold

REFERENCE = Path(__file__).parents[1] / "models" / "reference" / "ouro-tiny"


def test_the_distribution_is_that_of_the_published_code():
    expected = load_file(REFERENCE / "expected.safetensors")
    real = expected["attention_mask"].bool()
    cdf = released_cdf(expected["gate_logit"][real], torch.float32)
    torch.testing.assert_close(cdf, expected["exit_pdf"][real].cumsum(-1), rtol=0, atol=1e-6)


def by_hand(logits: list[float], dtype: torch.dtype) -> list[float]:
    """The rule once more, number by number, each rounded to `dtype`."""

    def rounded(x: float) -> float:
        return float(torch.tensor(x, dtype=torch.float64).to(dtype))

    left, total, found = 1.0, 0.0, []
    for logit in logits[:-1]:
        hazard = rounded(1 / (1 + np.exp(-rounded(logit))))
        total += rounded(hazard * left)
        found.append(rounded(total))
        left = rounded(left * rounded(1 - hazard))
    return [*found, rounded(total + left)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_every_step_rounds_to_the_checkpoints_dtype(dtype):
    logits = torch.randn(200, 5, generator=torch.Generator().manual_seed(0)) * 4
    expected = torch.tensor([by_hand(row.tolist(), dtype) for row in logits])
    found = released_cdf(logits, dtype).float()
    assert (found - expected).abs().max() <= (1e-6 if dtype == torch.float32 else 2**-8)


def test_in_bfloat16_a_logit_of_6_25_is_certainty():
    logits = torch.tensor([[6.25, 0.0, 0.0], [6.0, 0.0, 0.0]])
    assert (released_cdf(logits, torch.bfloat16)[:, 0] == 1).tolist() == [True, False]
    assert (released_cdf(logits, torch.float32)[:, 0] < 1).all()


def test_dtype_and_threshold_are_the_checkpoints():
    assert released_dtype({"torch_dtype": "bfloat16"}, "float32") == torch.bfloat16
    assert released_dtype({"dtype": "torch.float16"}, "float32") == torch.float16
    assert released_dtype({}, "bfloat16") == torch.bfloat16
    assert released_dtype({"dtype": "nonsense"}, "float32") == torch.float32
    assert released_threshold({}) == 1.0
    assert released_threshold({"early_exit_threshold": 0.8}) == 0.8


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_sum_is_the_same_bit_for_bit_whatever_else_is_computed_with_it(dtype):
    logits = 4 * torch.randn(101, 5, generator=torch.Generator().manual_seed(0))
    whole = released_cdf(logits, dtype)
    assert torch.equal(torch.cat([released_cdf(x, dtype) for x in logits.split(3)]), whole)
