import numpy as np
import pytest
import torch

from tests.models.random_ouro import as_model, random_decoder
from trajdiag.errors import ConfigError
from trajdiag.models.tracing import trace


@pytest.fixture(scope="module")
def model():
    return as_model(random_decoder())


def test_a_trace_has_every_loop_at_every_position(model):
    traced = trace(model, [[1, 2, 3], [4, 5, 6]])
    assert traced.hidden.shape == (2, 3, 3, 16)
    assert traced.logits.shape == (2, 3, 3, 13)
    assert traced.gate_logit is not None and traced.gate_logit.shape == (2, 3, 3)
    assert not traced.hidden.requires_grad


@pytest.mark.parametrize("loops", [1, 5])
def test_loops_may_be_fewer_or_more_than_the_model_was_trained_with(model, loops):
    assert trace(model, [1, 2, 3], loops=loops).hidden.shape == (1, 3, loops, 16)


def test_lists_arrays_and_tensors_of_any_whole_type_are_the_same(model):
    rows = [[1, 2, 3], [4, 5, 6]]
    expected = trace(model, torch.tensor(rows)).hidden
    for given in (rows, np.array(rows, dtype=np.int32), torch.tensor(rows, dtype=torch.uint8)):
        assert torch.equal(trace(model, given).hidden, expected)
    mask = np.ones((2, 3), dtype=bool)
    assert torch.equal(trace(model, rows, mask).hidden, expected)


def test_a_model_without_a_gate_traces_none():
    assert trace(as_model(random_decoder(gate="none")), [1, 2]).gate_logit is None


@pytest.mark.parametrize(
    ("ids", "options", "message"),
    [
        ([[1, 2], [3]], {}, "input_ids must be whole numbers"),
        ([[1.5, 2.0]], {}, "input_ids must be whole numbers"),
        ([[[1]]], {}, r"\[row, position\]"),
        ([], {}, "input_ids"),
        ([1, 99], {}, "run from 1 to 99"),
        ([1, 2], {"loops": 0}, "loops must be a whole number from 1 to 4096, not 0"),
        ([1, 2], {"attention_mask": [1]}, "shape of input_ids"),
        ([1, 2], {"attention_mask": [1, 3]}, "1 on real tokens and 0 on padding"),
        ([[1, 2], [3, 4]], {"attention_mask": [[1, 1], [0, 0]]}, "row 1 without a real token"),
    ],
)
def test_inputs_that_cannot_be_run_are_refused_in_one_line(model, ids, options, message):
    with pytest.raises(ConfigError, match=message) as refusal:
        trace(model, ids, **options)
    assert "\n" not in str(refusal.value)


def test_padding_on_a_side_that_the_model_does_not_honour_is_refused(model):
    one_sided = as_model(model.decoder)
    one_sided.padding = frozenset({"right"})
    trace(one_sided, [1, 2, 3], [1, 1, 0])
    with pytest.raises(ConfigError, match="does not honour left padding; pad on: right"):
        trace(one_sided, [1, 2, 3], [0, 1, 1])
