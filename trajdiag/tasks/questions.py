"""Tasks in text: questions with choices, and running text. A tokenizer turns them into tokens when
they are extracted, so that one task serves every language model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

Style = Literal["letter", "continuation"]
Scoring = Literal["sum", "tokens", "chars"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """A prompt, and the choices of what may follow it."""

    id: str
    """Unique over all splits."""
    prompt: str
    """Everything before the answer, few-shot examples included."""
    choices: tuple[str, ...]
    """The choices as they are named, without the space before them; at least two."""
    answer: int
    """The index of the right one."""
    delimiter: str = " "
    """What stands between prompt and choice."""
    group: str | None = None
    """The resampling unit; each question its own when None."""
    difficulty: float = float("nan")
    """NaN where unknown."""
    covariates: Mapping[str, float] = field(default_factory=dict)
    """Further numbers; the same names in every question of a task."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A text every token of which is predicted from those before it."""

    id: str
    text: str


class NamedTask(Protocol):
    """What every task has: see tasks.base.Task."""

    @property
    def name(self) -> str: ...

    def parameters(self) -> dict[str, Any]:
        """Everything that determines the examples, as JSON values, with no path of a machine."""
        ...

    def notes(self) -> dict[str, Any]:
        """Facts about the examples that the store records."""
        ...


@runtime_checkable
class QuestionTask(NamedTask, Protocol):
    """Multiple choice. An example is a question, a class one of its choices."""

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """What to call the choices, where they are the same in every question."""
        ...

    @property
    def style(self) -> Style:
        """`letter`: the prompt lists the choices and each is one token, so that one forward scores
        all by their logits. `continuation`: each choice is scored by its tokens'
        log-probabilities."""
        ...

    @property
    def scoring(self) -> Scoring:
        """Which score of a continuation decides: the sum of its tokens' log-probabilities, or that
        sum by its number of tokens or of characters (of the choice, without delimiter)."""
        ...

    def questions(self) -> dict[str, list[Question]]:
        """The questions of each split, keyed by SPLITS in that order; a split may be missing."""
        ...


@runtime_checkable
class DocumentTask(NamedTask, Protocol):
    """Running text. An example is a token, its target the next token, its group the document."""

    def documents(self) -> dict[str, list[Document]]:
        """The documents of each split, keyed by SPLITS in that order; a split may be missing."""
        ...

    def positions(self, split: str, tokens: np.ndarray) -> list[np.ndarray]:
        """Which tokens of each document are examples, given how many predictions each document has,
        `tokens` int64 [document]: ascending indices below it, int64 [example of the document].

        The prediction of index i is made at token i of the document, of token i + 1.
        """
        ...
