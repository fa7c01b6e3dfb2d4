"""A model's answers are checked before they are believed."""

import pytest
import torch

from tests.looped import Spiral
from trajdiag.errors import ConfigError
from trajdiag.models.checked import Checked

IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])
AT = torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1])


def test_right_answers_pass_unchanged():
    plain, checked = Spiral(), Checked(Spiral())
    state = checked.step(checked.begin(IDS))
    assert torch.equal(checked.hidden(state, AT), plain.hidden(state, AT))
    assert torch.equal(checked.hidden(state), plain.hidden(state))
    inputs = checked.head_input(state, AT)
    assert torch.equal(checked.head(inputs), plain.head(inputs))
    assert torch.equal(checked.gate_logit(state, AT), plain.gate_logit(state, AT))
    assert Checked(Spiral(gate=False)).gate_logit(state, AT) is None


@pytest.mark.parametrize(
    ("method", "answer", "message"),
    [
        (
            "hidden",
            torch.zeros(3, 7),
            r"hidden\(\) .* float32 tensor \[3, 8\], not float32 \[3, 7\]",
        ),
        ("hidden", torch.zeros(3, 8, dtype=torch.float64), r"hidden\(\) .*, not float64 \[3, 8\]"),
        ("hidden", torch.zeros(2, 3, 8), r"hidden\(\) .* \[3, 8\], not float32 \[2, 3, 8\]"),
        ("hidden", [[0.0]], r"hidden\(\) of model spiral must give a float32 .*, not list"),
        ("head_input", torch.zeros(2, 8), r"head_input\(\) .* floating-point tensor \[3, any\]"),
        (
            "head",
            torch.zeros(3, 10),
            r"head\(\) .* float32 tensor \[3, 11\], not float32 \[3, 10\]",
        ),
        ("head", torch.zeros(3, 11).bfloat16(), r"head\(\) .* not bfloat16 \[3, 11\]"),
        ("gate_logit", torch.zeros(3, 1), r"gate_logit\(\) .* floating-point tensor \[3\], not"),
        ("gate_logit", None, r"gate_logit\(\) .* tensor \[3\], not NoneType"),
    ],
)
def test_answers_of_another_shape_or_dtype_are_refused(monkeypatch, method, answer, message):
    model = Spiral()
    monkeypatch.setattr(model, method, lambda *_: answer)
    checked = Checked(model)
    state = checked.step(checked.begin(IDS))
    with pytest.raises(ConfigError, match=message):
        getattr(checked, method)(*((state, AT) if method != "head" else (torch.zeros(3, 8),)))


@pytest.mark.parametrize("method", ["begin", "step"])
def test_what_its_code_raises_is_one_line_that_says_where(monkeypatch, method):
    def broken(*_):
        raise ValueError("no such\nthing")

    model = Spiral()
    state = model.begin(IDS)
    monkeypatch.setattr(model, method, broken)
    with pytest.raises(ConfigError, match=rf"{method}\(\) of model spiral failed: .*test_checked"):
        Checked(model).begin(IDS) if method == "begin" else Checked(model).step(state)


def test_running_out_of_memory_is_left_to_who_can_help(monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    model = Spiral()
    monkeypatch.setattr(model, "step", full)
    with pytest.raises(torch.OutOfMemoryError):
        Checked(model).step(None)
