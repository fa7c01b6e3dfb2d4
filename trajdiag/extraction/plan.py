"""A task and a model into work, and what the store is to hold of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trajdiag.errors import CheckpointError, ConfigError
from trajdiag.extraction import vocabulary
from trajdiag.extraction.config import ExtractConfig
from trajdiag.extraction.documents import document_work
from trajdiag.extraction.encoder import Encoder
from trajdiag.extraction.examples import example_work
from trajdiag.extraction.head import head_to_keep
from trajdiag.extraction.prompts import LengthRule
from trajdiag.extraction.questions import question_work
from trajdiag.extraction.token_texts import tokens_file
from trajdiag.extraction.work import Classes, Continuations, Letters, Work
from trajdiag.models.base import LoopedModel, Tokenizer
from trajdiag.models.config import trajdiag_section
from trajdiag.models.own import FAMILY
from trajdiag.models.tokenizer import require_fits
from trajdiag.signals.registry import signals_to_keep
from trajdiag.store.compression import LEVEL
from trajdiag.store.head import SavedHead
from trajdiag.store.schema import (
    CONTINUATION_GATE,
    SCORE,
    ArraySpec,
    LoopArray,
    block_specs,
    trajectory_arrays,
    vocabulary_arrays,
)
from trajdiag.tasks.foreign import facts, require_classes
from trajdiag.tasks.questions import DocumentTask, QuestionTask
from trajdiag.tasks.registry import AnyTask, make_task, task_names

DEFAULT = "arithmetic"
"""The task of a model that reads text and names none of its own."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be run, and kept."""

    work: Work
    specs: Mapping[str, ArraySpec]
    vocabulary: str | None
    """Which logits of the vocabulary are kept: see `vocabulary_arrays`."""
    head: SavedHead | None
    """What gives them again, where they are not."""
    tokens: bytes | None
    """The content of tokens.json, where the classes are the tokens of a text's vocabulary."""
    classes: int | None
    """The number of classes, where their logits are not kept."""
    notes: dict[str, Any]
    said: list[str]
    """Lines for the user."""


def own_task(model: LoopedModel) -> dict[str, Any] | None:
    """Name and parameters of the task that a checkpoint says it was trained on, if it says so."""
    own = trajdiag_section(model.record.config).get("task")
    if own is None:
        return None
    whole = isinstance(own, dict) and isinstance(own.get("parameters"), dict)
    if not whole or not isinstance(own.get("name"), str):
        raise CheckpointError(
            f"config.json of model {model.record.name}: trajdiag.task must hold a name and "
            f"parameters, got {own!r:.80}"
        )
    return own


def named_task(config: ExtractConfig, model: LoopedModel, own: Mapping[str, Any] | None) -> AnyTask:
    """The task that `config` names; without a name, the model's own, else the default."""
    options = dict(config.task_options)
    if config.num_fewshot is not None:
        options["num_fewshot"] = config.num_fewshot
    if own is not None and config.task in (None, own["name"]):
        return make_task(own["name"], **{**own["parameters"], **options})
    if config.task is None and model.tokenizer is None:
        raise ConfigError(
            f"model {config.model} names no task of its own and reads no text (it has no "
            f"tokenizer.json); choose one with --task: {', '.join(task_names())}, or "
            "package.module:Class"
        )
    return make_task(config.task or DEFAULT, **options)


def require_suited(config: ExtractConfig, model: LoopedModel, task: AnyTask) -> None:
    """Raise ConfigError where the model cannot answer the task."""
    if isinstance(task, QuestionTask | DocumentTask):
        require_fits(tokenizer_of(model, task), model.vocab_size, model.record.name)
        if isinstance(task, DocumentTask) and config.pool != "last":
            raise ConfigError(f"task {task.name} reads the state of each token: --pool last")
        return
    require_classes(task)
    if task.vocab_size > model.vocab_size:
        raise ConfigError(
            f"task {task.name} needs a vocabulary of {task.vocab_size}, model {config.model} has "
            f"{model.vocab_size}; choose a model trained on it"
        )


def tokenizer_of(model: LoopedModel, task: AnyTask) -> Tokenizer:
    """The model's tokenizer. Raises ConfigError where it has none."""
    if model.tokenizer is None:
        own = model.record.family == FAMILY
        lack = "`tokenizer`" if own else "tokenizer.json beside its weights"
        raise ConfigError(
            f"task {task.name} is in text, and model {model.record.name} has no {lack}; add one, "
            "or choose a task of tokens"
        )
    return model.tokenizer


def plan(config: ExtractConfig, model: LoopedModel, task: AnyTask, loops: int, dtype: str) -> Plan:
    """Everything but the forward. Raises ConfigError where the task does not hold together."""
    rule = length_rule(config, model)
    work = work_of(config, model, task, rule)
    kept = vocabulary.Kept(logits=None, said="")
    whole = isinstance(work.decision, Classes) and work.decision.ids is None
    classes = _classes(work, model)
    if isinstance(task, QuestionTask | DocumentTask) or config.logits != "auto":
        kept = vocabulary.choose(
            config.logits,
            vocab_size=model.vocab_size,
            examples=len(work),
            loops=loops,
            budget=config.logits_budget,
        )
    # where the classes are the vocabulary, its logits are the task's
    keeps_classes = not whole or kept.logits in ("full", None)
    arrays = trajectory_arrays(
        d_model=model.d_model,
        dtype=dtype,
        classes=classes if keeps_classes else None,
        gate=model.has_gate,
    )
    arrays += _extra_arrays(work, model, classes)
    of_vocabulary = vocabulary_arrays(kept.logits, model.vocab_size)
    arrays += [array for array in of_vocabulary if not (whole and array.dimension == "token")]
    return Plan(
        work=work,
        specs=block_specs(
            arrays,
            examples=len(work),
            loops=loops,
            signals=signals_to_keep(loops, logits_kept=keeps_classes),
            zstd=LEVEL if config.compress == "zstd" else None,
        ),
        vocabulary=kept.logits,
        head=head_to_keep(config, model) if kept.logits == "none" else None,
        tokens=tokens_file(Encoder(tokenizer_of(model, task), model.vocab_size), classes)
        if isinstance(task, DocumentTask)
        else None,
        classes=None if keeps_classes else classes,
        notes={**facts(task, "notes"), **rule.notes()},
        said=[line for line in (*_said(rule), kept.said) if line],
    )


def length_rule(config: ExtractConfig, model: LoopedModel) -> LengthRule:
    """What becomes of rows that are longer than the model takes."""
    return LengthRule(longest=model.max_positions, rule=config.too_long)


def work_of(config: ExtractConfig, model: LoopedModel, task: AnyTask, rule: LengthRule) -> Work:
    """The task in the model's tokens. Raises ConfigError where it does not hold together."""
    if isinstance(task, QuestionTask):
        encode = Encoder(tokenizer_of(model, task), model.vocab_size)
        return question_work(task, encode, rule, inputs=config.inputs)
    if isinstance(task, DocumentTask):
        window = min(config.window, model.max_positions or config.window)
        encode = Encoder(tokenizer_of(model, task), model.vocab_size)
        return document_work(task, encode, window, inputs=config.inputs)
    work = example_work(task, inputs=config.inputs)
    longest = int(work.row_length.max())
    if model.max_positions is not None and longest > model.max_positions:
        at = work.columns.id[int(work.row_length.argmax())]
        raise ConfigError(
            f"example {at} of task {task.name} has {longest} tokens, model {config.model} takes "
            f"{model.max_positions}; make it shorter, or choose another model"
        )
    return work


def _classes(work: Work, model: LoopedModel) -> int:
    decision = work.decision
    if isinstance(decision, Letters):
        return decision.ids.shape[1]
    if isinstance(decision, Continuations):
        return decision.entry.shape[1]
    return model.vocab_size if decision.ids is None else len(decision.ids)


def _extra_arrays(work: Work, model: LoopedModel, classes: int) -> list[LoopArray]:
    """What continuations leave beside their deciding score."""
    if not isinstance(work.decision, Continuations):
        return []
    arrays = [
        LoopArray(name=SCORE + name, dtype="float32", size=classes, dimension="class")
        for name in ("sum", "tokens", "chars")
    ]
    return arrays + [LoopArray(name=CONTINUATION_GATE, dtype="float32")] * model.has_gate


def _said(rule: LengthRule) -> list[str]:
    return [
        f"{count:,} prompts longer than the model's {rule.longest:,} tokens were {what}"
        for what, count in (
            ("cut from the left", rule.truncated),
            ("left out", rule.skipped),
        )
        if count
    ]
