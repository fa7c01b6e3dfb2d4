import json

import pytest

from tests.models.test_reference import REFERENCE
from trajdiag.errors import CheckpointError, ConfigError
from trajdiag.models.config import OuroConfig


@pytest.fixture
def published() -> dict:
    return json.loads((REFERENCE / "config.json").read_text(encoding="utf-8"))


def test_a_published_config_is_read(published):
    config = OuroConfig.from_json(published)
    assert (config.hidden_size, config.head_dim, config.total_ut_steps) == (32, 8, 4)
    assert (config.rope_theta, config.gate, config.dtype) == (1e6, "linear", "float32")


VARIANTS = {
    "no head_dim": ({"head_dim": None}, {"head_dim": 8}),
    "its own head_dim": ({"head_dim": 6}, {"head_dim": 6}),
    "kv heads null": ({"num_key_value_heads": None}, {"num_key_value_heads": 4}),
    "grouped heads": ({"num_key_value_heads": 2}, {"num_key_value_heads": 2}),
    "no loop count": ({"total_ut_steps": None}, {"total_ut_steps": 4}),
    "rope_parameters": (
        {"rope_theta": None, "rope_parameters": {"rope_theta": 5e4, "rope_type": "default"}},
        {"rope_theta": 5e4},
    ),
    "old default scaling": ({"rope_scaling": {"type": "default"}}, {"rope_theta": 1e6}),
    "torch_dtype": ({"dtype": None, "torch_dtype": "bfloat16"}, {"dtype": "bfloat16"}),
    "dtype with its module": ({"dtype": "torch.bfloat16"}, {"dtype": "bfloat16"}),
    "no dtype": ({"dtype": None}, {"dtype": None}),
    "tied": ({"tie_word_embeddings": True}, {"tie_word_embeddings": True}),
    "window not in use": ({"sliding_window": 4096}, {}),
    "rope of each layer type": (
        {
            "rope_theta": None,
            "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 5e4}},
        },
        {"rope_theta": 5e4},
    ),
    "rope that was not scaled": (
        {"rope_parameters": {"rope_theta": 1e6, "factor": 1.0, "beta_fast": None}},
        {"rope_theta": 1e6},
    ),
    "float64": ({"dtype": "float64"}, {"dtype": "float64"}),
    "nothing asked for": (
        {"clip_qkv": None, "attn_scale": 0, "attention_sinks": [], "qk_norm": False},
        {},
    ),
    "bookkeeping": (
        {
            "_name_or_path": "mine",
            "auto_map": {"AutoConfig": "configuration_ouro.OuroConfig"},
            "id2label": {"0": "LABEL_0"},
            "num_experts": 1,
            "is_causal": True,
            "resid_pdrop": 0.1,
            "temperature": 0.6,
        },
        {},
    ),
    "no gate": ({"trajdiag": {"gate": "none"}}, {"gate": "none"}),
}


@pytest.mark.parametrize(("changes", "expected"), VARIANTS.values(), ids=VARIANTS.keys())
def test_variants_of_the_format_are_accepted(published, changes, expected):
    content = {k: v for k, v in (published | changes).items() if v is not None}
    for variant in (published | changes, content):
        config = OuroConfig.from_json(variant)
        assert {name: getattr(config, name) for name in expected} == expected


REFUSED = {
    "window": ({"use_sliding_window": True, "sliding_window": 64}, "sliding_window = 64 in use"),
    "sliding layer": ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
    "scaled rope": ({"rope_scaling": {"type": "linear", "factor": 2}}, "rope_scaling.*'linear'"),
    "yarn": (
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}},
        "rope_parameters.*'yarn'",
    ),
    "partial rope": (
        {"rope_parameters": {"rope_theta": 1e6, "partial_rotary_factor": 0.5}},
        "partial_rotary_factor",
    ),
    "rope text": ({"rope_scaling": "yarn"}, "rope_scaling must be an object"),
    "no rope base": ({"rope_theta": None}, "lacks rope_theta"),
    "bias": ({"attention_bias": True}, "attention_bias = True"),
    "activation": ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
    "quantised": ({"quantization_config": {"bits": 4}}, "quantization_config"),
    "no width": ({"hidden_size": None}, "lacks hidden_size"),
    "text for a number": ({"vocab_size": "97"}, "vocab_size.*'97'"),
    "fraction": ({"num_hidden_layers": 1.5}, "num_hidden_layers.*1.5"),
    "no loops": ({"total_ut_steps": 0}, "total_ut_steps.*0"),
    "odd head": ({"head_dim": 7}, "head_dim must be even"),
    "indivisible width": ({"num_attention_heads": 5}, "not a multiple"),
    "indivisible heads": ({"num_key_value_heads": 3}, "multiple of num_key_value_heads"),
    "too large": ({"vocab_size": 10**30}, "vocab_size must be a whole number from 1 to"),
    "endless": ({"rope_theta": float("inf")}, "rope_theta.*inf"),
    "bad eps": ({"rms_norm_eps": -1.0}, "rms_norm_eps.*-1.0"),
    "bad theta": ({"rope_theta": "big"}, "rope_theta.*'big'"),
    "bad tie": ({"tie_word_embeddings": "yes"}, "tie_word_embeddings.*'yes'"),
    "dtype": ({"dtype": "float8"}, "float8"),
    "gate": ({"trajdiag": {"gate": "cubic"}}, "existing: none, linear, mlp"),
    "section": ({"trajdiag": "mlp"}, "trajdiag must be an object"),
    "layer_types text": ({"layer_types": 3}, "layer_types"),
    "layer_types of another depth": (
        {"layer_types": ["full_attention"] * 3},
        "layer_types must name 2 layers, not 3",
    ),
    "scaling without a type": ({"rope_scaling": {"factor": 2.0}}, "rope_scaling.*factor = 2.0"),
    "default scaling with a factor": (
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "factor": 8}},
        "rope_parameters with factor = 8",
    ),
    "yarn in one layer type": (
        {"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1e6}}},
        "rope_parameters.full_attention of type 'yarn'",
    ),
    "two bases": (
        {"rope_parameters": {"a": {"rope_theta": 1e6}, "b": {"rope_theta": 1e4}}},
        "rope_parameters.b.rope_theta = 10000.0",
    ),
    "endless loops": (
        {"total_ut_steps": 2**28},
        "total_ut_steps must be .* to 4096, not 268435456",
    ),
    "two-way": ({"is_causal": False}, "is_causal = False"),
    "clipped": ({"clip_qkv": 8}, "clip_qkv = 8 is not supported; if it does not change the maths"),
    "attention's scale": ({"attn_scale": 0.5}, "attn_scale = 0.5"),
    "query's scale": ({"query_pre_attn_scalar": 256}, "query_pre_attn_scalar = 256"),
    "rope by pairs": ({"rope_interleaved": True}, "rope_interleaved = True"),
    "experts": ({"num_experts": 8}, "num_experts = 8"),
    "sinks": ({"attention_sinks": True}, "attention_sinks = True"),
    "embedding's scale": ({"scale_emb": 12}, "scale_emb = 12"),
    "residual's scale": ({"residual_scale": 0.5}, "residual_scale = 0.5"),
    "norm": ({"norm_type": "layernorm"}, "norm_type = 'layernorm'"),
    "a long value": ({"pattern": "x" * 10**5}, r"pattern = 'x{76}\.\.\. is not"),
    **{
        f"{key} {value!s:.6}": ({key: value}, f"{key} must be a whole number from 1 to")
        for key in ("max_position_embeddings", "total_ut_steps")
        for value in ("64", [64], 0, -1, 1.5, True, 10**400)
    },
    **{
        f"{key} beyond all": ({key: 10**400}, rf"{key} must be a positive .*, not 10+\.\.\.$")
        for key in ("rope_theta", "rms_norm_eps")
    },
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_key_that_asks_for_other_maths_is_refused_by_name_in_one_line(
    published, changes, message
):
    with pytest.raises(CheckpointError, match=message) as refusal:
        OuroConfig.from_json(published | changes)
    assert "\n" not in str(refusal.value)


def test_a_written_config_reads_back_the_same():
    config = OuroConfig.from_sizes(
        vocab_size=11, d_model=24, layers=1, heads=4, loops=5, gate="mlp", num_key_value_heads=2
    )
    assert OuroConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_sizes_that_do_not_divide_are_refused():
    with pytest.raises(ConfigError, match=r"d_model \(10\) must be a multiple of the heads \(4\)"):
        OuroConfig.from_sizes(vocab_size=11, d_model=10, layers=1, heads=4, loops=5)
