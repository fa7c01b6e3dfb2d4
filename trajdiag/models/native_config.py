"""What a config.json of a model that transformers implements may ask for, and of which version."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from trajdiag.errors import CheckpointError, ConfigError, shown
from trajdiag.models.checkpoint import CONFIG
from trajdiag.models.config import DTYPES
from trajdiag.models.config_keys import GREATEST, MOST_LOOPS, require_whole

FLOOR = (5, 24)
"""The first version of transformers whose modules these families are known to step rightly."""
_STATIC_ROPE = frozenset({"default", "linear", "llama3", "proportional", "yarn"})
"""Rotary types whose angles do not depend on the longest row of the batch."""


def require_family(family: str) -> None:
    """Raise CheckpointError unless the installed transformers has causal language models of this
    family, and is new enough to step them."""
    import transformers
    from transformers.models.auto import modeling_auto

    installed = transformers.__version__
    release = tuple(int(part) for part in re.findall(r"\d+", installed)[:2])
    floor = ".".join(map(str, FLOOR))
    if release < FLOOR:
        raise CheckpointError(
            f"{family} models need transformers {floor} or later, and {installed} is installed: "
            f'pip install -U "transformers>={floor}"'
        )
    if family not in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise CheckpointError(
            f"{family} models need a transformers that has them, such as {floor}; {installed} is "
            f'installed and does not: pip install -U "transformers=={floor}.*"'
        )


def refuse_unsupported(content: Mapping[str, Any]) -> None:
    """Raise CheckpointError for options of a config.json that stepping would get wrong, and for
    numbers that are too large, or none."""
    named_dtype(content)
    for key, number in _numbers(content):
        if not abs(number) < (2**63 if isinstance(number, int) else GREATEST):
            raise CheckpointError(f"{CONFIG}: {key} = {shown(number)} is too large, or no number")
    if content.get("quantization_config") is not None:
        raise CheckpointError(f"{CONFIG}: quantization_config is not supported")
    if content.get("is_causal") is False:
        raise CheckpointError(f"{CONFIG}: is_causal = False is not supported")
    for key in ("rope_parameters", "rope_scaling"):
        for kind in _rope_types(content.get(key)):
            if kind not in sorted(_STATIC_ROPE):  # A list: what is compared may be anything.
                raise CheckpointError(
                    f"{CONFIG}: {key} of type {shown(kind)} is not supported; supported are those "
                    f"whose angles no other row of a batch changes: "
                    f"{', '.join(sorted(_STATIC_ROPE))}"
                )


def require_sizes(config: Any, loops: Collection[str]) -> None:
    """Raise CheckpointError for counts that transformers takes as they are."""
    try:
        require_whole("max_position_embeddings", config.max_position_embeddings)
        for key in loops:
            require_whole(key, getattr(config, key), most=MOST_LOOPS)
    except ConfigError as error:
        raise CheckpointError(f"{CONFIG}: {error}") from error


def named_dtype(content: Mapping[str, Any]) -> str | None:
    """The dtype that a config.json names, if any."""
    named = content.get("dtype") or content.get("torch_dtype")
    if named is None:
        return None
    name = str(named).removeprefix("torch.")
    if name not in DTYPES:
        raise CheckpointError(
            f"{CONFIG}: unknown dtype {shown(named)}; existing: {', '.join(DTYPES)}"
        )
    return name


def _numbers(content: Any, key: str = "") -> Iterator[tuple[str, int | float]]:
    """Every number of a config.json, and the innermost key that it is under."""
    if isinstance(content, Mapping):
        for name, value in content.items():
            yield from _numbers(value, name)
    elif isinstance(content, list):
        for value in content:
            yield from _numbers(value, key)
    elif isinstance(content, int | float):
        yield key, content


def _rope_types(rope: Any) -> Iterator[Any]:
    """The rotary types that `rope_parameters` names: one for all layers, or one a layer type."""
    if not isinstance(rope, Mapping):
        return
    kinds = [part for part in rope.values() if isinstance(part, Mapping)] or [rope]
    for kind in kinds:
        yield kind.get("rope_type", kind.get("type", "default"))
