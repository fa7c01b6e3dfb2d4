"""What a task in text gives, which may be a user's own code: checked before it is believed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import NoReturn, TypeVar, get_args

import numpy as np

from trajdiag.errors import ConfigError, shown
from trajdiag.foreign import running
from trajdiag.names import require_name
from trajdiag.store.schema import SPLITS
from trajdiag.tasks.foreign import named, require_class_names, require_task
from trajdiag.tasks.harness import Harness
from trajdiag.tasks.questions import Document, DocumentTask, Question, QuestionTask, Scoring, Style
from trajdiag.whole_text import is_whole

Item = TypeVar("Item", Question, Document)


def checked_questions(task: QuestionTask) -> dict[str, list[Question]]:
    """`task.questions()`, in the order of SPLITS.

    Raises ConfigError, naming split and question, unless all is as tasks.questions says; style,
    scoring and class_names too. Only lm-eval's data sets may have a choice twice, as some do.
    """
    splits = _items(task, "questions", Question)
    with running(f"questions() of task {task.name}"):
        first: set[str] | None = None
        for place, question in _placed(task, splits):
            _require_texts(place, question)
            _require_choices(place, question, twice=isinstance(task, Harness))
            names = _numbers(place, question)
            first = names if first is None else first
            if names != first:
                place.refuse(
                    f"its covariates are {sorted(names)}, those of the first question "
                    f"{sorted(first)}; they must be the same in all"
                )
        for name in first or ():
            require_name("covariate", name)
    for option, kind, wanted in (
        ("style", Style, "letter or continuation"),
        ("scoring", Scoring, "sum, tokens or chars"),
    ):
        with running(f"{option} of task {task.name}"):
            value = getattr(task, option)
            if not isinstance(value, str) or value not in get_args(kind):
                raise ConfigError(
                    f"task {task.name}: {option} must be {wanted}, not {shown(value)}"
                )
    longest = max((len(q.choices) for part in splits.values() for q in part), default=0)
    with running(f"class_names of task {task.name}"):
        # without a question there is nothing that they could fit
        if longest:
            require_class_names(task, longest)
    return splits


def checked_documents(task: DocumentTask) -> dict[str, list[Document]]:
    """`task.documents()`, in the order of SPLITS.

    Raises ConfigError, naming split and document, unless all is as tasks.questions says.
    """
    splits = _items(task, "documents", Document)
    with running(f"documents() of task {task.name}"):
        for place, document in _placed(task, splits):
            place.require_text("text", document.text)
    return splits


def checked_positions(
    task: DocumentTask, split: str, counts: np.ndarray, ids: Sequence[str] | None = None
) -> list[np.ndarray]:
    """`task.positions(split, counts)`, int64 [example of the document] each; `counts` int64
    [document], and `ids` the documents' for messages.

    Raises ConfigError, naming the document, unless each is ascending and within its count.
    """
    where = f"positions() of task {task.name}, split {split}"
    checked = []
    with running(where):
        found = task.positions(split, counts.copy())
        if not isinstance(found, list | tuple):
            raise ConfigError(f"{where}: must give a list of arrays, not {shown(found)}")
        if len(found) != len(counts):
            raise ConfigError(f"{where}: gave {len(found)} arrays for {len(counts)} documents")
        for number, (values, count) in enumerate(zip(found, counts.tolist(), strict=True), start=1):
            of = "document" + ("" if ids is None else f" {shown(ids[number - 1])}")
            item = f"{where}, {of} (number {number})"
            if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu":
                what = values.dtype if isinstance(values, np.ndarray) else shown(values)
                raise ConfigError(f"{item}: must be a numpy array of integers, not {what}")
            if values.ndim != 1:
                raise ConfigError(f"{item}: must be of one dimension, not of shape {values.shape}")
            if outside := values[(values < 0) | (values >= count)].tolist():
                raise ConfigError(
                    f"{item}: must be below {count}, its number of predictions, and not negative; "
                    f"got {outside[0]}"
                )
            checked.append(values.astype(np.int64))
            if (np.diff(checked[-1]) <= 0).any():
                raise ConfigError(f"{item}: must be ascending, got {shown(values.tolist())}")
    return checked


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where something was given, for messages."""

    task: str
    split: str
    item: str = ""
    number: int = 0
    """Counted from 1 in its split; 0 where it is the split that is meant."""
    id: str = ""

    def refuse(self, reason: str) -> NoReturn:
        of = f", {self.item} {shown(self.id)} (number {self.number})" if self.number else ""
        raise ConfigError(f"task {self.task}, split {self.split}{of}: {reason}")

    def require_text(self, what: str, value: object) -> None:
        if not isinstance(value, str):
            self.refuse(f"{what} must be text, not {shown(value)}")
        if not is_whole(value):
            self.refuse(f"{what} has half a character (a lone surrogate): {shown(value)}")


def _placed(
    task: QuestionTask | DocumentTask, splits: Mapping[str, list[Item]]
) -> Iterator[tuple[_Place, Item]]:
    """The items of all splits, each with its place."""
    for split, part in splits.items():
        for number, item in enumerate(part, start=1):
            kind = "question" if isinstance(item, Question) else "document"
            yield _Place(task=task.name, split=split, item=kind, number=number, id=item.id), item


def _items(
    task: QuestionTask | DocumentTask, method: str, kind: type[Item]
) -> dict[str, list[Item]]:
    """The splits that a task's method gives, each item of `kind` with an id of its own."""
    require_task(task)
    where, of_kind = f"{method}() of task {task.name}", kind.__name__
    seen: dict[str, str] = {}
    with running(where):
        found = getattr(task, method)()
        if not isinstance(found, Mapping):
            raise ConfigError(f"{where} must give a dict of lists of {of_kind}, not {shown(found)}")
        if odd := [split for split in found if split not in SPLITS]:
            names = ", ".join(map(named, odd))
            raise ConfigError(f"{where} has splits {names}; known are {', '.join(SPLITS)}")
        parts = {split: found[split] for split in SPLITS if split in found}
        for split, part in parts.items():
            place = _Place(task=task.name, split=split)
            if not isinstance(part, list | tuple):
                place.refuse(f"must be a list of {of_kind}, not {shown(part)}")
            for number, item in enumerate(part, start=1):
                what = f"{of_kind.lower()} number {number}"
                if not isinstance(item, kind):
                    place.refuse(f"{what} must be a {of_kind}, not {shown(item)}")
                place.require_text(f"the id of {what}", item.id)
                if not item.id.strip():
                    place.refuse(f"the id of {what} is empty")
                if item.id in seen:
                    place.refuse(f"the id of {what}, {shown(item.id)}, is that of {seen[item.id]}")
                seen[item.id] = f"number {number} of {split} too"
    return {split: list(part) for split, part in parts.items()}


def _require_choices(place: _Place, question: Question, *, twice: bool) -> None:
    """Raise ConfigError unless there is something to choose; `twice` lets choices be equal."""
    choices, answer = question.choices, question.answer
    if not isinstance(choices, list | tuple):
        place.refuse(f"choices must be a tuple of texts, not {shown(choices)}")
    if len(choices) < 2:
        place.refuse(f"a decision needs at least 2 choices, got {len(choices)}")
    seen: dict[str, int] = {}
    for index, choice in enumerate(choices):
        place.require_text(f"choice {index}", choice)
        plain = choice.strip()
        if not plain:
            place.refuse(f"choice {index} is empty")
        if seen.setdefault(plain, index) != index and not twice:
            place.refuse(f"choice {index} is choice {seen[plain]} again: {shown(choice)}")
    if not isinstance(answer, Integral) or isinstance(answer, bool):
        place.refuse(f"answer must be the index of the right choice, not {shown(answer)}")
    if not 0 <= answer < len(choices):
        place.refuse(f"the answer must be 0..{len(choices) - 1}, got {shown(answer)}")


def _require_texts(place: _Place, question: Question) -> None:
    place.require_text("prompt", question.prompt)
    place.require_text("delimiter", question.delimiter)
    if question.group is not None:
        place.require_text("group", question.group)


def _numbers(place: _Place, question: Question) -> set[str]:
    """The covariates' names. Raises ConfigError unless they and the difficulty are numbers."""
    number = _number(question.difficulty)
    if number is None or math.isinf(number):
        place.refuse(f"difficulty must be a number, or NaN, not {shown(question.difficulty)}")
    covariates: object = question.covariates
    if not isinstance(covariates, Mapping):
        place.refuse(f"covariates must be a mapping of names to numbers, not {shown(covariates)}")
    for name, value in covariates.items():
        place.require_text("a covariate's name", name)
        number = _number(value)
        if number is None or not math.isfinite(number):
            place.refuse(f"covariate {shown(name)} must be a finite number, not {shown(value)}")
    return set(covariates)


def _number(value: object) -> float | None:
    """`value` as a float; None where it is no number. A number beyond float is infinite."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
