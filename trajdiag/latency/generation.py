"""Greedy generation in which every token leaves the loops where a readout lets it."""

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from trajdiag.deployment.readout_file import load_readout
from trajdiag.errors import ConfigError, shown
from trajdiag.gates.gate import Gate
from trajdiag.latency.cached_rows import CachedRows, Context, require_caching
from trajdiag.latency.exits import Exits
from trajdiag.latency.prompts import Prompt, prompt_tokens
from trajdiag.latency.rule import LiveRule, live_rule, saved_rule
from trajdiag.models.base import LoopedModel
from trajdiag.models.ouro import OuroModel
from trajdiag.models.own import require_model
from trajdiag.models.registry import load_model
from trajdiag.names import checked_options, settle_fields

NEVER = "never"
DEAD = 1 / 8
"""The share of rows from which on dropping them from the caches pays. It was measured, on the CPU,
at what two steps lose to reading around rows that are done."""


_MOST = 2**31 - 1
"""Of what is counted."""
_ROOM = 1024
"""New tokens that caches have room for to begin with; a row may end long before the most that are
asked for."""


@dataclass(frozen=True, kw_only=True)
class GenerateConfig:
    """How texts are continued."""

    readout: str | os.PathLike[str] | Gate = "native"
    """A signal, native, native-released or fixed, a readout file (NAME.json), or a fitted gate."""
    threshold: float | Literal["never"] | None = None
    """In the readout's unit; `never`, or NaN, runs all loops. When absent a file's own."""
    context: Context = "recompute"
    """What a token that has left leaves for later ones: `recompute` (its deeper loops are run when
    one wants them), `copy-last` (its last loop's keys and values stand for them), or `full` (all
    loops are run, the readout only reads earlier)."""
    max_new_tokens: int = 32
    """The most that are generated of a prompt."""
    min_depth: int = 1
    """The first loop at which a token may leave; a file brings its own."""
    batch: int = 32
    """Prompts that are continued side by side."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU where there is one; of a model given by name."""
    dtype: str = "auto"
    """float32, bfloat16, or auto: the checkpoint's; of a model given by name."""
    revision: str | None = None
    """A hub branch, tag or commit; of a model given by name."""
    cache_dir: str | None = None
    """Root of the cache in which models are found."""

    def __post_init__(self) -> None:
        settle_fields(self)
        for option in ("max_new_tokens", "batch"):
            if not 1 <= getattr(self, option) <= _MOST:
                raise ConfigError(
                    f"{option} must be from 1 to {_MOST:,}, got {shown(getattr(self, option))}"
                )
        if not self.readout:
            raise ConfigError("readout must be a name, a readout file or a fitted gate, got ''")
        if self.context not in get_args(Context):
            raise ConfigError(
                f"context must be full, recompute or copy-last, got {shown(self.context)}"
            )
        if isinstance(self.threshold, str) and self.threshold != NEVER:
            raise ConfigError(f"threshold must be a number or {NEVER}, got {shown(self.threshold)}")


@dataclass(frozen=True, kw_only=True)
class Generation:
    """How one prompt went on."""

    prompt: tuple[int, ...]
    """Its tokens."""
    tokens: tuple[int, ...]
    """What was generated, the token that ends a text included."""
    text: str | None
    """The same as text, without that token; None where the model has no tokenizer."""
    exit_depth: tuple[int, ...]
    """The loop at which each of the tokens was predicted."""
    loops_run: int
    """Loops that all positions went through, the prompt's and those for the cache included."""

    @property
    def mean_depth(self) -> float:
        """Of the exit depths, loops."""
        return float(np.mean(self.exit_depth))


def generate(
    model: LoopedModel | str | os.PathLike[str],
    prompts: Prompt | Iterable[Prompt],
    **options: Any,
) -> list[Generation]:
    """Continue `prompts`, texts or lists of token ids, greedily, each token predicted at the loop
    at which the readout lets it leave; in the order given.

    `model` is a name as `load_model` takes it or the thing itself, in Ouro's format; `options` are
    GenerateConfig's fields. A prompt runs at full depth, and its last token may already be read
    earlier. A row ends with the token that ends a text, after `max_new_tokens`, or where the model
    takes no more positions. Readouts read the logits of the whole vocabulary.

    Raises ConfigError for another family, for prompts and options that cannot be run, and without a
    threshold; what `live_rule` and `saved_rule` do; NonFiniteError naming prompt, position, loop.
    """
    options = checked_options("generate", GenerateConfig, options)
    config = GenerateConfig(**options)
    looped = _model(model, config)
    rule = _rule(looped, config)
    tokens = prompt_tokens(looped, prompts)
    found = []
    for start in range(0, len(tokens), config.batch):
        found += _continued(looped, rule, config, tokens[start : start + config.batch], start)
    return found


def _model(model: LoopedModel | str | os.PathLike[str], config: GenerateConfig) -> OuroModel:
    if not isinstance(model, str | os.PathLike):
        return require_caching(require_model(model))
    opened = load_model(
        model,
        device=config.device,
        dtype=config.dtype,
        cache_dir=config.cache_dir,
        revision=config.revision,
    )
    return require_caching(opened)


def _rule(model: OuroModel, config: GenerateConfig) -> LiveRule:
    given = math.nan if config.threshold == NEVER else config.threshold
    readout = config.readout
    if not isinstance(readout, Gate) and Path(readout).suffix == ".json":
        return saved_rule(model, load_readout(readout), threshold=given)
    if given is None:
        raise ConfigError(
            "a readout given by its name needs a threshold, in its unit (`trajdiag list readouts` "
            "names it), or threshold='never'"
        )
    named = readout if isinstance(readout, Gate) else os.fspath(readout)
    return live_rule(model, named, given, min_depth=config.min_depth)


def _continued(
    model: OuroModel,
    rule: LiveRule,
    config: GenerateConfig,
    prompts: Sequence[list[int]],
    before: int,
) -> Iterator[Generation]:
    """`prompts` side by side; so many come `before` them."""
    rows = CachedRows(
        model,
        rule,
        config.context,
        rows=len(prompts),
        name=lambda row: f"prompt {before + row + 1}",
        positions=max(map(len, prompts)) + min(config.max_new_tokens, _ROOM),
    )
    ends = _ends(model)
    most = np.array([_most(model, config, len(prompt)) for prompt in prompts])
    tokens: list[list[int]] = [[] for _ in prompts]
    depth: list[list[int]] = [[] for _ in prompts]
    going = np.arange(len(prompts))
    exits = rows.prefill(prompts)
    while True:
        going = _kept(going, exits, tokens, depth, most, ends)
        if not len(going):
            break
        if rows.held - len(going) >= DEAD * rows.held:
            rows.keep(going)
        exits = rows.step(going, [tokens[row][-1] for row in going])
    for row, prompt in enumerate(prompts):
        yield Generation(
            prompt=tuple(prompt),
            tokens=tuple(tokens[row]),
            text=_text(model, tokens[row], ends),
            exit_depth=tuple(depth[row]),
            loops_run=int(rows.loops_run[row]),
        )


def _kept(
    going: np.ndarray,
    exits: Exits,
    tokens: list[list[int]],
    depth: list[list[int]],
    most: np.ndarray,
    ends: frozenset[int],
) -> np.ndarray:
    """Keep what the rows `going` predicted, and give those that go on."""
    predicted = exits.prediction.tolist()
    for row, token, left in zip(going.tolist(), predicted, exits.depth.tolist(), strict=True):
        tokens[row].append(token)
        depth[row].append(left)
    goes = [tokens[row][-1] not in ends and len(tokens[row]) < most[row] for row in going]
    return going[np.array(goes)]


def _most(model: OuroModel, config: GenerateConfig, prompt: int) -> int:
    """Tokens that can follow a prompt of so many: the last of all is not read itself."""
    room = config.max_new_tokens
    return room if model.max_positions is None else min(room, model.max_positions - prompt + 1)


def _ends(model: OuroModel) -> frozenset[int]:
    """The tokens that end a text: the tokenizer's, else those that config.json names."""
    if model.tokenizer is not None and model.tokenizer.eos_token_id is not None:
        return frozenset([model.tokenizer.eos_token_id])
    config: Mapping[str, Any] = model.record.config
    named = config.get("eos_token_id")
    listed = named if isinstance(named, list) else [named]
    return frozenset(token for token in listed if type(token) is int)


def _text(model: OuroModel, tokens: list[int], ends: frozenset[int]) -> str | None:
    if model.tokenizer is None:
        return None
    return model.tokenizer.decode(tokens[:-1] if tokens[-1] in ends else tokens)
