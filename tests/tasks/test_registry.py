"""Tasks by name, and options as a command line gives them."""

import json
from pathlib import Path

import pytest

from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.tasks.arithmetic import Arithmetic
from trajdiag.tasks.base import Task
from trajdiag.tasks.choices import Choices
from trajdiag.tasks.mano import Mano
from trajdiag.tasks.parity import Parity
from trajdiag.tasks.questions import DocumentTask, QuestionTask
from trajdiag.tasks.registry import make_task, task_names
from trajdiag.tasks.text import Text

USERS_OWN = """
import numpy as np
from trajdiag.tasks.base import Examples

class Echo:
    name = "echo"
    class_ids = None
    class_names = None
    vocab_size = 4

    def __init__(self, rows=2):
        self.rows = int(rows)

    def parameters(self):
        return {"rows": self.rows}

    def examples(self):
        n = self.rows
        return {"test": Examples(
            input_ids=np.zeros((n, 1), np.int32), length=np.ones(n, np.int32),
            target=np.zeros(n, np.int64), difficulty=np.zeros(n), group=np.arange(n),
            id=np.arange(n).astype(str), input=np.full(n, "0"))}

    def notes(self):
        return {}

class NoTask:
    pass
"""


def test_the_built_in_tasks_are_listed_as_they_are_spelled() -> None:
    assert task_names() == [
        "arithmetic",
        "choices:PATH",
        "lm-eval:NAME",
        "mano",
        "parity",
        "text:PATH",
    ]
    assert make_task("mano") == Mano()
    assert isinstance(make_task("parity"), Task)
    assert isinstance(make_task("arithmetic"), QuestionTask)


def test_a_file_is_named_after_the_task_and_options_go_on_from_there(tmp_path: Path) -> None:
    quiz, book = tmp_path / "my:quiz.jsonl", tmp_path / "book.txt"
    quiz.write_text('{"prompt": "p", "choices": ["a", "b"], "answer": 0}\n', encoding="utf-8")
    book.write_text("Once upon a time", encoding="utf-8")
    chosen = make_task(f"choices:{quiz}", style="letter", seed="3")
    assert chosen == Choices(path=str(quiz), style="letter", seed=3)
    text = make_task(f"text:{book}", sample="5")
    assert text == Text(path=str(book), sample=5)
    assert isinstance(chosen, QuestionTask) and isinstance(text, DocumentTask)
    # Stores are named after them.
    assert (chosen.name, text.name) == ("choices-my-quiz", "text-book")


@pytest.mark.parametrize("name", ["choices", "choices:", "text", "text:", "lm-eval", "lm-eval:"])
def test_a_task_that_needs_a_file_or_name_says_how_it_is_spelled(name: str) -> None:
    with pytest.raises(ConfigError, match=r"is spelled (choices:PATH|text:PATH|lm-eval:NAME)"):
        make_task(name)


def test_the_file_is_given_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="task option path is given by the name already"):
        make_task("choices:quiz.jsonl", path="other.jsonl")


def test_an_option_that_may_be_absent_is_converted_too() -> None:
    with pytest.raises(ConfigError, match="task option num_fewshot must be a whole number, not"):
        make_task("lm-eval:arc_easy", num_fewshot="five")


def test_options_given_as_strings_take_their_fields_type() -> None:
    made = make_task("mano", modulus="23", length_token="true", operators="+-", seeds="1,2,3")
    assert made == Mano(modulus=23, length_token=True, operators="+-", seeds=(1, 2, 3))


@pytest.mark.parametrize(
    "task",
    [
        Mano(modulus=5, seeds=(7, 8, 9)),
        Parity(max_difficulty=9),
        Arithmetic(modulus=5, seeds=(7, 8, 9)),
    ],
)
def test_parameters_make_the_same_task_again_through_json(
    task: Mano | Parity | Arithmetic,
) -> None:
    parameters = json.loads(json.dumps(task.parameters()))
    assert make_task(task.name, **parameters) == task


def test_an_unknown_task_lists_those_that_exist() -> None:
    with pytest.raises(
        UnknownNameError, match=r"unknown task 'mono'; existing: arithmetic, choices:PATH"
    ):
        make_task("mono")


def test_a_misspelt_task_is_told_which_is_meant() -> None:
    with pytest.raises(UnknownNameError, match=r"'party', did you mean parity\? existing: arith"):
        make_task("party")
    with pytest.raises(UnknownNameError, match=r"Is it choices:quiz\.jsonl"):
        make_task("choises:quiz.jsonl")


def test_an_unknown_option_lists_those_that_exist() -> None:
    with pytest.raises(UnknownNameError, match=r"task parity 'modulus'; existing: fit, max_diff"):
        make_task("parity", modulus=3)


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("modulus", "seven", "a whole number, not 'seven'"),
        ("modulus", 2.5, "a whole number, not 2.5"),
        ("length_token", "perhaps", "true or false, not 'perhaps'"),
        ("seeds", "1,x,3", "a whole number, not 'x'"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(option: str, value: object, wanted: str) -> None:
    with pytest.raises(ConfigError, match=f"task option {option} must be {wanted}"):
        make_task("mano", **{option: value})


def test_a_users_own_class_is_found_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users_own.py").write_text(USERS_OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    task = make_task("users_own:Echo", rows="3")
    assert isinstance(task, Task)
    assert len(task.examples()["test"]) == 3
    with pytest.raises(UnknownNameError, match=r"'Ecko'; existing: Echo, NoTask$"):
        make_task("users_own:Ecko")
    with pytest.raises(ConfigError, match="NoTask is not a task"):
        make_task("users_own:NoTask")
    with pytest.raises(ConfigError, match=r"no module nowhere, neither in .* nor among the inst"):
        make_task("nowhere:Task")
