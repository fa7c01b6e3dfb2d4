"""A task of questions into work."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from trajdiag.errors import ConfigError
from trajdiag.extraction.encoder import Encoder
from trajdiag.extraction.prompts import (
    Encoded,
    LengthRule,
    continuations,
    letters,
)
from trajdiag.extraction.work import Continuations, Letters, Work, one_row_each, starts
from trajdiag.store.columns import Columns
from trajdiag.store.schema import SPLITS
from trajdiag.tasks.given import checked_questions
from trajdiag.tasks.questions import Question, QuestionTask

Item = TypeVar("Item")


def ordered(task: str, splits: Mapping[str, Sequence[Item]], what: str) -> list[tuple[str, Item]]:
    """The items of fit, val and test, in that order, each with its split. Raises ConfigError where
    there is nothing to report on."""
    if not splits.get("test"):
        held = ", ".join(split for split, items in splits.items() if items) or "none"
        raise ConfigError(
            f"task {task} has no test {what}, on which all results are reported; splits that have "
            f"some: {held}"
        )
    return [(split, item) for split in SPLITS for item in splits.get(split, ())]


def question_work(task: QuestionTask, encode: Encoder, rule: LengthRule, *, inputs: bool) -> Work:
    """The work of a task of questions.

    Raises ConfigError naming the question that is not as it should be, whose choices cannot be told
    apart by their tokens, or whose prompt is too long.
    """
    splits = checked_questions(task)
    pose = letters if task.style == "letter" else continuations
    encoded: list[Encoded] = []
    kept: dict[str, list[Question]] = {}
    for number, (split, question) in enumerate(ordered(task.name, splits, "questions")):
        where = f"question {question.id} (number {number + 1}) of task {task.name}"
        if (found := pose(where, question, encode, rule)) is not None:
            encoded.append(found)
            kept.setdefault(split, []).append(question)
    placed = ordered(task.name, kept, "questions that fit the model's context")
    questions = [question for _, question in placed]
    classes = max(len(question.choices) for question in questions)
    rows = [row for found in encoded for row in found.rows]
    unit_rows = starts([len(found.rows) for found in encoded])
    first = np.array([found.row[0] for found in encoded], np.int64)
    names = task.class_names
    return Work(
        tokens=np.fromiter((token for row in rows for token in row), np.int32),
        row_start=starts([len(row) for row in rows]),
        unit_rows=unit_rows,
        unit_examples=one_row_each(len(questions)),
        row=unit_rows[:-1] + first,
        at=np.array([found.at for found in encoded], np.int64),
        decision=_letters(encoded, classes)
        if task.style == "letter"
        else _continuations(task, questions, encoded, unit_rows, classes),
        columns=_columns(placed, inputs=inputs),
        class_names=names if names is not None and len(names) == classes else None,
    )


def _letters(encoded: Sequence[Encoded], classes: int) -> Letters:
    ids = np.full((len(encoded), classes), -1, np.int64)
    for line, found in zip(ids, encoded, strict=True):
        line[: len(found.tokens)] = [tokens[0] for tokens in found.tokens]
    return Letters(ids=ids)


def _continuations(
    task: QuestionTask,
    questions: Sequence[Question],
    encoded: Sequence[Encoded],
    unit_rows: np.ndarray,
    classes: int,
) -> Continuations:
    counts = np.array([len(found.tokens) for found in encoded])
    entry = np.full((len(encoded), classes), -1, np.int64)
    entry[np.arange(classes) < counts[:, None]] = np.arange(counts.sum())
    following = [tokens for found in encoded for tokens in found.tokens]
    within = np.array([row for found in encoded for row in found.row], np.int64)
    return Continuations(
        entry=entry,
        row=np.repeat(unit_rows[:-1], counts) + within,
        at=np.array([start for found in encoded for start in found.starts], np.int64),
        tokens=np.fromiter((token for tokens in following for token in tokens), np.int32),
        start=starts([len(tokens) for tokens in following]),
        chars=np.array([len(choice) for q in questions for choice in q.choices], np.int64),
        scoring=task.scoring,
    )


def _columns(kept: Sequence[tuple[str, Question]], *, inputs: bool) -> Columns:
    questions = [question for _, question in kept]
    return Columns(
        target=np.array([question.answer for question in questions], np.int64),
        difficulty=np.array([question.difficulty for question in questions], np.float64),
        group=group_numbers(("id", q.id) if q.group is None else q.group for q in questions),
        split=np.array([split for split, _ in kept]),
        id=np.array([question.id for question in questions], object),
        input=np.array([question.prompt for question in questions], object) if inputs else None,
        covariates={
            name: np.array([question.covariates[name] for question in questions], np.float64)
            for name in sorted(questions[0].covariates)
        },
    )


def group_numbers(names: Iterable[Hashable]) -> np.ndarray:
    """int64 [example]: equal names, equal numbers, in the order in which they come."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
