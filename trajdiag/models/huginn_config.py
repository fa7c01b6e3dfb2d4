"""The Huginn configuration: what config.json says, checked so that nothing that changes the maths
is passed over."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trajdiag.errors import CheckpointError, ConfigError
from trajdiag.models.config import DTYPES

_LARGEST = 2**28

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "architecture_class_name": (None, "RecurrentGPT"),
    "attention_bias": (None, False),
    "attn_logit_softcapping": (None,),
    "block_class_name": (None, "SandwichBlock"),
    "embedding_multiplier": (None, 1.0),
    "final_logit_softcapping": (None,),
    "hidden_act": (None, "silu", "swish"),
    "injection_type": (None, "linear"),
    "logit_scale": (None, 1.0),
    "logits_scaling": (None, 1.0),
    "mlp_bias": (None, False),
    "mlp_class_name": (None, "GatedMLP"),
    "nonlin_name": (None, "SiLU"),
    "norm_class_name": (None, "RMSNorm_llama"),
    "partial_rotary_factor": (None, 1.0),
    "qk_norm": (None, False),
    "quantization_config": (None,),
    "residual_multiplier": (None, 1.0),
    "rope_condense_ratio": (None, 1),
    "sliding_window": (None,),
    "state_init": (None, "like-init"),
    "test_time_noise": (None, 0),
}
"""Keys whose other values ask for maths this decoder does not have."""

_ALIASES = {
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
        for name, least in {**_COUNTS, "mean_recurrence": 1, "block_size": 1}.items():
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or not least <= value <= _LARGEST:
                raise ConfigError(
                    f"{name} must be a whole number from {least} to {_LARGEST}, not {value!r}"
                )
        for name in ("rope_base", "norm_eps"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 < value < math.inf:
                raise ConfigError(f"{name} must be a positive number, not {value!r}")
        for name in ("qk_bias", "bias", "tie_embeddings"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be a bool, not {getattr(self, name)!r}")
        if self.n_embd % (2 * self.n_heads):
            raise ConfigError(
                f"n_embd ({self.n_embd}) must be a multiple of n_heads ({self.n_heads}), in an "
                "even number for rotary embeddings"
            )
        if self.dtype is not None and self.dtype not in DTYPES:
            raise ConfigError(f"unknown dtype {self.dtype!r}; existing: {', '.join(DTYPES)}")

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
        for key, neutral in _NEUTRAL.items():
            if content.get(key) not in neutral:
                raise CheckpointError(f"config.json: {key} = {content[key]!r} is not supported")
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
            config = cls(**fields)
        except ConfigError as error:
            raise CheckpointError(f"config.json: {error}") from error
        config._refuse_disagreeing(known)
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
                    f"config.json: {key} = {content[key]!r} is not supported with n_embd = "
                    f"{self.n_embd} and n_heads = {self.n_heads}; only {value} is"
                )
        values = content.get("init_values", {})
        if not isinstance(values, Mapping):
            raise CheckpointError(f"config.json: init_values must be an object, not {values!r}")
        for key, value in {"embed_scale": self.embedding_scale, "std": self.initial_std}.items():
            given = values.get(key, value)
            if not isinstance(given, int | float) or not math.isclose(given, value, rel_tol=1e-5):
                raise CheckpointError(
                    f"config.json: init_values.{key} = {given!r} is not supported; only "
                    f"{value!r} is"
                )


def _merge_aliases(content: dict[str, Any]) -> None:
    """Take keys under their other names; refuse two names that disagree."""
    for key, other in _ALIASES.items():
        if other not in content:
            continue
        if content.setdefault(key, content[other]) != content[other]:
            raise CheckpointError(
                f"config.json: {key} = {content[key]!r}, but {other} = {content[other]!r}"
            )


def _merge_rope(content: dict[str, Any]) -> None:
    """Take `rope_parameters` (transformers 5) for `rope_theta`; refuse all but plain rotary."""
    for key in ("rope_scaling", "rope_parameters"):
        rope = content.get(key, {})
        if not isinstance(rope, Mapping):
            raise CheckpointError(f"config.json: {key} must be an object, not {rope!r}")
        kind = rope.get("rope_type") or rope.get("type") or "default"
        if kind != "default" or rope.get("partial_rotary_factor") not in (None, 1.0):
            raise CheckpointError(f"config.json: {key} = {dict(rope)!r} is not supported")
        theta = rope.get("rope_theta")
        if theta is not None and content.setdefault("rope_theta", theta) != theta:
            raise CheckpointError(
                f"config.json: rope_theta = {content['rope_theta']!r}, but {key}.rope_theta = "
                f"{theta!r}"
            )
