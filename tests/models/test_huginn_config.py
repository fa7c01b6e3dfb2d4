import json
from pathlib import Path
from typing import Any

import pytest

from tests.models.random_huginn import SIZES
from trajdiag.errors import CheckpointError, ConfigError
from trajdiag.models.huginn_config import HuginnConfig

REFERENCE = Path(__file__).parent / "reference" / "huginn-tiny"
RELEASED: dict[str, Any] = {
    "architecture_class_name": "RecurrentGPT",
    "bias": False,
    "block_class_name": "SandwichBlock",
    "block_size": 4096,
    "head_dim": 96,
    "init_values": {"std": 0.008703882797784892, "embed_scale": 72.66360849833398},
    "injection_type": "linear",
    "intermediate_size": 17920,
    "mean_recurrence": 32,
    "mlp_class_name": "GatedMLP",
    "model_type": "huginn_raven",
    "n_embd": 5280,
    "n_heads": 55,
    "n_layers": 8,
    "n_layers_in_coda": 2,
    "n_layers_in_prelude": 2,
    "n_layers_in_recurrent_block": 4,
    "nonlin_name": "SiLU",
    "norm_class_name": "RMSNorm_llama",
    "norm_eps": 1e-6,
    "num_key_value_heads": 55,
    "padded_vocab_size": 65536,
    "qk_bias": True,
    "rope_base": 50000,
    "state_init": "like-init",
    "test_time_noise": 0,
    "test_time_noise_type": "fixed",
    "tie_embeddings": True,
    "torch_dtype": "bfloat16",
    "vocab_size": 65536,
}


def test_the_released_configuration_is_read():
    assert HuginnConfig.from_json(RELEASED) == HuginnConfig(
        vocab_size=65536,
        n_embd=5280,
        n_heads=55,
        intermediate_size=17920,
        n_layers_in_prelude=2,
        n_layers_in_recurrent_block=4,
        n_layers_in_coda=2,
        mean_recurrence=32,
        block_size=4096,
        rope_base=50000,
        norm_eps=1e-6,
        qk_bias=True,
        bias=False,
        tie_embeddings=True,
        dtype="bfloat16",
    )


def test_what_is_left_out_is_what_was_released():
    needed = {key: value for key, value in RELEASED.items() if key in SIZES or key == "n_embd"}
    needed |= {"mean_recurrence": None, "block_size": None}
    config = HuginnConfig.from_json(needed | {"torch_dtype": "bfloat16"})
    assert config == HuginnConfig.from_json(RELEASED)
    assert HuginnConfig.from_json(needed).dtype is None


def test_the_reference_configuration_is_read():
    config = HuginnConfig.from_json(json.loads((REFERENCE / "config.json").read_text()))
    assert (config.n_embd, config.head_dim, config.mean_recurrence) == (40, 10, 6)
    assert config.dtype == "float32"


def test_a_configuration_survives_a_round_trip():
    config = HuginnConfig(**SIZES, bias=True, qk_bias=False, tie_embeddings=False, rope_base=7.0)
    assert HuginnConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    "names",
    [
        {"hidden_size": 5280, "n_embd": None},
        {"num_attention_heads": 55, "n_heads": None},
        {"rope_theta": 50000, "rope_base": None},
        {"rope_parameters": {"rope_theta": 50000, "rope_type": "default"}, "rope_base": None},
        {"rope_scaling": None, "tie_word_embeddings": True},
        {"max_position_embeddings": 4096, "num_hidden_layers": 8},
        {"rope_parameters": {"full_attention": {"rope_theta": 50000}}},
    ],
)
def test_the_names_that_transformers_uses_are_understood(names):
    assert HuginnConfig.from_json(RELEASED | names) == HuginnConfig.from_json(RELEASED)


UNSUPPORTED: list[dict[str, Any]] = [
    {"architecture_class_name": "OtherGPT"},
    {"attention_bias": True},
    {"attn_logit_softcapping": 30.0},
    {"block_class_name": "TransformerPreNormBlock"},
    {"embedding_multiplier": 2.0},
    {"final_logit_softcapping": 30.0},
    {"head_dim": 64},
    {"hidden_act": "gelu"},
    {"hidden_size": 4096},
    {"init_values": {"std": 0.0087, "embed_scale": 1.0}},
    {"init_values": {"std": 0.02}},
    {"init_values": 3},
    {"injection_type": "add"},
    {"logit_scale": 0.5},
    {"logits_scaling": 8.0},
    {"mlp_bias": True},
    {"mlp_class_name": "BaseMLP"},
    {"nonlin_name": "GELU"},
    {"norm_class_name": "LayerNorm"},
    {"num_attention_heads": 32},
    {"num_key_value_heads": 5},
    {"partial_rotary_factor": 0.5},
    {"qk_norm": True},
    {"quantization_config": {"bits": 4}},
    {"residual_multiplier": 0.2},
    {"rope_condense_ratio": 2},
    {"rope_parameters": {"rope_type": "llama3", "rope_theta": 50000}},
    {"rope_parameters": {"rope_theta": 10000}, "rope_theta": 50000},
    {"rope_parameters": "yarn"},
    {"rope_scaling": {"type": "linear", "factor": 2.0}},
    {"rope_theta": 10000},
    {"sliding_window": 128},
    {"state_init": "normal"},
    {"test_time_noise": 0.1},
    {"tie_word_embeddings": False},
    {"layer_types": ["full_attention", "sliding_attention"] * 4},
    {"layer_types": ["full_attention"]},
    {"rope_scaling": {"factor": 2.0}},
    {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
    {"rope_interleaved": False},
    {"is_causal": False},
    {"clip_qkv": 8},
    {"norm_type": "layernorm"},
    {"max_position_embeddings": 8192},
    {"init_values": {"std": 10**400}},
]


@pytest.mark.parametrize("keys", UNSUPPORTED, ids=lambda keys: str(keys)[:60])
def test_a_key_that_asks_for_other_maths_is_refused_by_name(keys):
    with pytest.raises(CheckpointError, match=f"config.json: .*{next(iter(keys))}") as refusal:
        HuginnConfig.from_json(RELEASED | keys)
    assert "\n" not in str(refusal.value)


WRONG: list[dict[str, Any]] = [
    {"n_embd": 0},
    {"n_heads": "55"},
    {"n_layers_in_coda": -1},
    {"n_layers_in_recurrent_block": 0},
    {"mean_recurrence": True},
    {"block_size": 1.5},
    {"norm_eps": -1.0},
    {"rope_base": float("inf")},
    {"qk_bias": "yes"},
    {"tie_embeddings": 1},
    {"bias": "no"},
    {"mean_recurrence": 2**28},
    {"vocab_size": "65536"},
    {"rope_base": 10**400},
    {"norm_eps": 10**400},
    *({"block_size": value} for value in ("64", [64], 0, -1, True)),
]


@pytest.mark.parametrize("keys", WRONG, ids=lambda keys: str(keys)[:60])
def test_a_value_that_is_no_size_is_refused_by_name(keys):
    with pytest.raises(CheckpointError, match=f"{next(iter(keys))} must be"):
        HuginnConfig.from_json(RELEASED | keys)


@pytest.mark.parametrize(
    ("heads", "message"),
    [(5, r"n_embd \(12\) must be a multiple of n_heads \(5\)"), (4, "even number for rotary")],
)
def test_heads_must_divide_the_width_evenly(heads, message):
    sizes = SIZES | {"n_heads": heads}
    with pytest.raises(ConfigError, match=message):
        HuginnConfig(**sizes)


def test_missing_sizes_are_named_together():
    content = RELEASED | {"n_heads": None, "n_layers_in_coda": None}
    with pytest.raises(CheckpointError, match="lacks n_heads, n_layers_in_coda"):
        HuginnConfig.from_json(content)


def test_an_unknown_dtype_is_refused():
    with pytest.raises(CheckpointError, match="unknown dtype 'int8'"):
        HuginnConfig.from_json(RELEASED | {"torch_dtype": "int8"})
