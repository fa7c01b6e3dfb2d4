"""Inkling 2 Loop, text: what is read out, and the layouts that its configuration allows."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.models.tiny_native import opened, published_logits, tiny
from trajdiag.errors import CheckpointError, ConfigError
from trajdiag.models.base import logits
from trajdiag.models.native_weights import quiet

FAMILY = "inkling2_loop_text"
IDS = torch.randint(0, 50, (2, 13), generator=torch.Generator().manual_seed(2))


def test_the_state_is_the_output_of_the_last_loop_layer(tmp_path: Path) -> None:
    tiny(FAMILY, tmp_path)
    with quiet():
        published = AutoModelForCausalLM.from_pretrained(tmp_path)
    outputs: list[torch.Tensor] = []
    published.model.layers[5].register_forward_hook(lambda *call: outputs.append(call[-1]))
    with torch.inference_mode(), quiet():
        published(IDS, attention_mask=torch.ones_like(IDS), use_cache=False)
    assert len(outputs) == 3
    model = opened(FAMILY, tmp_path)
    with torch.inference_mode():
        state = model.begin(IDS)
        for output in outputs:
            state = model.step(state)
            torch.testing.assert_close(model.hidden(state), output, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "config",
    [
        {"loop_layer_index_end": 8},
        {"loop_layer_index_end": 4},
        {"loop_layer_index_start": 4, "loop_layer_index_end": 6},
        {"n_layers_per_attn_res_block": 1},
        {"layer_types": ["hybrid"] * 8},
        {"layer_types": ["hybrid_sliding"] * 8, "sliding_window_size": 1},
        {"sliding_window_size": 100, "rel_extent": 100},
        {"conv_kernel_size": 2, "final_logit_softcapping": 3.0},
        {"loop_num_passes": 1},
    ],
    ids=lambda config: ",".join(config),
)
def test_layouts_give_what_transformers_gives(tmp_path: Path, config: dict[str, Any]) -> None:
    model = opened(FAMILY, tiny(FAMILY, tmp_path, **config))
    assert model.loops == config.get("loop_num_passes", 3)
    with torch.inference_mode():
        state = model.begin(IDS)
        for loop in (1, 2, 3, 4):
            state = model.step(state)
            if loop in (1, 2, 4):
                expected = published_logits(FAMILY, tmp_path, loop, IDS)
                torch.testing.assert_close(logits(model, state), expected, rtol=0, atol=1e-5)


def test_reading_a_state_leaves_it_as_it_is(tmp_path: Path) -> None:
    model = opened(FAMILY, tiny(FAMILY, tmp_path))
    with torch.inference_mode():
        state = model.step(model.begin(IDS))
        first = logits(model, state)
        assert torch.equal(logits(model, state), first)
        once, again = model.step(state), model.step(state)
        assert torch.equal(logits(model, once), logits(model, again))


def test_the_vocabulary_is_that_of_the_head(tmp_path: Path) -> None:
    """The embedding is padded to `vocab_size`, whose last tokens nothing can produce."""
    model = opened(FAMILY, tiny(FAMILY, tmp_path, vocab_size=64, unpadded_vocab_size=50))
    assert model.vocab_size == 50
    with pytest.raises(ConfigError, match="vocabulary of 50"):
        model.begin(torch.tensor([[63]]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layer_types": ["sliding_attention"] * 8}, "layer_types with sliding_attention"),
        ({"loop_layer_index_end": 10}, "loop_layer_index_end = 10 must enclose"),
        ({"num_experts_per_tok": 5}, "num_experts_per_tok must be a whole number from 1 to 4"),
        ({"loop_layer_index_end": 2}, "loop_layer_index_end = 2 must enclose"),
    ],
)
def test_layouts_that_it_cannot_step_are_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    path = tiny(FAMILY, tmp_path) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(CheckpointError, match=said):
        opened(FAMILY, tmp_path)
