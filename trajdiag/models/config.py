"""The Ouro configuration: what config.json says, checked so that nothing that changes the maths is
passed over."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trajdiag.errors import CheckpointError, ConfigError, shown
from trajdiag.models.config_keys import (
    MOST_LOOPS,
    NEUTRAL,
    plain_rope_theta,
    refuse_other_keys,
    refuse_other_layers,
    require_positive,
    require_whole,
)

ModelGate = Literal["none", "linear", "mlp"]
MODEL_GATES: tuple[ModelGate, ...] = get_args(ModelGate)
DTYPES = ("float32", "bfloat16", "float16", "float64")
"""What a config.json may name; float16 and float64 are computed in float32."""

_REQUIRED = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
)
_OPTIONAL = (
    "total_ut_steps",
    "rms_norm_eps",
    "tie_word_embeddings",
    "max_position_embeddings",
    "initializer_range",
)
_KNOWN = frozenset(
    {
        *_REQUIRED,
        *_OPTIONAL,
        *("num_key_value_heads", "head_dim", "layer_types"),
        *("rope_theta", "rope_scaling", "rope_parameters"),
        *("use_sliding_window", "sliding_window", "max_window_layers"),
        # Which loop's logits the released code answers with; all loops are read here.
        *("early_exit_threshold", "early_exit_step", "exit_at_step", "use_weighted_exit"),
    }
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
        sizes = ("num_key_value_heads", "head_dim", "max_position_embeddings")
        for name in (*_REQUIRED, *sizes):
            require_whole(name, getattr(self, name))
        require_whole("total_ut_steps", self.total_ut_steps, most=MOST_LOOPS)
        for name in ("rope_theta", "rms_norm_eps"):
            require_positive(name, getattr(self, name))
        if self.num_attention_heads % self.num_key_value_heads:
            raise ConfigError(
                f"num_attention_heads ({self.num_attention_heads}) must be a multiple of "
                f"num_key_value_heads ({self.num_key_value_heads})"
            )
        if self.head_dim % 2:
            raise ConfigError(f"head_dim must be even for rotary embeddings, not {self.head_dim}")
        if not isinstance(self.tie_word_embeddings, bool):
            raise ConfigError(
                f"tie_word_embeddings must be a bool, not {shown(self.tie_word_embeddings)}"
            )
        if self.gate not in MODEL_GATES:
            raise ConfigError(
                f"unknown gate {shown(self.gate)}; existing: {', '.join(MODEL_GATES)}"
            )
        if self.dtype is not None and self.dtype not in DTYPES:
            raise ConfigError(f"unknown dtype {shown(self.dtype)}; existing: {', '.join(DTYPES)}")

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
        refuse_other_keys(config, read=_KNOWN, neutral=NEUTRAL)
        if config.get("use_sliding_window") and config.get("sliding_window") is not None:
            raise CheckpointError(
                f"config.json: sliding_window = {shown(config['sliding_window'])} in use is not "
                "supported"
            )
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
                    f"config.json has no head_dim, and hidden_size ({shown(hidden)}) is not a "
                    f"multiple of num_attention_heads ({shown(heads)})"
                )
            head_dim = hidden // heads
        dtype = config.get("dtype") or config.get("torch_dtype")
        optional = {name: config[name] for name in _OPTIONAL if config.get(name) is not None}
        try:
            found = cls(
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
        refuse_other_layers(config, found.num_hidden_layers)
        return found

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
        raise CheckpointError(f"config.json: trajdiag must be an object, not {shown(section)}")
    return section


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _rope_theta(config: Mapping[str, Any]) -> Any:
    """The rotary base: where it is said twice, transformers 5's word counts."""
    theta = _or(plain_rope_theta(config), config.get("rope_theta"))
    if theta is None:
        raise CheckpointError("config.json lacks rope_theta (or rope_parameters.rope_theta)")
    return theta
