"""The Ouro configuration: what config.json says, checked so that nothing that changes the maths is
passed over."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trajdiag.errors import CheckpointError, ConfigError

ModelGate = Literal["none", "linear", "mlp"]
MODEL_GATES: tuple[ModelGate, ...] = get_args(ModelGate)
_LARGEST = 2**28
DTYPES = ("float32", "bfloat16", "float16")

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "attention_bias": (None, False),
    "attention_multiplier": (None,),
    "attn_logit_softcapping": (None,),
    "embedding_multiplier": (None, 1.0),
    "final_logit_softcapping": (None,),
    "hidden_act": (None, "silu", "swish"),
    "logit_scale": (None, 1.0),
    "logits_scaling": (None, 1.0),
    "mlp_bias": (None, False),
    "partial_rotary_factor": (None, 1.0),
    "qk_norm": (None, False),
    "quantization_config": (None,),
    "residual_multiplier": (None, 1.0),
    "use_qk_norm": (None, False),
}
"""Keys whose other values ask for maths this decoder does not have."""

_REQUIRED = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
)


@dataclass(frozen=True, kw_only=True)
class OuroConfig:
    """An Ouro decoder's sizes and constants, under config.json's own names."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    total_ut_steps: int = 4
    """The number of loops T."""
    rope_theta: float = 1e6
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    max_position_embeddings: int = 65536
    initializer_range: float = 0.02
    dtype: str | None = "float32"
    """The dtype to compute in; None where config.json names none: the weights' own."""
    gate: ModelGate = "linear"
    """`linear` is Ouro's own; `none` and `mlp` are said under config.json's key `trajdiag`."""

    def __post_init__(self) -> None:
        for name in (*_REQUIRED, "num_key_value_heads", "head_dim", "total_ut_steps"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or not 1 <= value <= _LARGEST:
                raise ConfigError(
                    f"{name} must be a whole number from 1 to {_LARGEST}, not {value!r}"
                )
        for name in ("rope_theta", "rms_norm_eps"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 < value < math.inf:
                raise ConfigError(f"{name} must be a positive number, not {value!r}")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ConfigError(
                f"num_attention_heads ({self.num_attention_heads}) must be a multiple of "
                f"num_key_value_heads ({self.num_key_value_heads})"
            )
        if self.head_dim % 2:
            raise ConfigError(f"head_dim must be even for rotary embeddings, not {self.head_dim}")
        if not isinstance(self.tie_word_embeddings, bool):
            raise ConfigError(
                f"tie_word_embeddings must be a bool, not {self.tie_word_embeddings!r}"
            )
        if self.gate not in MODEL_GATES:
            raise ConfigError(f"unknown gate {self.gate!r}; existing: {', '.join(MODEL_GATES)}")
        if self.dtype is not None and self.dtype not in DTYPES:
            raise ConfigError(f"unknown dtype {self.dtype!r}; existing: {', '.join(DTYPES)}")

    @classmethod
    def from_sizes(
        cls,
        *,
        vocab_size: int,
        d_model: int,
        layers: int,
        heads: int,
        loops: int,
        feed_forward: int | None = None,
        **others: Any,
    ) -> "OuroConfig":
        """A configuration in this project's words; `feed_forward` defaults to 2 d_model.

        `others` are fields under their own names. Raises ConfigError where heads do not divide
        d_model.
        """
        if heads < 1 or d_model % heads:
            raise ConfigError(f"d_model ({d_model}) must be a multiple of the heads ({heads})")
        sizes = {"num_key_value_heads": heads, "head_dim": d_model // heads, **others}
        return cls(
            vocab_size=vocab_size,
            hidden_size=d_model,
            intermediate_size=2 * d_model if feed_forward is None else feed_forward,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            total_ut_steps=loops,
            **sizes,
        )

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> "OuroConfig":
        """The configuration of a config.json's content, in any of the variants Ouro is saved in.

        Raises CheckpointError naming the key that is missing, wrong, or asks for unsupported maths.
        """
        _refuse_unsupported(config)
        missing = [name for name in _REQUIRED if config.get(name) is None]
        if missing:
            raise CheckpointError(f"config.json lacks {', '.join(missing)}")
        heads, hidden = config["num_attention_heads"], config["hidden_size"]
        head_dim = config.get("head_dim")
        if head_dim is None:
            if (
                not isinstance(heads, int)
                or not isinstance(hidden, int)
                or heads < 1
                or hidden % heads
            ):
                raise CheckpointError(
                    f"config.json has no head_dim, and hidden_size ({hidden!r}) is not a multiple "
                    f"of num_attention_heads ({heads!r})"
                )
            head_dim = hidden // heads
        dtype = config.get("dtype") or config.get("torch_dtype")
        optional = {
            name: config[name]
            for name in (
                "total_ut_steps",
                "rms_norm_eps",
                "tie_word_embeddings",
                "max_position_embeddings",
                "initializer_range",
            )
            if config.get(name) is not None
        }
        try:
            return cls(
                **{name: config[name] for name in _REQUIRED},
                num_key_value_heads=_or(config.get("num_key_value_heads"), heads),
                head_dim=head_dim,
                rope_theta=_rope_theta(config),
                dtype=None if dtype is None else str(dtype).removeprefix("torch."),
                gate=trajdiag_section(config).get("gate", "linear"),
                **optional,
            )
        except ConfigError as error:
            raise CheckpointError(f"config.json: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """The content of config.json, readable by other Ouro code; `trajdiag` names the gate."""
        return {
            "architectures": ["OuroForCausalLM"],
            "attention_dropout": 0.0,
            "dtype": self.dtype or "float32",
            "early_exit_threshold": 1.0,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden_size,
            "initializer_range": self.initializer_range,
            "intermediate_size": self.intermediate_size,
            "layer_types": ["full_attention"] * self.num_hidden_layers,
            "max_position_embeddings": self.max_position_embeddings,
            "model_type": "ouro",
            "num_attention_heads": self.num_attention_heads,
            "num_hidden_layers": self.num_hidden_layers,
            "num_key_value_heads": self.num_key_value_heads,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_scaling": None,
            "rope_theta": self.rope_theta,
            "sliding_window": None,
            "tie_word_embeddings": self.tie_word_embeddings,
            "torch_dtype": self.dtype or "float32",
            "total_ut_steps": self.total_ut_steps,
            "trajdiag": {"gate": self.gate},
            "use_cache": True,
            "use_sliding_window": False,
            "vocab_size": self.vocab_size,
        }


def trajdiag_section(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """What this project wrote into a config.json: `gate`, `task`, `training`; empty if absent."""
    section = config.get("trajdiag")
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise CheckpointError(f"config.json: trajdiag must be an object, not {section!r}")
    return section


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _refuse_unsupported(config: Mapping[str, Any]) -> None:
    for key, neutral in _NEUTRAL.items():
        if config.get(key) not in neutral:
            raise CheckpointError(f"config.json: {key} = {config[key]!r} is not supported")
    layer_types = _or(config.get("layer_types"), [])
    if not isinstance(layer_types, list):
        raise CheckpointError(f"config.json: layer_types must be a list, not {layer_types!r}")
    other = sorted({str(kind) for kind in layer_types} - {"full_attention"})
    if other:
        raise CheckpointError(f"config.json: layer_types with {', '.join(other)} is not supported")
    if config.get("use_sliding_window") and config.get("sliding_window") is not None:
        raise CheckpointError(
            f"config.json: sliding_window = {config['sliding_window']!r} in use is not supported"
        )


def _rope_theta(config: Mapping[str, Any]) -> Any:
    """The rotary base, from `rope_parameters` (transformers 5) or from `rope_theta`."""
    theta = config.get("rope_theta")
    for key in ("rope_scaling", "rope_parameters"):
        rope = config.get(key)
        if rope is None:
            continue
        if not isinstance(rope, Mapping):
            raise CheckpointError(f"config.json: {key} must be an object, not {rope!r}")
        kind = rope.get("rope_type") or rope.get("type") or "default"
        if kind != "default":
            raise CheckpointError(f"config.json: {key} of type {kind!r} is not supported")
        if rope.get("partial_rotary_factor") not in (None, 1.0):
            raise CheckpointError(f"config.json: {key} with partial_rotary_factor is not supported")
        theta = _or(rope.get("rope_theta"), theta)
    if theta is None:
        raise CheckpointError("config.json lacks rope_theta (or rope_parameters.rope_theta)")
    return theta
