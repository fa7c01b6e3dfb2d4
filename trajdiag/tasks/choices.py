"""Multiple-choice questions of a user's file."""

import math
import string
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from trajdiag.tasks.group_splits import draw_by_group
from trajdiag.tasks.options import name_with, require
from trajdiag.tasks.questions import Question, Scoring, Style
from trajdiag.tasks.records import (
    Record,
    RecordFile,
    by_split,
    given_splits,
    read_records,
    require_unique,
)

LETTERS = string.ascii_uppercase

KEYS = {
    "prompt": "text",
    "choices": "a list of two or more texts that differ in more than spaces around them",
    "answer": "the index of the right choice from 0, its text, or its letter A, B, ...",
    "id": "text or an integer; the record's line, or row, when absent",
    "group": "text or an integer: what is resampled and split together; itself when absent",
    "difficulty": "a finite number",
    "split": "fit, val or test, in all records or in none",
    "few_shot": "text put before the prompt as it is, or a list of {prompt, choices, answer}",
}
"""What a record may hold. Other keys are left out and noted."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Multiple-choice questions of a JSONL or Parquet file: records of prompt, choices, answer.

    KEYS lists what else a record may hold. An answer that is text is first the text of a choice,
    then a letter; where the two differ it is refused.
    """

    path: str
    """The file; Parquet by its suffix, else JSONL."""
    style: Style = "continuation"
    """continuation: each choice follows the prompt and is scored by its tokens. letter: the prompt
    goes on with a line `A. CHOICE` for each choice and `Answer:`, and the letters are scored; where
    the choices are A, B, ... themselves, the prompt is taken to list them and to ask."""
    scoring: Scoring = "chars"
    """Which score of a continuation decides: sum of log-probabilities, or that by its tokens or by
    its chars, which is what lm-eval calls acc_norm and does not depend on the tokenizer."""
    delimiter: str = " "
    """What stands between prompt and choice, in few-shot examples too."""
    seed: int = 0
    """Draws the splits, by group, where the file names none: half fit, a fifth val, three tenths
    test."""

    def __post_init__(self) -> None:
        require(self.style in get_args(Style), "style", "letter or continuation", self.style)
        require(self.scoring in get_args(Scoring), "scoring", "sum, tokens or chars", self.scoring)
        require(self.seed >= 0, "seed", "at least 0", self.seed)
        self._questions  # noqa: B018, so that a bad file is met before anything runs

    @property
    def name(self) -> str:
        """Tells files apart by their names."""
        return name_with("choices", self._file.path.stem)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The choices where all questions have the same; the letters in letter style."""
        kinds = {q.choices for part in self._questions.values() for q in part}
        longest = max(kinds, key=len)
        same = len(kinds) == 1 or self.style == "letter"
        return longest if same else None

    def parameters(self) -> dict[str, Any]:
        """The file by its name and its bytes, and the options."""
        return {
            "file": self._file.path.name,
            "sha256": self._file.sha256,
            "style": self.style,
            "scoring": self.scoring,
            "delimiter": self.delimiter,
            "seed": self.seed,
        }

    def questions(self) -> dict[str, list[Question]]:
        """In the file's order."""
        return self._questions

    def notes(self) -> dict[str, Any]:
        """Where the splits are from, and the keys that nothing reads."""
        keys = {str(key) for record in self._file.records for key in record.values}
        return {
            "splits": "drawn" if given_splits(self._file.records) is None else "from the file",
            "ignored_keys": sorted(keys - set(KEYS) - {"few-shot"}),
        }

    @cached_property
    def _file(self) -> RecordFile:
        return read_records(self.path)

    @cached_property
    def _questions(self) -> dict[str, list[Question]]:
        records = self._file.records
        questions = [self._question(record) for record in records]
        named = [(question.id, record) for question, record in zip(questions, records, strict=True)]
        require_unique("id", named)
        known = [not math.isnan(question.difficulty) for question in questions]
        if any(known) and not all(known):
            records[known.index(False)].refuse("difficulty must be in all records or in none")
        splits = given_splits(records) or draw_by_group(
            [f"id {q.id}" if q.group is None else f"group {q.group}" for q in questions], self.seed
        )
        return by_split(self.path, questions, splits)

    def _question(self, record: Record) -> Question:
        choices, answer = _choices(record)
        body, named = self._posed(record, choices)
        prompt = self._few_shot(record) + body
        if not prompt:
            record.refuse("the prompt is empty")
        return Question(
            id=record.label("id") or str(record.number),
            prompt=prompt,
            choices=named,
            answer=answer,
            delimiter=self.delimiter,
            group=record.label("group"),
            difficulty=record.number_of("difficulty"),
        )

    def _posed(self, record: Record, choices: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """The prompt in the task's style, without examples, and the choices to score."""
        prompt = record.text("prompt")
        if self.style == "letter":
            if len(choices) > len(LETTERS):
                record.refuse(f"letter style has at most 26 choices, not {len(choices)}")
            letters = tuple(LETTERS[: len(choices)])
            if choices == letters:
                return prompt, choices
            listed = "\n".join(f"{name}. {c}" for name, c in zip(LETTERS, choices, strict=False))
            return f"{prompt}\n{listed}\nAnswer:", letters
        if self.delimiter[-1:].isspace() and any(choice[0].isspace() for choice in choices):
            record.refuse(
                "a choice begins with a space of its own; take it away, or give "
                '--task-options.delimiter ""'
            )
        return prompt, choices

    def _few_shot(self, record: Record) -> str:
        """What stands before the prompt."""
        found = [key for key in ("few_shot", "few-shot") if record.values.get(key) is not None]
        if len(found) > 1:
            record.refuse("few_shot and few-shot are the same; give one")
        if not found:
            return ""
        shown = record.values[found[0]]
        if isinstance(shown, str):
            return record.plain(found[0], shown)
        if not isinstance(shown, list) or not all(isinstance(item, dict) for item in shown):
            record.refuse(f"{found[0]} must be text or a list of records, not {shown!r:.60}")
        examples = []
        for number, values in enumerate(shown, start=1):
            place = f"{record.place}, {found[0]} example {number}"
            example = Record(values=values, number=number, place=place)
            choices, answer = _choices(example)
            prompt, named = self._posed(example, choices)
            examples.append(f"{prompt}{self.delimiter}{named[answer]}\n\n")
        return "".join(examples)


def _choices(record: Record) -> tuple[tuple[str, ...], int]:
    """A record's choices, and the index of the right one."""
    found = record.required("choices")
    if not isinstance(found, list):
        record.refuse(f"choices must be a list of texts, not {found!r:.60}")
    choices = tuple(record.plain(f"choice {i}", choice) for i, choice in enumerate(found))
    if len(choices) < 2:
        record.refuse(f"a question needs at least 2 choices, not {len(choices)}")
    seen: dict[str, int] = {}
    for index, choice in enumerate(choices):
        plain = choice.strip()
        if not plain:
            record.refuse(f"choice {index} is empty")
        if seen.setdefault(plain, index) != index:
            record.refuse(f"choice {index} is choice {seen[plain]} again: {choice!r:.60}")
    return choices, _answer(record, choices)


def _answer(record: Record, choices: tuple[str, ...]) -> int:
    answer = record.required("answer")
    if type(answer) is int:
        if not 0 <= answer < len(choices):
            record.refuse(f"answer must be an index from 0 to {len(choices) - 1}, not {answer}")
        return answer
    if not isinstance(answer, str):
        record.refuse(
            f"answer must be an index, the text of a choice or its letter: {answer!r:.60}"
        )
    named = {choices.index(answer)} if answer in choices else set()
    if len(answer) == 1 and answer in LETTERS[: len(choices)]:
        named.add(LETTERS.index(answer))
    if len(named) > 1:
        record.refuse(f"answer {answer!r} is a choice and the letter of another; give its index")
    if not named:
        record.refuse(
            f"answer {answer!r:.60} is none of the {len(choices)} choices, nor a letter A to "
            f"{LETTERS[min(len(choices), 26) - 1]}"
        )
    return named.pop()
