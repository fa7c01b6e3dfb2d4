"""lm-evaluation-harness's tasks: its own prompts, its splits, and what is refused."""

import json
import random
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.local_benchmark import METRICS, sums, write_benchmark, write_group
from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.tasks.harness import Harness
from trajdiag.tasks.harness_loading import index_with
from trajdiag.tasks.questions import Question, QuestionTask

tasks = pytest.importorskip("lm_eval.tasks")

ALL = {"train": sums(12, 100), "validation": sums(10, 200), "test": sums(15, 300)}


def lm_evals_own(name: str, include_path: str, num_fewshot: int) -> dict[int, list[tuple]]:
    """The requests that lm-eval's evaluation makes, by the question's number."""
    manager = tasks.TaskManager(include_path=include_path, include_defaults=False)
    task = manager.load([name])["tasks"][name]
    task.set_config(key="num_fewshot", value=num_fewshot)
    task.set_fewshot_seed(seed=1234)
    task.build_all_requests()
    requests = defaultdict(list)
    for instance in task.instances:
        requests[instance.doc_id].append(instance.args)
    return dict(requests)


def posed(question: Question) -> list[tuple[str, str]]:
    return [(question.prompt, question.delimiter + choice) for choice in question.choices]


@pytest.mark.parametrize("num_fewshot", [0, 3])
@pytest.mark.parametrize(
    ("splits", "config"),
    [
        (("train", "validation", "test"), {}),
        (("train", "validation"), {"target_delimiter": ""}),
        (("validation",), {"description": "Be brief.\n\n"}),
        (("validation", "test"), {"fewshot_split": "test", "gen_prefix": "So"}),
        (("train", "test"), {"fewshot_split": "train", "fewshot_config": {"sampler": "first_n"}}),
    ],
)
def test_the_questions_of_an_evaluation_are_lm_evals_own_requests(
    tmp_path: Path, splits: tuple[str, ...], config: dict[str, Any], num_fewshot: int
) -> None:
    folder = write_benchmark(tmp_path, "sums", {s: ALL[s] for s in splits}, **config)
    task = Harness(task="sums", include_path=folder, num_fewshot=num_fewshot)
    assert isinstance(task, QuestionTask)
    evaluated = {
        int(question.id.removeprefix("sums/")): posed(question)
        for part in task.questions().values()
        for question in part
        if re.fullmatch(r"sums/\d+", question.id)
    }
    assert evaluated == lm_evals_own("sums", folder, num_fewshot)


def test_a_cap_leaves_the_prompts_as_they_are(tmp_path: Path) -> None:
    folder = write_benchmark(tmp_path, "sums", ALL)
    whole = Harness(task="sums", include_path=folder, num_fewshot=2).questions()
    capped = Harness(
        task="sums", include_path=folder, num_fewshot=2, fit=4, val=5, test=6
    ).questions()
    assert {split: len(part) for split, part in capped.items()} == {"fit": 4, "val": 5, "test": 6}
    for split, part in capped.items():
        assert [q for q in whole[split] if q in part] == part
    other = Harness(task="sums", include_path=folder, num_fewshot=2, test=6, seed=1).questions()
    assert other["test"] != capped["test"]
    assert "fit" not in Harness(task="sums", include_path=folder, fit=0).questions()


def test_train_is_fit_validation_is_val_and_test_is_test(tmp_path: Path) -> None:
    task = Harness(task="sums", include_path=write_benchmark(tmp_path, "sums", ALL))
    for split, source in (("fit", "train"), ("val", "validation"), ("test", "test")):
        asked = [f"Question: {row['question']}\nAnswer:" for row in ALL[source]]
        answers = [row["label"] for row in ALL[source]]
        questions = task.questions()[split]
        assert [q.prompt for q in questions] == asked
        assert [q.answer for q in questions] == answers
    ids = [q.id for part in task.questions().values() for q in part]
    assert len(set(ids)) == len(ids) and {"sums/0", "sums/train/0", "sums/validation/0"} < set(ids)


def test_a_fit_question_is_not_among_its_own_examples(tmp_path: Path) -> None:
    folder = write_benchmark(tmp_path, "sums", {"train": sums(4), "test": sums(5, 50)})
    for question in Harness(task="sums", include_path=folder, num_fewshot=3).questions()["fit"]:
        *shown, asked = re.findall(r"What is \d+", question.prompt)
        assert len(set(shown)) == 3 and asked not in shown


@pytest.mark.parametrize("test", ["absent", "without answers"])
def test_without_a_labelled_test_split_validation_is_divided_a_fifth_to_four(
    tmp_path: Path, test: str
) -> None:
    splits = {"validation": sums(50)}
    if test != "absent":
        splits["test"] = [{**row, "label": -1} for row in sums(30, 100)]
    folder = write_benchmark(tmp_path, "sums", splits)
    found = Harness(task="sums", include_path=folder).questions()
    val, asked = ({q.prompt for q in found[split]} for split in ("val", "test"))
    assert (len(val), len(asked), len(val | asked)) == (10, 40, 50)
    again = Harness(task="sums", include_path=folder, seed=1).questions()
    assert {q.prompt for q in again["val"]} != val


def test_a_validation_split_that_the_task_does_not_name_is_found(tmp_path: Path) -> None:
    splits = {"validation": ALL["validation"], "test": ALL["test"], "dev": sums(5)}
    options = {"validation_split": None, "fewshot_split": "dev"}
    folder = write_benchmark(tmp_path, "sums", splits, **options)
    task = Harness(task="sums", include_path=folder, num_fewshot=5)
    assert {split: len(part) for split, part in task.questions().items()} == {"val": 10, "test": 15}
    assert task.notes()["subtasks"] == [
        {
            "name": "sums",
            "version": "2.0",
            "num_fewshot": 5,
            "splits": {"val": "validation", "test": "test"},
        }
    ]


def test_a_split_that_the_data_lacks_is_as_if_it_were_not_named(tmp_path: Path) -> None:
    options = {"training_split": "train", "validation_split": "validation"}
    folder = write_benchmark(tmp_path, "sums", {"test": sums(10)}, **options, fewshot_split="test")
    task = Harness(task="sums", include_path=folder)
    assert {split: len(part) for split, part in task.questions().items()} == {"val": 2, "test": 8}


def test_a_group_is_all_its_tasks_in_order_of_name(tmp_path: Path) -> None:
    for name, first in (("sums_b", 0), ("sums_a", 500)):
        splits = {"validation": sums(5, first), "test": sums(6, first + 100)}
        write_benchmark(tmp_path, name, splits)
    write_group(tmp_path, "inner", ["sums_b"])
    folder = write_group(tmp_path, "both", ["inner", "sums_a"])
    task = Harness(task="both", include_path=folder)
    test = task.questions()["test"]
    assert [q.id for q in test] == [f"sums_{t}/{n}" for t in "ab" for n in range(6)]
    assert [q.covariates["subtask"] for q in test] == [0.0] * 6 + [1.0] * 6
    assert [subtask["name"] for subtask in task.notes()["subtasks"]] == ["sums_a", "sums_b"]
    assert task.name == "lm-eval-both"
    assert len(Harness(task="both", include_path=folder, test=7).questions()["test"]) == 7


def test_acc_norm_decides_where_lm_eval_gives_it_and_else_acc(tmp_path: Path) -> None:
    folder = write_benchmark(tmp_path, "plain", ALL, metric_list=METRICS[:1])
    write_benchmark(tmp_path, "normed", ALL)
    assert Harness(task="plain", include_path=folder).scoring == "sum"
    assert Harness(task="normed", include_path=folder).scoring == "chars"
    assert Harness(task="normed", include_path=folder, scoring="tokens").scoring == "tokens"


def test_answers_may_be_letters_and_choices_named_alike(tmp_path: Path) -> None:
    rows = [{**row, "label": "ABC"[row["label"]]} for row in sums(6)]
    folder = write_benchmark(
        tmp_path, "letters", {"test": rows, "validation": rows}, doc_to_choice=["A", "B", "C"]
    )
    task = Harness(task="letters", include_path=folder)
    assert [q.answer for q in task.questions()["test"]] == [0, 1, 2, 0, 1, 2]
    assert task.class_names == ("A", "B", "C")
    other = Harness(task="sums", include_path=write_benchmark(tmp_path, "sums", ALL))
    assert other.class_names is None


def test_a_question_without_a_valid_answer_is_left_out_and_counted(tmp_path: Path) -> None:
    rows = sums(9)
    rows[4]["label"] = 3
    folder = write_benchmark(tmp_path, "sums", {"test": rows, "validation": sums(3, 50)})
    task = Harness(task="sums", include_path=folder)
    assert [q.id for q in task.questions()["test"]] == [f"sums/{n}" for n in range(9) if n != 4]
    assert task.notes()["without_answer"] == 1


def test_parameters_follow_the_data_and_hold_no_path(tmp_path: Path) -> None:
    one = write_benchmark(tmp_path / "one", "sums", ALL)
    two = write_benchmark(tmp_path / "two", "sums", {**ALL, "test": sums(15, 301)})
    same = write_benchmark(tmp_path / "three", "sums", ALL)
    found = [Harness(task="sums", include_path=f).parameters() for f in (one, two, same)]
    assert found[0] == found[2] and found[0]["sha256"] != found[1]["sha256"]
    assert str(tmp_path) not in json.dumps(found)
    assert found[0]["lm_eval"].startswith("0.4.") and found[0]["scoring"] == "chars"


def test_it_is_silent_and_leaves_random_states_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = write_benchmark(tmp_path, "sums", ALL)
    random.seed(7)
    np.random.seed(7)  # noqa: NPY002
    expected = np.random.RandomState(7).random(), random.Random(7).random()
    Harness(task="sums", include_path=folder, num_fewshot=2).questions()
    assert (np.random.random(), random.random()) == expected  # noqa: NPY002
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"output_type": "generate_until"}, "is of output type generate_until; only multiple"),
        ({"doc_to_text": "{{label}}"}, "has prompts that differ from choice to choice"),
        ({"doc_to_target": "{{[0, 1]}}"}, "has questions with several right choices"),
        ({"num_fewshot": 0}, "is posed without examples, whatever num_fewshot says"),
        ({"doc_to_choice": ["A"], "doc_to_target": "A"}, "its choices must be 2 or more texts"),
        ({"doc_to_choice": ["A", ""]}, "odd cannot be loaded: IndexError"),
        ({"doc_to_target": "{{'Z'}}"}, "neither its test nor its validation split has answers"),
        ({"doc_to_target": "{{label.nothing.at_all}}"}, "odd cannot be loaded: UndefinedError"),
    ],
)
def test_a_task_of_another_kind_is_refused_by_name(
    tmp_path: Path, config: dict[str, Any], reason: str
) -> None:
    folder = write_benchmark(tmp_path, "odd", ALL, **config)
    with pytest.raises(ConfigError, match=reason) as caught:
        Harness(task="odd", include_path=folder, num_fewshot=1).questions()
    assert "odd" in str(caught.value) and "\n" not in str(caught.value)


def test_a_task_that_scores_by_its_own_function_is_refused(tmp_path: Path) -> None:
    folder = write_benchmark(tmp_path, "own", ALL)
    Path(folder, "own_scores.py").write_text("def scored(doc, results):\n    return {'acc': 1}\n")
    text = Path(folder, "own.yaml").read_text(encoding="utf-8")
    own = f'{text[:-1]}, "process_results": !function "own_scores.scored" }}'
    Path(folder, "own.yaml").write_text(own, encoding="utf-8")
    with pytest.raises(ConfigError, match="own scores its answers by a function of its own"):
        Harness(task="own", include_path=folder)


def test_data_that_cannot_be_had_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    folder = write_benchmark(tmp_path, "sums", ALL)
    for path in tmp_path.glob("*.jsonl"):
        path.unlink()
    with pytest.raises(ConfigError, match=r"sums cannot be loaded: .*HF_HUB_OFFLINE"):
        Harness(task="sums", include_path=folder)


def test_an_unknown_task_lists_the_closest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_benchmark(tmp_path, "sums_of_two", ALL)
    manager = tasks.TaskManager(include_path=folder, include_defaults=False)
    # Indexing all of lm-eval's own tasks takes many seconds.
    monkeypatch.setattr(tasks, "TaskManager", lambda **_: manager)
    with pytest.raises(UnknownNameError, match=r"'sum_of_two', did you mean sums_of_two\?"):
        Harness(task="sum_of_two", include_path=folder)
    with pytest.raises(ConfigError, match="include_path: no folder"):
        Harness(task="sums", include_path=str(tmp_path / "none"))


@pytest.mark.parametrize(("name", "beside"), [("arc_easy", "arc_challenge"), ("mmlu_anatomy",) * 2])
def test_lm_evals_own_task_is_found_without_indexing_all(name: str, beside: str) -> None:
    manager = index_with(name, None)
    assert {name, beside} <= set(manager.all_subtasks) and len(manager.all_tasks) < 1000


def test_without_lm_eval_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(ConfigError, match=r"pip install trajdiag\[eval\]"):
        Harness(task="arc_easy")


@pytest.mark.parametrize(
    ("option", "value"),
    [("num_fewshot", -1), ("scoring", "x"), ("fit", -1), ("test", 0), ("seed", -1)],
)
def test_a_bad_option_is_named_before_anything_is_loaded(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"task option {option} must be"):
        Harness(task="arc_easy", **{option: value})
