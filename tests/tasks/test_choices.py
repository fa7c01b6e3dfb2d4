"""Questions of a user's file: both styles, answers, splits, and every bad record by its line."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from trajdiag.errors import ConfigError
from trajdiag.tasks.choices import Choices
from trajdiag.tasks.questions import Question, QuestionTask

SKY = {"prompt": "The sky is", "choices": ["red", "blue", "a pale green"], "answer": 1}
SEA = {"prompt": "The sea is", "choices": ["wet", "dry"], "answer": "wet"}


def written(folder: Path, *records: Any) -> str:
    lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
    path = folder / "quiz.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def all_questions(task: Choices) -> dict[str, Question]:
    return {q.id: q for part in task.questions().values() for q in part}


def refusal(folder: Path, *records: Any, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        Choices(path=written(folder, *records), **options)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(folder), "")


def test_a_question_is_its_prompt_and_its_choices(tmp_path: Path) -> None:
    task = Choices(path=written(tmp_path, SKY, "", SEA))
    assert isinstance(task, QuestionTask)
    # The id is the line's number; line 2 is blank.
    sky, sea = all_questions(task)["1"], all_questions(task)["3"]
    assert (sky.prompt, sky.choices, sky.answer) == ("The sky is", tuple(SKY["choices"]), 1)
    assert (sea.choices, sea.answer, sea.delimiter, sea.group) == (("wet", "dry"), 0, " ", None)
    assert (task.style, task.scoring, task.class_names) == ("continuation", "chars", None)


def test_letter_style_lists_the_choices_and_asks_for_a_letter(tmp_path: Path) -> None:
    task = Choices(path=written(tmp_path, SKY, SEA), style="letter")
    sky, sea = all_questions(task)["1"], all_questions(task)["2"]
    assert sky.prompt == "The sky is\nA. red\nB. blue\nC. a pale green\nAnswer:"
    assert (sky.choices, sky.answer) == (("A", "B", "C"), 1)
    assert (sea.choices, sea.answer) == (("A", "B"), 0)
    assert task.class_names == ("A", "B", "C")


def test_letters_as_choices_are_listed_by_the_prompt_itself(tmp_path: Path) -> None:
    listed = {"prompt": "Is it?\nA. yes\nB. no\nAnswer:", "choices": ["A", "B"], "answer": "B"}
    swapped = {**listed, "choices": ["B", "A"], "answer": 0}
    path = written(tmp_path, listed, swapped, {**SEA, "few_shot": [listed]})
    questions = all_questions(Choices(path=path, style="letter"))
    assert (questions["1"].prompt, questions["1"].choices) == (listed["prompt"], ("A", "B"))
    assert questions["1"].answer == 1
    assert questions["2"].prompt == f"{listed['prompt']}\nA. B\nB. A\nAnswer:"
    assert questions["3"].prompt == (
        "Is it?\nA. yes\nB. no\nAnswer: B\n\nThe sea is\nA. wet\nB. dry\nAnswer:"
    )


@pytest.mark.parametrize(
    ("answer", "index"), [(2, 2), ("blue", 1), ("A", 0), ("C", 2), ("a pale green", 2)]
)
def test_an_answer_is_an_index_a_text_or_a_letter(
    tmp_path: Path, answer: object, index: int
) -> None:
    task = Choices(path=written(tmp_path, {**SKY, "answer": answer}))
    assert all_questions(task)["1"].answer == index


def test_a_letter_that_is_also_a_choice_must_mean_the_same(tmp_path: Path) -> None:
    vitamin = {"prompt": "Carrots have vitamin", "choices": ["A", "C"], "answer": "A"}
    assert all_questions(Choices(path=written(tmp_path, vitamin)))["1"].answer == 0
    swapped = {**vitamin, "choices": ["B", "A"]}
    assert refusal(tmp_path, swapped) == (
        "/quiz.jsonl line 1: answer 'A' is a choice and the letter of another; give its index"
    )


def test_few_shot_text_stands_before_the_prompt_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, {**SKY, "few_shot": "Snow is white.\n"}, {**SEA, "few-shot": "Hm. "})
    questions = all_questions(Choices(path=path))
    assert questions["1"].prompt == "Snow is white.\nThe sky is"
    assert questions["2"].prompt == "Hm. The sea is"


def test_few_shot_records_are_rendered_in_the_tasks_style_with_their_answers(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, {**SKY, "few_shot": [SEA, {**SKY, "answer": "A"}]})
    assert all_questions(Choices(path=path))["1"].prompt == (
        "The sea is wet\n\nThe sky is red\n\nThe sky is"
    )
    assert all_questions(Choices(path=path, style="letter"))["1"].prompt == (
        "The sea is\nA. wet\nB. dry\nAnswer: A\n\n"
        "The sky is\nA. red\nB. blue\nC. a pale green\nAnswer: A\n\n"
        "The sky is\nA. red\nB. blue\nC. a pale green\nAnswer:"
    )


def test_splits_come_from_the_file_in_its_order(tmp_path: Path) -> None:
    records = [
        {**SKY, "id": i, "split": split, "group": "sky", "difficulty": i / 2}
        for i, split in enumerate(["test", "fit", "test", "val"])
    ]
    task = Choices(path=written(tmp_path, *records))
    assert {s: [q.id for q in part] for s, part in task.questions().items()} == {
        "fit": ["1"],
        "val": ["3"],
        "test": ["0", "2"],
    }
    assert [(q.group, q.difficulty) for q in task.questions()["test"]] == [("sky", 0), ("sky", 1)]
    assert task.notes() == {"splits": "from the file", "ignored_keys": []}


def test_else_they_are_drawn_by_group_from_the_seed(tmp_path: Path) -> None:
    path = written(tmp_path, *[{**SKY, "group": i // 2, "note": "x"} for i in range(200)])
    task = Choices(path=path, seed=5)
    assert {s: len(part) for s, part in task.questions().items()} == {
        "fit": 100,
        "val": 40,
        "test": 60,
    }
    groups = [{q.group for q in part} for part in task.questions().values()]
    assert sum(map(len, groups)) == len(set.union(*groups)) == 100
    assert Choices(path=path, seed=6).questions() != task.questions()
    assert task.notes() == {"splits": "drawn", "ignored_keys": ["note"]}


def test_parquet_holds_the_same_questions(tmp_path: Path) -> None:
    records = [{**SKY, "few_shot": [{**SKY, "answer": 0}], "difficulty": 1.5}, {**SKY, "id": "x"}]
    records[0]["id"], records[1]["few_shot"], records[1]["difficulty"] = "y", None, 2.0
    parquet = str(tmp_path / "quiz.parquet")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), parquet)
    assert (
        Choices(path=parquet).questions() == Choices(path=written(tmp_path, *records)).questions()
    )
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([SKY, {**SKY, "answer": 3}]), parquet)
    with pytest.raises(ConfigError, match=r"quiz.parquet row 2: answer must be an index from 0 to"):
        Choices(path=parquet)


def test_parameters_name_the_file_and_its_bytes_but_no_path(tmp_path: Path) -> None:
    path = written(tmp_path, SKY)
    task = Choices(path=path, seed=4)
    assert task.parameters() == {
        "file": "quiz.jsonl",
        "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
        "style": "continuation",
        "scoring": "chars",
        "delimiter": " ",
        "seed": 4,
    }
    assert str(tmp_path) not in json.dumps(task.parameters())
    assert task.name == "choices-quiz"


def test_choices_with_their_own_space_need_no_delimiter(tmp_path: Path) -> None:
    spaced = {**SEA, "choices": [" wet", " dry"], "answer": 0}
    assert "a choice begins with a space" in refusal(tmp_path, spaced)
    question = all_questions(Choices(path=written(tmp_path, spaced), delimiter=""))["1"]
    assert (question.delimiter, question.choices) == ("", (" wet", " dry"))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "is not JSON: "),
        ("[" * 100_000, "is not JSON: "),
        ("[1]", "must be a JSON object, not '[1]'"),
        ({"choices": ["a", "b"], "answer": 0}, "prompt is missing; keys: choices, answer"),
        ({"prompt": "p", "answer": 0}, "choices is missing; keys: prompt, answer"),
        ({"prompt": "p", "choices": ["a", "b"]}, "answer is missing; keys: prompt, choices"),
        ({**SKY, "prompt": 3}, "prompt must be text, not 3"),
        ({**SKY, "prompt": ""}, "the prompt is empty"),
        ({**SKY, "prompt": "\ud83d"}, r"prompt has half a character (a lone surrogate): '\ud83d'"),
        ({**SKY, "choices": "abc"}, "choices must be a list of texts, not 'abc'"),
        ({**SKY, "choices": ["a"]}, "a question needs at least 2 choices, not 1"),
        ({**SKY, "choices": ["a", " "]}, "choice 1 is empty"),
        ({**SKY, "choices": ["a", "b", "a"]}, "choice 2 is choice 0 again: 'a'"),
        ({**SKY, "choices": ["Yes", "No", "Yes "]}, "choice 2 is choice 0 again: 'Yes '"),
        ({**SKY, "choices": ["a", 2]}, "choice 1 must be text, not 2"),
        ({**SKY, "choices": ["a", "\udc00"]}, "choice 1 has half a character"),
        ({**SKY, "answer": 3}, "answer must be an index from 0 to 2, not 3"),
        ({**SKY, "answer": -1}, "answer must be an index from 0 to 2, not -1"),
        ({**SKY, "answer": True}, "answer must be an index, the text of a choice or its letter"),
        ({**SKY, "answer": 1.0}, "answer must be an index, the text of a choice or its letter"),
        ({**SKY, "answer": "D"}, "answer 'D' is none of the 3 choices, nor a letter A to C"),
        ({**SKY, "answer": "1"}, "answer '1' is none of the 3 choices"),
        ({**SKY, "id": 1}, "id '1' is that of number 1 too"),
        ({**SKY, "id": 1.5}, "id must be text or an integer, not 1.5"),
        ({**SKY, "group": True}, "group must be text or an integer, not True"),
        ({**SKY, "group": ""}, "group is empty"),
        ({**SKY, "difficulty": "hard"}, "difficulty must be a finite number, not 'hard'"),
        ('{"prompt": "p", "choices": ["a", "b"], "answer": 0, "difficulty": NaN}', "not nan"),
        ('{"prompt": "p", "choices": ["a", "b"], "answer": 0, "difficulty": 1e999}', "not inf"),
        ({**SKY, "difficulty": 10**400}, "difficulty must be a finite number"),
        ({**SKY, "split": "train"}, "split must be one of fit, val, test, not 'train'"),
        ({**SKY, "split": "fit"}, "a split must be in all records or in none"),
        ({**SKY, "few_shot": 3}, "few_shot must be text or a list of records, not 3"),
        ({**SKY, "few_shot": "a", "few-shot": "b"}, "few_shot and few-shot are the same"),
        ({**SKY, "few_shot": [{**SKY, "answer": 9}]}, "few_shot example 1: answer must be an"),
    ],
)
def test_a_bad_record_is_named_by_file_and_line(tmp_path: Path, bad: Any, reason: str) -> None:
    message = refusal(tmp_path, SKY, "", bad)
    assert message.startswith("/quiz.jsonl line 3") and reason in message


def test_letters_end_at_26_choices(tmp_path: Path) -> None:
    many = {"prompt": "p", "choices": [f"choice {i}" for i in range(27)], "answer": 26}
    assert all_questions(Choices(path=written(tmp_path, many)))["1"].answer == 26
    assert "letter style has at most 26 choices, not 27" in refusal(tmp_path, many, style="letter")


def test_a_difficulty_is_in_all_records_or_in_none(tmp_path: Path) -> None:
    message = refusal(tmp_path, {**SKY, "difficulty": 1}, SKY)
    assert message == "/quiz.jsonl line 2: difficulty must be in all records or in none"


def test_files_that_hold_no_questions_are_one_line(tmp_path: Path) -> None:
    assert refusal(tmp_path, "", " ") == "/quiz.jsonl is empty; give a file that holds something"
    message = refusal(tmp_path, {**SKY, "split": "fit"})
    assert "has no record in split test" in message and "it has fit" in message
    for name, content, reason in (
        ("none.jsonl", None, "no such file; files in .*: quiz.jsonl$"),
        ("none/quiz.jsonl", None, "no such file; there is no folder .*none$"),
        ("bytes.jsonl", b"{}\n\xff", "line 2: not UTF-8 text"),
        ("not.parquet", b"PAR?", "is not a Parquet file that can be read"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match=f"{name}.*{reason}"):
            Choices(path=str(tmp_path / name))
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        Choices(path=str(tmp_path))


@pytest.mark.parametrize(("option", "value"), [("style", "x"), ("scoring", "x"), ("seed", -1)])
def test_a_bad_option_is_named(tmp_path: Path, option: str, value: Any) -> None:
    assert f"task option {option} must be" in refusal(tmp_path, SKY, **{option: value})
