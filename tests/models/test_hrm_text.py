"""HRM-Text: what is read out, and the options that change its maths."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.models.tiny_native import opened, published_logits, tiny
from trajdiag.models.base import logits
from trajdiag.models.native_weights import quiet

IDS = torch.randint(0, 50, (2, 9), generator=torch.Generator().manual_seed(2))


def test_the_state_is_the_output_of_the_slow_stack(tmp_path: Path) -> None:
    tiny("hrm_text", tmp_path)
    with quiet():
        published = AutoModelForCausalLM.from_pretrained(tmp_path)
    outputs: list[torch.Tensor] = []
    published.model.H_module.register_forward_hook(lambda *call: outputs.append(call[-1]))
    with torch.inference_mode():
        published(IDS, attention_mask=torch.ones_like(IDS), use_cache=False)
    assert len(outputs) == 3
    model = opened("hrm_text", tmp_path)
    with torch.inference_mode():
        state = model.begin(IDS)
        for output in outputs:
            state = model.step(state)
            torch.testing.assert_close(model.hidden(state), output, rtol=0, atol=1e-6)
            assert torch.equal(model.head_input(state), model.hidden(state))


@pytest.mark.parametrize(
    "config",
    [
        {"L_cycles": 1},
        {"L_cycles": 4, "H_cycles": 1, "L_bp_cycles": [1]},
        {"embedding_scale": 0.5},
        {"tie_word_embeddings": True},
        {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"},
        {"prefix_lm": False},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 100.0, "factor": 3.0}},
    ],
    ids=lambda config: ",".join(config),
)
def test_options_give_what_transformers_gives(tmp_path: Path, config: dict[str, Any]) -> None:
    model = opened("hrm_text", tiny("hrm_text", tmp_path, **config))
    assert model.loops == config.get("H_cycles", 3)
    with torch.inference_mode():
        state = model.begin(IDS)
        for loop in (1, 2, 3, 4):
            state = model.step(state)
            if loop in (2, 4):
                expected = published_logits("hrm_text", tmp_path, loop, IDS)
                torch.testing.assert_close(logits(model, state), expected, rtol=0, atol=1e-6)


def test_later_tokens_are_not_seen(tmp_path: Path) -> None:
    """`prefix_lm` is its default, and would let a prompt's tokens see each other."""
    model = opened("hrm_text", tiny("hrm_text", tmp_path, prefix_lm=True))
    other = IDS.clone()
    other[:, -1] = 0
    with torch.inference_mode():
        found, expected = (model.step(model.begin(ids)) for ids in (IDS, other))
    assert torch.equal(model.hidden(found)[:, :-1], model.hidden(expected)[:, :-1])
    assert not torch.equal(model.hidden(found)[:, -1], model.hidden(expected)[:, -1])
