"""Dory: what is read out, and the layouts that its configuration allows."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.models.tiny_native import opened, published_logits, tiny
from trajdiag.errors import CheckpointError
from trajdiag.models.base import logits
from trajdiag.models.native_weights import quiet

IDS = torch.randint(0, 50, (2, 13), generator=torch.Generator().manual_seed(2))


def test_the_state_is_the_output_of_the_last_recurrent_layer(tmp_path: Path) -> None:
    tiny("dory", tmp_path)
    with quiet():
        published = AutoModelForCausalLM.from_pretrained(tmp_path)
    outputs: list[torch.Tensor] = []
    published.model.layers[2].register_forward_hook(lambda *call: outputs.append(call[-1]))
    with torch.inference_mode():
        published(IDS, attention_mask=torch.ones_like(IDS), use_cache=False)
    assert len(outputs) == 3
    model = opened("dory", tmp_path)
    with torch.inference_mode():
        state = model.begin(IDS)
        for output in outputs:
            state = model.step(state)
            torch.testing.assert_close(model.hidden(state), output, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "config",
    [
        {"n_input_layers": 0, "n_output_layers": 0},
        {"n_input_layers": 2, "n_output_layers": 0},
        {"n_input_layers": 0, "n_output_layers": 3},
        {"layer_types": ["full_attention"] * 4},
        {"layer_types": ["sliding_attention"] * 4, "sliding_window": 1},
        {"sliding_window": 100},
        {"tie_word_embeddings": True},
        {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"},
        {"recurrent_kv_cache_mode": "last_loop"},
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            }
        },
    ],
    ids=lambda config: ",".join(config),
)
def test_layouts_give_what_transformers_gives(tmp_path: Path, config: dict[str, Any]) -> None:
    model = opened("dory", tiny("dory", tmp_path, **config))
    with torch.inference_mode():
        state = model.begin(IDS)
        for loop in (1, 2, 3, 4):
            state = model.step(state)
            if loop in (2, 4):
                expected = published_logits("dory", tmp_path, loop, IDS)
                torch.testing.assert_close(logits(model, state), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("rope", "kind"),
    [
        ({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}, "dynamic"),
        (
            {
                "rope_type": "longrope",
                "rope_theta": 1e4,
                "short_factor": [1.0] * 4,
                "long_factor": [2.0] * 4,
                "original_max_position_embeddings": 32,
            },
            "longrope",
        ),
    ],
)
def test_angles_that_depend_on_the_batch_are_refused(
    tmp_path: Path, rope: dict[str, Any], kind: str
) -> None:
    both = {"full_attention": rope, "sliding_attention": {"rope_type": "default"}}
    tiny("dory", tmp_path)
    change_config(tmp_path, rope_parameters=both)
    with pytest.raises(CheckpointError, match=f"rope_parameters of type '{kind}'"):
        opened("dory", tmp_path)


def test_other_kinds_of_layers_are_refused(tmp_path: Path) -> None:
    tiny("dory", tmp_path)
    layers = ["chunked_attention", "mlp", *["full_attention", "mlp"] * 3]
    change_config(tmp_path, layer_types=layers)
    with pytest.raises(CheckpointError, match="chunked_attention"):
        opened("dory", tmp_path)


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
