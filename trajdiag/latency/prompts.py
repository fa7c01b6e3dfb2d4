"""What is to be continued: texts or tokens, as the tokens of one model."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from torch import Tensor

from trajdiag.errors import ConfigError
from trajdiag.extraction.encoder import Encoder
from trajdiag.models.base import LoopedModel
from trajdiag.whole_text import is_whole

Prompt = str | Sequence[int] | np.ndarray | Tensor


def prompt_tokens(model: LoopedModel, prompts: Prompt | Iterable[Prompt]) -> list[list[int]]:
    """The tokens of each prompt, a text or token ids; one alone is a list of one. An empty text is
    the token that begins a text, or else the one that ends one.

    Raises ConfigError for what is neither, for texts where the model has no tokenizer, for tokens
    that it does not have, and for none or more of them than it takes.
    """
    given = _listed(prompts)
    if not given:
        raise ConfigError("there is no prompt to continue; give texts, or lists of token ids")
    encode = None
    if any(isinstance(prompt, str) for prompt in given):
        if model.tokenizer is None:
            raise ConfigError(
                f"model {model.record.name} has no tokenizer and reads no text; give prompts as "
                "lists of token ids"
            )
        encode = Encoder(model.tokenizer, model.vocab_size)
    found = []
    for number, prompt in enumerate(given, 1):
        if isinstance(prompt, str):
            assert encode is not None
            if not is_whole(prompt):
                raise ConfigError(
                    f"prompt {number} has half a character (a lone surrogate), which no tokenizer "
                    f"reads: {ascii(prompt)[:60]}"
                )
            tokens = encode(prompt) or [encode.first()]
        else:
            tokens = _ids(prompt, number, model)
        longest = model.max_positions
        if longest is not None and len(tokens) > longest:
            raise ConfigError(
                f"prompt {number} has {len(tokens):,} tokens, and model {model.record.name} takes "
                f"{longest:,}; shorten it"
            )
        found.append(tokens)
    return found


def _listed(prompts: Any) -> list[Any]:
    if isinstance(prompts, str):
        return [prompts]
    try:
        given = list(_plain(prompts))
    except TypeError as error:
        raise ConfigError(
            f"prompts are texts or lists of token ids, not {type(prompts).__name__}"
        ) from error
    return [given] if given and all(_is_id(token) for token in given) else given


def _ids(prompt: Any, number: int, model: LoopedModel) -> list[int]:
    try:
        tokens = list(_plain(prompt))
    except TypeError:
        tokens = [prompt]
    if not tokens:
        raise ConfigError(f"prompt {number} has no tokens; give it one at least")
    for token in tokens:
        if not _is_id(token) or not 0 <= token < model.vocab_size:
            raise ConfigError(
                f"prompt {number} must be a text or token ids from 0 to {model.vocab_size - 1}, "
                f"not {token!r:.40}"
            )
    return [int(token) for token in tokens]


def _plain(given: Any) -> Any:
    """Arrays and tensors as lists. Raises TypeError for what has no order of its own, and for
    bytes, whose numbers are no tokens."""
    if isinstance(given, bytes | bytearray | memoryview | Set | Mapping):
        raise TypeError(type(given).__name__)
    return given.tolist() if isinstance(given, np.ndarray | Tensor) else given


def _is_id(token: Any) -> bool:
    return isinstance(token, int | np.integer) and not isinstance(token, bool)
