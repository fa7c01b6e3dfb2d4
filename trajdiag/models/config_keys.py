"""Keys of a config.json: those that leave the maths as it is, and values checked by name.

A key that nobody here knows may ask for other maths, so it is refused unless it asks for nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from trajdiag.errors import CheckpointError, ConfigError, shown

LARGEST = 2**28
MOST_LOOPS = 4096
"""More passes than any model was trained with; beyond, memory runs out first."""
GREATEST = 3e38
"""Roughly float32's greatest: constants beyond it are infinite where they are used."""

_NOTES = """
    _attn_implementation _attn_implementation_autoset _attn_implementation_internal _commit_hash
    _experts_implementation _name_or_path architectures attn_implementation auto_map
    chunk_size_feed_forward custom_pipelines dtype finetuning_task id2label initializer_range
    add_cross_attention attn_impl author base_model chat_template comment created
    cross_attention_hidden_size description is_decoder is_encoder_decoder label2id language license
    model_name model_type name problem_type pruned_heads return_dict tags task_specific_params
    tf_legacy_loss tie_encoder_decoder tokenizer_class torch_dtype torchscript use_bfloat16
    use_fused_head
    trajdiag transformers_version unsloth_fixed unsloth_version use_cache
    bad_words_ids begin_suppress_tokens diversity_penalty do_sample early_stopping
    encoder_no_repeat_ngram_size exponential_decay_length_penalty generation_config length_penalty
    max_length max_new_tokens min_length no_repeat_ngram_size num_beam_groups num_beams
    num_return_sequences output_attentions output_hidden_states output_scores prefix
    remove_invalid_values repetition_penalty return_dict_in_generate suppress_tokens temperature
    top_k top_p typical_p
"""
HARMLESS = frozenset(_NOTES.split())
"""What transformers and tools around it note down: bookkeeping, training and generation."""
_HARMLESS_ENDS = ("_token_id", "dropout", "_pdrop")
"""Tokens that mark something, and what training alone leaves out."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "attention_bias": (None, False),
    "embedding_multiplier": (None, 1),
    "hidden_act": (None, "silu", "swish"),
    "is_causal": (None, True),
    "logit_scale": (None, 1),
    "logits_scaling": (None, 1),
    "mlp_bias": (None, False),
    "num_experts": (None, 0, 1),
    "partial_rotary_factor": (None, 1),
    "pretraining_tp": (None, 1),
    "quantization_config": (None,),
    "residual_multiplier": (None, 1),
    "residual_scale": (None, 1),
    "scale_emb": (None, 1),
}
"""The values with which these keys ask for nothing, in either family of this project's own."""

_NEUTRAL_ROPE: dict[str, tuple[Any, ...]] = {
    "attention_factor": (None, 1),
    "factor": (None, 1),
    "partial_rotary_factor": (None, 1),
}
_ROPE = {"rope_type", "type", "rope_theta", "original_max_position_embeddings"}


def require_whole(name: str, value: Any, least: int = 1, most: int = LARGEST) -> None:
    """Raise ConfigError unless `value` is an integer within the bounds."""
    if type(value) is not int or not least <= value <= most:
        raise ConfigError(
            f"{name} must be a whole number from {least} to {most}, not {shown(value)}"
        )


def require_positive(name: str, value: Any) -> None:
    """Raise ConfigError unless `value` is a number above 0 that float32 can hold."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < GREATEST:
        raise ConfigError(
            f"{name} must be a positive number below {GREATEST:g}, not {shown(value)}"
        )


def refuse_other_keys(
    content: Mapping[str, Any], *, read: Collection[str], neutral: Mapping[str, tuple[Any, ...]]
) -> None:
    """Raise CheckpointError for the first key that may ask for maths that is not there.

    `read` are keys that the family reads, or knows to be without effect; `neutral` the values with
    which others ask for nothing. Null, false, 0 and nothing at all ask for nothing under any name.
    """
    for key, value in content.items():
        if key in neutral:
            if value not in neutral[key]:
                raise CheckpointError(f"config.json: {key} = {shown(value)} is not supported")
        elif value and key not in read and key not in HARMLESS and not key.endswith(_HARMLESS_ENDS):
            raise CheckpointError(
                f"config.json: {shown(key)[1:-1]} = {shown(value)} is not supported; if it does "
                "not change the maths, remove it from config.json"
            )


def refuse_other_layers(content: Mapping[str, Any], layers: int) -> None:
    """Raise CheckpointError for `layer_types` that are not full attention in each of `layers`."""
    kinds = content.get("layer_types")
    if kinds is None:
        return
    if not isinstance(kinds, list):
        raise CheckpointError(f"config.json: layer_types must be a list, not {shown(kinds)}")
    if other := [kind for kind in kinds if kind != "full_attention"]:
        raise CheckpointError(f"config.json: layer_types with {shown(other[0])} is not supported")
    if len(kinds) != layers:
        raise CheckpointError(
            f"config.json: layer_types must name {layers} layers, not {len(kinds)}"
        )


def plain_rope_theta(content: Mapping[str, Any]) -> Any:
    """The base that `rope_parameters` (transformers 5) or `rope_scaling` gives; None without one.

    Either may be given for each type of layer. Raises CheckpointError for all but plain rotary
    embeddings of one base.
    """
    theta = None
    for key, part in _rope_parts(content):
        kind = part.get("rope_type") or part.get("type") or "default"
        if kind != "default":
            raise CheckpointError(f"config.json: {key} of type {shown(kind)} is not supported")
        for name, value in part.items():
            plain = value is None or name in _ROPE
            if not plain and value not in _NEUTRAL_ROPE.get(name, ()):
                raise CheckpointError(
                    f"config.json: {key} with {name} = {shown(value)} is not supported; only plain "
                    "rotary embeddings are"
                )
        given = part.get("rope_theta")
        if theta is not None and given not in (None, theta):
            raise CheckpointError(
                f"config.json: {key}.rope_theta = {shown(given)}, but it is {shown(theta)} "
                "elsewhere; only one rotary base for all layers is supported"
            )
        theta = given if theta is None else theta
    return theta


def _rope_parts(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(where, parameters) of each set of rotary parameters."""
    for key in ("rope_scaling", "rope_parameters"):
        rope = content.get(key)
        if rope is None:
            continue
        if not isinstance(rope, Mapping):
            raise CheckpointError(f"config.json: {key} must be an object, not {shown(rope)}")
        yield key, {name: value for name, value in rope.items() if not isinstance(value, Mapping)}
        for name, value in rope.items():
            if isinstance(value, Mapping):
                yield f"{key}.{name}", value
