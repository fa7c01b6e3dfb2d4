"""Arithmetic in text: right answers, balance, splits that share nothing."""

import hashlib
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from trajdiag.errors import ConfigError
from trajdiag.tasks.arithmetic import Arithmetic
from trajdiag.tasks.questions import Question, QuestionTask

SMALL: dict[str, Any] = {"fit": 240, "val": 120, "test": 120}
DIGEST = "74899d7e12ca3da2a1888fcc00b3808a84057af05066086dad159670a087a9a3"

ASKED = re.compile(r"Question: What is ([-+*() \d]+) mod (\d+)\?\nAnswer:")


def solved(expression: str, modulus: str) -> int:
    return eval(expression, {"__builtins__": {}}) % int(modulus)


def every(task: Arithmetic) -> list[Question]:
    return [question for part in task.questions().values() for question in part]


@pytest.mark.parametrize(
    "task",
    [
        Arithmetic(**SMALL),
        Arithmetic(modulus=10, max_operand=30, max_difficulty=6, num_fewshot=7, **SMALL),
        Arithmetic(modulus=2, operators="*-", min_difficulty=3, num_fewshot=0, **SMALL),
    ],
)
def test_questions_and_examples_have_the_answers_that_python_gives(task: Arithmetic) -> None:
    assert isinstance(task, QuestionTask)
    for question in every(task):
        *shown, (expression, modulus) = ASKED.findall(question.prompt)
        assert question.answer == solved(expression, modulus)
        assert question.choices[question.answer] == str(question.answer)
        expected = "".join(
            f"Question: What is {e} mod {m}?\nAnswer: {solved(e, m)}\n\n" for e, m in shown
        )
        assert (
            question.prompt == f"{expected}Question: What is {expression} mod {modulus}?\nAnswer:"
        )
        assert len(shown) == task.num_fewshot and int(modulus) == task.modulus


def test_every_operation_has_its_own_parentheses() -> None:
    for question in every(Arithmetic(**SMALL)):
        expression = ASKED.findall(question.prompt)[-1][0]
        assert question.group == expression
        operations = len(re.findall(r" [-+*] ", expression))
        assert question.difficulty == operations == expression.count("(") == expression.count(")")


def test_splits_are_balanced_by_operation_count_and_answer() -> None:
    for questions in Arithmetic(fit=560, val=280, test=280).questions().values():
        counts = Counter((q.difficulty, q.answer) for q in questions)
        assert set(counts.values()) == {len(questions) // 28} and len(counts) == 28


def test_no_expression_is_in_two_splits_or_among_the_examples() -> None:
    task = Arithmetic(fit=1200, val=600, test=1200)
    asked = [{q.group for q in part} for part in task.questions().values()]
    shown = {
        expression
        for question in every(task)
        for expression, _ in ASKED.findall(question.prompt)[:-1]
    }
    assert len(set().union(shown, *asked)) == len(shown) + sum(map(len, asked))
    distinct = task.notes()["distinct_expressions"]
    assert [row["difficulty"] for row in distinct] == [1, 2, 3, 4]
    assert sum(row["val"] for row in distinct) == len(asked[1])
    # 300 expressions have one operation, three tenths and more are left for 300 questions.
    assert 60 < distinct[0]["test"] < 150 and distinct[3]["test"] > 290


def test_a_rare_answer_does_not_stop_the_draw() -> None:
    # Products mod 10 of one-digit factors: 7 times only 4 of 100 are 1.
    questions = Arithmetic(operators="*", modulus=10, max_difficulty=1, **SMALL).questions()
    assert {split: len(part) for split, part in questions.items()} == SMALL


def test_examples_before_a_question_go_from_easy_to_hard_and_differ_between_questions() -> None:
    questions = Arithmetic(**SMALL).questions()["test"]
    for question in questions:
        shown = [e.count("(") for e, _ in ASKED.findall(question.prompt)[:-1]]
        assert shown == [1, 2, 3, 4]
    assert len({q.prompt.rpartition("Question")[0] for q in questions}) > 100


def test_ids_are_unique_and_choices_are_the_residues() -> None:
    task = Arithmetic(modulus=5, **SMALL)
    questions = every(task)
    assert len({q.id for q in questions}) == len(questions)
    assert {q.choices for q in questions} == {("0", "1", "2", "3", "4")} == {task.class_names}
    assert (task.style, task.scoring) == ("letter", "sum")


def test_a_seed_gives_the_same_questions_on_every_machine() -> None:
    digest = hashlib.sha256()
    for question in every(Arithmetic(**SMALL)):
        digest.update(f"{question.id}\0{question.prompt}\0{question.answer}\0".encode())
    assert digest.hexdigest() == DIGEST


def test_each_split_has_its_own_seed_and_may_be_left_out() -> None:
    task = Arithmetic(fit=0, val=40, test=40, seeds=(1, 2, 3))
    assert list(task.questions()) == ["val", "test"]
    other = Arithmetic(fit=0, val=40, test=40, seeds=(1, 9, 3)).questions()
    assert other["test"] == task.questions()["test"] and other["val"] != task.questions()["val"]


def test_numbers_are_drawn_evenly() -> None:
    task = Arithmetic(modulus=2, num_fewshot=0, fit=4000, val=0, test=0)
    numbers = [
        int(number)
        for question in task.questions()["fit"]
        for number in re.findall(r"\d+", str(question.group))
    ]
    assert np.abs(np.bincount(numbers) / len(numbers) - 0.1).max() < 0.02


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("modulus", 1),
        ("modulus", 11),
        ("operators", "/"),
        ("max_operand", 3),
        ("min_difficulty", 0),
        ("max_difficulty", 33),
        ("num_fewshot", -1),
        ("test", 2),
        ("seeds", (1, 1, 2)),
    ],
)
def test_a_bad_option_is_named_in_one_line(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"task option {option} must be") as caught:
        Arithmetic(**{option: value})
    assert "\n" not in str(caught.value)
