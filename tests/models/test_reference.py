"""A small random Ouro and its outputs, both written by the model's own published code."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from trajdiag.gates.halting import log_exit_pdf
from trajdiag.models.registry import load_model
from trajdiag.models.tracing import trace

REFERENCE = Path(__file__).parent / "reference" / "ouro-tiny"


@pytest.fixture(scope="module")
def expected():
    return load_file(REFERENCE / "expected.safetensors")


@pytest.fixture(scope="module")
def traced(expected):
    model = load_model(REFERENCE, device="cpu")
    return trace(model, expected["input_ids"], expected["attention_mask"])


@pytest.mark.parametrize("output", ["hidden", "logits", "gate_logit"])
def test_every_loop_agrees_with_the_published_code(expected, traced, output):
    real = expected["attention_mask"].bool()
    got, wanted = getattr(traced, output)[real], expected[output][real]
    assert got.shape == wanted.shape
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-5)


def test_the_exit_distribution_agrees_with_the_published_code(expected, traced):
    real = expected["attention_mask"].bool()
    got = log_exit_pdf(traced.gate_logit).exp()
    torch.testing.assert_close(got[real], expected["exit_pdf"][real], rtol=0, atol=1e-5)


def test_positions_counted_from_the_mask_are_the_published_ones(expected):
    model = load_model(REFERENCE, device="cpu")
    mask = expected["attention_mask"]
    with torch.no_grad():
        counted = model.step(model.begin(expected["input_ids"], mask))
        given = model.step(model.begin(expected["input_ids"], mask, expected["position_ids"]))
    assert torch.equal(model.hidden(counted), model.hidden(given))


def test_bfloat16_stays_near_float32(expected):
    model = load_model(REFERENCE, device="cpu", dtype="bfloat16")
    traced = trace(model, expected["input_ids"], expected["attention_mask"])
    assert traced.hidden.dtype == torch.bfloat16
    assert traced.logits.dtype == torch.float32
    assert traced.gate_logit is not None and traced.gate_logit.dtype == torch.float32
    real = expected["attention_mask"].bool()
    error = (traced.hidden.float() - expected["hidden"])[real].norm() / expected["hidden"].norm()
    assert error < 0.03


def test_bfloat16_logits_are_a_float32_head_on_the_bfloat16_states(expected):
    model = load_model(REFERENCE, device="cpu", dtype="bfloat16")
    traced = trace(model, expected["input_ids"], expected["attention_mask"])
    head = load_file(REFERENCE / "model.safetensors")["lm_head.weight"].bfloat16().double()
    by_hand = traced.hidden.double() @ head.T
    torch.testing.assert_close(traced.logits.double(), by_hand, rtol=0, atol=1e-5)
