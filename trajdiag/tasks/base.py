"""What a task is: decisions to be made, how hard each is, and which fit, select and test."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

IGNORE = -1
"""A training label that asks for nothing at its position."""


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Decisions as columns; an example's decision is read at its last real token."""

    input_ids: np.ndarray
    """int32 [example, position], right-padded with the task's pad id."""
    length: np.ndarray
    """int32 [example]: the number of real tokens; the decision position is `length - 1`."""
    target: np.ndarray
    """int64 [example]: the index of the right class."""
    difficulty: np.ndarray
    """float64 [example]."""
    group: np.ndarray
    """int64 [example]: the resampling unit; examples of one input, question or document share it,
    across splits too."""
    id: np.ndarray
    """str [example], unique over all splits."""
    input: np.ndarray
    """str [example]: the expression or prompt as text."""
    covariates: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Further numbers per example, such as parity's count of ones; float64 [example] each."""

    def __len__(self) -> int:
        return len(self.target)


@dataclass(frozen=True, kw_only=True)
class TrainingGroup:
    """Training rows of one length."""

    input_ids: np.ndarray
    """int64 [row, position], no padding; the answer is asked at the last position."""
    target: np.ndarray
    """int64 [row]: the class to answer."""
    dense: np.ndarray
    """int64 [row, position]: the class of the part completed at each earlier token, IGNORE
    elsewhere (and at the last position)."""
    difficulty: int


@runtime_checkable
class Task(Protocol):
    """A task makes its examples from its own seeds: the same on every machine."""

    @property
    def name(self) -> str:
        """The task's own name."""
        ...

    @property
    def class_ids(self) -> np.ndarray | None:
        """int64 [class]: the token of each class; None means that the classes are the whole
        vocabulary."""
        ...

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """What to call the classes, where they have names."""
        ...

    @property
    def vocab_size(self) -> int:
        """The vocabulary a model must have at least."""
        ...

    def parameters(self) -> dict[str, Any]:
        """Everything that determines the examples, as JSON values; the store keeps it, and
        `make_task(name, **parameters)` gives the same task back."""
        ...

    def examples(self) -> dict[str, Examples]:
        """The examples of each split, keyed by SPLITS in that order; a split may be missing."""
        ...

    def notes(self) -> dict[str, Any]:
        """Facts about the drawn examples that the store records, such as the overlap of splits."""
        ...


@runtime_checkable
class TrainableTask(Task, Protocol):
    """A task that can also generate an endless training stream."""

    @property
    def min_difficulty(self) -> int:
        """The least difficulty of its training rows."""
        ...

    @property
    def max_difficulty(self) -> int:
        """The greatest."""
        ...

    def training_batch(
        self, rng: np.random.Generator, rows: Mapping[int, int]
    ) -> list[TrainingGroup]:
        """Fresh rows, about `rows[difficulty]` of each difficulty, grouped by length."""
        ...
