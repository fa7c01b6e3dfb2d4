"""Tasks in text of a user's own: what they may give, and every odd thing named in one line."""

import math
import time
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.local_benchmark import sums, write_benchmark
from trajdiag.errors import ConfigError
from trajdiag.tasks.arithmetic import Arithmetic
from trajdiag.tasks.given import checked_documents, checked_positions, checked_questions
from trajdiag.tasks.harness import Harness
from trajdiag.tasks.questions import Document, Question
from trajdiag.tasks.text import Text

YES = Question(id="yes", prompt="Is it?", choices=("Yes", "No"), answer=0)
NO = Question(id="no", prompt="Is it not?", choices=("Yes", "No"), answer=1)
HALF = "\ud83d"


@dataclass
class Quiz:
    """A user's task; `given` is what its questions() gives, or raises."""

    given: Any = field(default_factory=lambda: {"fit": [YES], "test": [NO]})
    style: Any = "continuation"
    scoring: Any = "sum"
    class_names: Any = None
    name: Any = "quiz"

    def parameters(self) -> dict[str, Any]:
        return {}

    def notes(self) -> dict[str, Any]:
        return {}

    def questions(self) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


@dataclass
class Notes:
    """A user's documents, and what positions() gives for them."""

    given: Any = field(default_factory=lambda: {"test": [Document(id="a", text="x y")]})
    chosen: Any = None
    name: Any = "notes"

    def parameters(self) -> dict[str, Any]:
        return {}

    def notes(self) -> dict[str, Any]:
        return {}

    def documents(self) -> Any:
        return self.given

    def positions(self, split: str, tokens: np.ndarray) -> Any:
        tokens[:] = 0  # of its own
        return self.chosen


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        call(*arguments)
    message = str(caught.value)
    assert message.isprintable() and len(message) < 300
    return message


def test_questions_come_back_in_the_order_of_the_splits() -> None:
    others = [replace(NO, id=f"{i}", choices=["a", "b", "c"]) for i in range(2)]
    task = Quiz({"test": (NO,), "fit": [YES], "val": others}, class_names=("x", "y", "z"))
    found = checked_questions(task)
    assert found == {"fit": [YES], "val": others, "test": [NO]}
    assert list(found) == ["fit", "val", "test"]


@pytest.mark.parametrize("difficulty", [3, -0.5, math.nan, np.float32(2), np.int64(2)])
def test_what_counts_as_a_number_is_taken(difficulty: Any) -> None:
    question = replace(
        YES, difficulty=difficulty, answer=np.int64(1), covariates={"a b": Fraction(1, 3)}
    )
    assert checked_questions(Quiz({"test": [question]})) == {"test": [question]}


def test_the_built_in_tasks_pass(tmp_path: Path) -> None:
    arithmetic = Arithmetic(fit=60, val=30, test=30)
    assert checked_questions(arithmetic) == arithmetic.questions()
    book = tmp_path / "book.txt"
    book.write_text("Once upon a time\n\nthere was", encoding="utf-8")
    text = Text(path=str(book), sample=3)
    assert checked_documents(text) == text.documents()
    positions = checked_positions(text, "test", np.array([9]))
    np.testing.assert_array_equal(positions, text.positions("test", np.array([9])))


def test_a_data_set_of_lm_eval_may_have_a_choice_twice(tmp_path: Path) -> None:
    task = Harness(task="sums", include_path=write_benchmark(tmp_path, "sums", {"test": sums(2)}))
    question = task.questions()["test"][0]
    again = replace(question, choices=(question.choices[0],) * 2, answer=1)
    task.__dict__["_questions"] = ({"test": [again]}, 0)
    assert checked_questions(task) == {"test": [again]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "questions() of task quiz must give a dict of lists of Question, not None"),
        (
            [YES],
            "task quiz must give a dict of lists of Question, not [Question(id='yes'",
        ),
        ((q for q in [YES]), "must give a dict of lists of Question, not <generator "),
        ({"train": [YES]}, "questions() of task quiz has splits train; known are fit, val, test"),
        ({"test": [YES], 0: [NO]}, "questions() of task quiz has splits 0; known are"),
        ({"test": None}, "task quiz, split test: must be a list of Question, not None"),
        ({"test": "Yes"}, "task quiz, split test: must be a list of Question, not 'Yes'"),
        ({"test": iter([YES])}, "split test: must be a list of Question, not <list_iterator"),
        ({"test": {"a": YES}}, "split test: must be a list of Question, not {'a': "),
        (
            {"test": [YES, {"id": 1}]},
            "test: question number 2 must be a Question, not {'id': 1}",
        ),
        ({"test": [Document(id="a", text="")]}, "number 1 must be a Question, not Document(id='a'"),
        (
            {"test": [YES, NO], "fit": [YES]},
            "split test: the id of question number 1, 'yes', is that of number 1 of fit too",
        ),
        (ValueError("a\nb"), "questions() of task quiz failed: ValueError: a b (test_given.py:"),
    ],
)
def test_what_is_no_splits_of_questions_is_refused(given: Any, said: str) -> None:
    assert said in refusal(checked_questions, Quiz(given))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": 3}, "the id of question number 2 must be text, not 3"),
        ({"id": " "}, "the id of question number 2 is empty"),
        ({"id": HALF}, "the id of question number 2 has half a character (a lone surrogate): '"),
    ],
)
def test_an_id_is_text_of_its_own(changes: dict[str, Any], said: str) -> None:
    task = Quiz({"test": [YES, replace(NO, **changes)]})
    assert refusal(checked_questions, task).startswith(f"task quiz, split test: {said}")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompt": None}, "prompt must be text, not None"),
        ({"prompt": b"Is it?"}, "prompt must be text, not b'Is it?'"),
        ({"prompt": HALF}, "prompt has half a character"),
        ({"choices": "YN"}, "choices must be a tuple of texts, not 'YN'"),
        ({"choices": None}, "choices must be a tuple of texts, not None"),
        ({"choices": {"Yes", "No"}}, "choices must be a tuple of texts, not {"),
        (
            {"choices": np.array(["Yes", "No"])},
            "choices must be a tuple of texts, not array(",
        ),
        ({"choices": ("Yes",)}, "a decision needs at least 2 choices, got 1"),
        ({"choices": ("Yes", 2)}, "choice 1 must be text, not 2"),
        ({"choices": ("Yes", " \t")}, "choice 1 is empty"),
        ({"choices": ("Yes", "No", "No")}, "choice 2 is choice 1 again: 'No'"),
        ({"choices": ("Yes", "No", "Yes ")}, "choice 2 is choice 0 again: 'Yes '"),
        ({"choices": ("Yes", HALF)}, "choice 1 has half a character"),
        ({"answer": True}, "answer must be the index of the right choice, not True"),
        ({"answer": 1.0}, "answer must be the index of the right choice, not 1.0"),
        ({"answer": "No"}, "answer must be the index of the right choice, not 'No'"),
        ({"answer": None}, "answer must be the index of the right choice, not None"),
        ({"answer": np.array([1])}, "answer must be the index of the right choice, not array([1])"),
        ({"answer": 2}, "the answer must be 0..1, got 2"),
        ({"answer": -1}, "the answer must be 0..1, got -1"),
        ({"answer": 10**5000}, "the answer must be 0..1, got an int too long to show"),
        ({"delimiter": None}, "delimiter must be text, not None"),
        ({"delimiter": HALF}, "delimiter has half a character"),
        ({"group": 3}, "group must be text, not 3"),
        ({"group": HALF}, "group has half a character"),
        ({"difficulty": None}, "difficulty must be a number, or NaN, not None"),
        ({"difficulty": "3"}, "difficulty must be a number, or NaN, not '3'"),
        ({"difficulty": True}, "difficulty must be a number, or NaN, not True"),
        ({"difficulty": math.inf}, "difficulty must be a number, or NaN, not inf"),
        (
            {"difficulty": np.float32("-inf")},
            "difficulty must be a number, or NaN, not ",
        ),
        ({"difficulty": 10**400}, "difficulty must be a number, or NaN, not 1000"),
        ({"covariates": None}, "covariates must be a mapping of names to numbers, not None"),
        (
            {"covariates": [("a", 1)]},
            "covariates must be a mapping of names to numbers, not [(",
        ),
        ({"covariates": {1: 1.0}}, "a covariate's name must be text, not 1"),
        ({"covariates": {"a": math.nan}}, "covariate 'a' must be a finite number, not nan"),
        ({"covariates": {"a": "1"}}, "covariate 'a' must be a finite number, not '1'"),
        (
            {"covariates": {"a": 1.0}},
            "its covariates are ['a'], those of the first question []; they must be the same",
        ),
    ],
)
def test_a_bad_question_is_named_by_split_id_and_number(changes: Any, said: str) -> None:
    task = Quiz({"fit": [YES], "test": [replace(YES, id="1"), replace(NO, id="a\nb", **changes)]})
    message = refusal(checked_questions, task)
    assert message.startswith(rf"task quiz, split test, question 'a\nb' (number 2): {said}")


def test_a_covariate_can_be_a_files_name() -> None:
    question = replace(YES, covariates={"a/b": 1.0})
    assert "covariate's name must be" in refusal(checked_questions, Quiz({"test": [question]}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"style": "letters"}, "task quiz: style must be letter or continuation, not 'letters'"),
        ({"style": None}, "task quiz: style must be letter or continuation, not None"),
        ({"scoring": np.zeros(2)}, "scoring must be sum, tokens or chars, not array([0., 0.])"),
        ({"class_names": "YN"}, "class_names must be a tuple of 2 texts, or None, not 'YN'"),
        (
            {"class_names": ["Yes", "No"]},
            "a tuple of 2 texts, or None, not ['Yes', 'No']",
        ),
        (
            {"class_names": ("Yes",)},
            "a tuple of 2 texts, or None, not ('Yes',)",
        ),
        ({"class_names": ("Yes", 1)}, "class_names must be a tuple of 2 texts"),
        ({"class_names": ("Yes", HALF)}, "class_names must be a tuple of 2 texts"),
        ({"name": None}, "task Quiz: its name must be printable text, not None"),
        ({"name": ""}, "task Quiz: its name must be printable text, not ''"),
        ({"name": "a\nb"}, r"task Quiz: its name must be printable text, not 'a\nb'"),
    ],
)
def test_what_a_task_says_of_itself_is_checked(changes: Any, said: str) -> None:
    assert said in refusal(checked_questions, Quiz(**changes))


@pytest.mark.parametrize("attribute", ["name", "style", "scoring", "class_names", "questions"])
def test_a_property_that_raises_names_the_line(attribute: str) -> None:
    def boom(self: Any) -> Any:
        raise RuntimeError("boom")

    broken = type("Broken", (Quiz,), {attribute: property(boom, lambda self, value: None)})
    assert "failed: RuntimeError: boom (test_given.py:" in refusal(checked_questions, broken())


def test_a_question_whose_own_code_raises_names_the_task() -> None:
    class Lazy(Question):
        @property
        def prompt(self) -> str:  # type: ignore[override]
            raise KeyError("text")

        @prompt.setter
        def prompt(self, value: str) -> None: ...

    lazy = object.__new__(Lazy)
    object.__setattr__(lazy, "id", "1")
    message = refusal(checked_questions, Quiz({"test": [lazy]}))
    assert message.startswith("questions() of task quiz failed: KeyError: 'text' (test_given.py:")


def test_many_questions_take_no_time() -> None:
    many = [
        Question(
            id=f"{i}",
            prompt="What follows? " * 40,
            choices=("one", "two", "three", "four"),
            answer=i % 4,
            covariates={"a": 1.0},
        )
        for i in range(20_000)
    ]
    start = time.process_time()
    checked_questions(Quiz({"test": many}))
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "documents() of task notes must give a dict of lists of Document, not None"),
        ({"dev": []}, "documents() of task notes has splits dev; known are fit, val, test"),
        ({"test": ["x y"]}, "split test: document number 1 must be a Document, not 'x y'"),
        ({"test": [Document(id="", text="x")]}, "split test: the id of document number 1 is empty"),
        (
            {"fit": [Document(id="a", text="x")], "test": [Document(id="a", text="y")]},
            "split test: the id of document number 1, 'a', is that of number 1 of fit too",
        ),
        (
            {"test": [Document(id="a", text=b"x")]},  # type: ignore[arg-type]
            "task notes, split test, document 'a' (number 1): text must be text, not b'x'",
        ),
        ({"test": [Document(id="a", text=HALF)]}, "document 'a' (number 1): text has half a"),
    ],
)
def test_a_bad_document_is_named(given: Any, said: str) -> None:
    assert said in refusal(checked_documents, Notes(given))
    good = {"test": [Document(id="a", text="")]}
    assert checked_documents(Notes(good)) == good


def test_positions_are_int64_and_the_counts_stay_as_they_are() -> None:
    counts = np.array([3, 0])
    chosen = [np.array([0, 2], np.uint8), np.array([], np.int32)]
    found = checked_positions(Notes(chosen=chosen), "test", counts)
    assert [values.tolist() for values in found] == [[0, 2], []]
    assert {values.dtype for values in found} == {np.dtype(np.int64)}
    assert counts.tolist() == [3, 0]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (None, ": must give a list of arrays, not None"),
        (np.zeros((1, 2), int), ": must give a list of arrays, not array([[0, 0]])"),
        ([], ": gave 0 arrays for 1 documents"),
        ([[0, 1]], ", document 'a' (number 1): must be a numpy array of integers, not [0, 1]"),
        ([np.array([True])], "(number 1): must be a numpy array of integers, not bool"),
        ([np.array([0.0])], "(number 1): must be a numpy array of integers, not float64"),
        ([np.zeros((1, 1), int)], "must be of one dimension, not of shape (1, 1)"),
        ([np.array(1)], "must be of one dimension, not of shape ()"),
        ([np.array([1, 0])], "must be ascending, got [1, 0]"),
        ([np.array([1, 1], np.uint64)], "must be ascending, got [1, 1]"),
        ([np.array([0, 3])], "must be below 3, its number of predictions, and not negative; got 3"),
        ([np.array([-1, 2])], "must be below 3, its number of predictions, and not negative; got "),
        ([np.array([2**64 - 1], np.uint64)], "must be below 3"),
    ],
)
def test_bad_positions_name_the_document(chosen: Any, said: str) -> None:
    message = refusal(checked_positions, Notes(chosen=chosen), "test", np.array([3]), ["a"])
    assert message.startswith("positions() of task notes, split test") and said in message
