"""The Huginn configuration: what config.json says, checked so that nothing that changes the maths
is passed over."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trajdiag.errors import CheckpointError, ConfigError, shown
from trajdiag.models.config import DTYPES
from trajdiag.models.config_keys import (
    MOST_LOOPS,
    NEUTRAL,
    plain_rope_theta,
    refuse_other_keys,
    refuse_other_layers,
    require_positive,
    require_whole,
)

_NEUTRAL: dict[str, tuple[Any, ...]] = NEUTRAL | {
    "architecture_class_name": (None, "RecurrentGPT"),
    "block_class_name": (None, "SandwichBlock"),
    "injection_type": (None, "linear"),
    "mlp_class_name": (None, "GatedMLP"),
    "nonlin_name": (None, "SiLU"),
    "norm_class_name": (None, "RMSNorm_llama"),
    "rope_condense_ratio": (None, 1),
    "rope_interleaved": (None, True),
    "state_init": (None, "like-init"),
    "test_time_noise": (None, 0),
}
"""Keys whose other values ask for maths this decoder does not have."""

_NOTES = """
    activation_checkpoint_impl effective_expected_depth init_orthogonal init_strategy lockstep_k
    lockstep_n max_window_layers mean_backprop_depth n_layers num_hidden_layers padding_multiple
    sampling_scheme test_time_noise_type
"""
_WITHOUT_EFFECT = frozenset(_NOTES.split())
"""Keys of released configurations that say how it was trained, or what others say already."""

_ALIASES = {
    "block_size": "max_position_embeddings",
    "n_embd": "hidden_size",
    "n_heads": "num_attention_heads",
    "rope_base": "rope_theta",
    "tie_embeddings": "tie_word_embeddings",
}
"""A key, and the other name under which transformers reads and writes it."""

_COUNTS = {
    "vocab_size": 1,
    "n_embd": 1,
    "n_heads": 1,
    "intermediate_size": 1,
    "n_layers_in_prelude": 0,
    "n_layers_in_recurrent_block": 1,
    "n_layers_in_coda": 0,
}
"""Keys that must be there, and the least that each may be."""

_SAID_AGAIN = frozenset(
    {
        *("num_key_value_heads", "head_dim", "init_values", "layer_types", "padded_vocab_size"),
        *("rope_scaling", "rope_parameters"),
    }
)


@dataclass(frozen=True, kw_only=True)
class HuginnConfig:
    """A Huginn decoder's sizes and constants, under config.json's own names."""

    vocab_size: int
    """The rows of the embedding and the head: `padded_vocab_size`, where config.json has it."""
    n_embd: int
    n_heads: int
    intermediate_size: int
    n_layers_in_prelude: int
    n_layers_in_recurrent_block: int
    n_layers_in_coda: int
    mean_recurrence: int = 32
    """The number of loops T."""
    block_size: int = 4096
    rope_base: float = 50_000.0
    norm_eps: float = 1e-6
    qk_bias: bool = True
    bias: bool = False
    """Whether the adapter has a bias; no other layer ever has."""
    tie_embeddings: bool = True
    dtype: str | None = None
    """The dtype to compute in; None where config.json names none: the weights' own."""

    def __post_init__(self) -> None:
        for name, least in {**_COUNTS, "block_size": 1}.items():
            require_whole(name, getattr(self, name), least)
        require_whole("mean_recurrence", self.mean_recurrence, most=MOST_LOOPS)
        for name in ("rope_base", "norm_eps"):
            require_positive(name, getattr(self, name))
        for name in ("qk_bias", "bias", "tie_embeddings"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be a bool, not {shown(getattr(self, name))}")
        if self.n_embd % (2 * self.n_heads):
            raise ConfigError(
                f"n_embd ({self.n_embd}) must be a multiple of n_heads ({self.n_heads}), in an "
                "even number for rotary embeddings"
            )
        if self.dtype is not None and self.dtype not in DTYPES:
            raise ConfigError(f"unknown dtype {shown(self.dtype)}; existing: {', '.join(DTYPES)}")

    @property
    def head_dim(self) -> int:
        return self.n_embd // self.n_heads

    @property
    def embedding_scale(self) -> float:
        """What embeddings and initial noise are multiplied by."""
        return math.sqrt(self.n_embd)

    @property
    def initial_std(self) -> float:
        """The standard deviation of the initial noise, before it is cut and scaled."""
        return math.sqrt(2 / (5 * self.n_embd))

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "HuginnConfig":
        """The configuration of a config.json's content.

        Raises CheckpointError naming the key that is missing, wrong, or asks for unsupported maths.
        """
        read = {*cls.__dataclass_fields__, *_ALIASES.values(), *_SAID_AGAIN, *_WITHOUT_EFFECT}
        refuse_other_keys(content, read=read, neutral=_NEUTRAL)
        known = {key: value for key, value in content.items() if value is not None}
        _merge_rope(known)
        _merge_aliases(known)
        if missing := [name for name in _COUNTS if name not in known]:
            raise CheckpointError(f"config.json lacks {', '.join(missing)}")
        dtype = known.get("dtype") or known.get("torch_dtype")
        fields = {name: known[name] for name in cls.__dataclass_fields__ if name in known}
        fields["vocab_size"] = known.get("padded_vocab_size", known["vocab_size"])
        fields["dtype"] = None if dtype is None else str(dtype).removeprefix("torch.")
        try:
            require_whole("vocab_size", known["vocab_size"])
            config = cls(**fields)
        except ConfigError as error:
            raise CheckpointError(f"config.json: {error}") from error
        config._refuse_disagreeing(known)
        refuse_other_layers(
            known,
            config.n_layers_in_prelude
            + config.n_layers_in_recurrent_block
            + config.n_layers_in_coda,
        )
        return config

    def to_json(self) -> dict[str, Any]:
        """The keys of config.json that this class reads, and the model_type."""
        return {
            "model_type": "huginn_raven",
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
        }

    def _refuse_disagreeing(self, content: Mapping[str, Any]) -> None:
        """Refuse keys that repeat, with another value, what follows from the others."""
        derived = {"num_key_value_heads": self.n_heads, "head_dim": self.head_dim}
        for key, value in derived.items():
            if content.get(key, value) != value:
                raise CheckpointError(
                    f"config.json: {key} = {shown(content[key])} is not supported with n_embd = "
                    f"{self.n_embd} and n_heads = {self.n_heads}; only {value} is"
                )
        values = content.get("init_values", {})
        if not isinstance(values, Mapping):
            raise CheckpointError(
                f"config.json: init_values must be an object, not {shown(values)}"
            )
        for key, value in {"embed_scale": self.embedding_scale, "std": self.initial_std}.items():
            given = values.get(key, value)
            number = isinstance(given, int | float)
            if not number or not value * (1 - 1e-5) <= given <= value * (1 + 1e-5):
                raise CheckpointError(
                    f"config.json: init_values.{key} = {shown(given)} is not supported; only "
                    f"{value!r} is"
                )


def _merge_aliases(content: dict[str, Any]) -> None:
    """Take keys under their other names; refuse two names that disagree."""
    for key, other in _ALIASES.items():
        if other not in content:
            continue
        if content.setdefault(key, content[other]) != content[other]:
            raise CheckpointError(
                f"config.json: {key} = {shown(content[key])}, but {other} = {shown(content[other])}"
            )


def _merge_rope(content: dict[str, Any]) -> None:
    """Take `rope_parameters` (transformers 5) for `rope_theta`; refuse all but plain rotary."""
    theta = plain_rope_theta(content)
    if theta is not None and content.setdefault("rope_theta", theta) != theta:
        raise CheckpointError(
            f"config.json: rope_theta = {shown(content['rope_theta'])}, but rope_parameters or "
            f"rope_scaling have {shown(theta)}"
        )
