"""Running text: documents of a file, their splits, and which tokens are examples."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trajdiag.errors import ConfigError
from trajdiag.tasks.questions import Document, DocumentTask
from trajdiag.tasks.text import Text


def plain(folder: Path, text: str, **options: Any) -> Text:
    path = folder / "book.txt"
    path.write_bytes(text.encode())
    return Text(path=str(path), **options)


def jsonl(folder: Path, *records: Any, **options: Any) -> Text:
    path = folder / "corpus.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return Text(path=str(path), **options)


def all_documents(task: Text) -> dict[str, str]:
    return {d.id: d.text for part in task.documents().values() for d in part}


def test_a_plain_file_is_cut_at_blank_lines(tmp_path: Path) -> None:
    text = "\n\n  One line\r\nand another\r\n \r\n\r\nSecond\n\n\n\nThird.\n"
    task = plain(tmp_path, text, document_chars=1)
    assert isinstance(task, DocumentTask)
    assert all_documents(task) == {
        "line 3": "  One line\nand another",
        "line 7": "Second",
        "line 11": "Third.",
    }


def test_paragraphs_are_gathered_whole_up_to_a_size(tmp_path: Path) -> None:
    paragraphs = ["a" * 30, "b" * 30, "c" * 100, "d" * 10, "e" * 10, "f" * 60]
    gathered = all_documents(plain(tmp_path, "\n\n".join(paragraphs), document_chars=63))
    assert list(gathered.values()) != []
    assert sorted(gathered.values()) == sorted(
        ["a" * 30 + "\n\n" + "b" * 30, "c" * 100, "d" * 10 + "\n\n" + "e" * 10, "f" * 60]
    )


def test_records_are_documents_with_their_ids_and_splits(tmp_path: Path) -> None:
    task = jsonl(
        tmp_path,
        {"text": "one", "split": "test"},
        {"text": "two", "id": "b", "split": "fit"},
        {"text": "three", "id": 7, "split": "test"},
    )
    assert task.documents() == {
        "fit": [Document(id="b", text="two")],
        "test": [Document(id="1", text="one"), Document(id="7", text="three")],
    }
    assert task.notes() == {"documents": {"fit": 1, "test": 2}}
    assert task.name == "text-corpus"


def test_documents_are_drawn_into_splits_whole(tmp_path: Path) -> None:
    task = jsonl(tmp_path, *[{"text": f"text {i}"} for i in range(100)], seed=3)
    assert task.notes() == {"documents": {"fit": 50, "val": 20, "test": 30}}
    assert len(all_documents(task)) == 100


def test_a_sample_is_ascending_distinct_and_even(tmp_path: Path) -> None:
    task = jsonl(tmp_path, *[{"text": "x"} for _ in range(400)], sample=10)
    sampled = task.positions("fit", np.full(200, 50))
    assert all((np.diff(s) > 0).all() and len(s) == 10 for s in sampled)
    counts = np.bincount(np.concatenate(sampled), minlength=50)
    # 200 documents of which each takes a position with chance .2: 40 +- 5.7
    assert len(counts) == 50 and counts.min() > 15 and counts.max() < 65


def test_short_documents_and_sample_0_give_every_token(tmp_path: Path) -> None:
    records = [{"text": "x", "split": "test"} for _ in range(3)]
    sampled = jsonl(tmp_path, *records, sample=4).positions("test", np.array([0, 3, 4]))
    assert [s.tolist() for s in sampled] == [[], [0, 1, 2], [0, 1, 2, 3]]
    everything = jsonl(tmp_path, *records, sample=0).positions("test", np.array([0, 3, 900]))
    assert [len(s) for s in everything] == [0, 3, 900]
    assert all(s.dtype == np.int64 for s in sampled + everything)


def test_a_documents_sample_does_not_depend_on_the_others(tmp_path: Path) -> None:
    one = {"text": "x", "id": "one", "split": "test"}
    two = {"text": "y", "id": "two", "split": "test"}
    alone = jsonl(tmp_path, one).positions("test", np.array([500]))[0]
    after = jsonl(tmp_path, two, one).positions("test", np.array([90, 500]))[1]
    assert (alone == after).all()
    again = jsonl(tmp_path, one, seed=1).positions("test", np.array([500]))[0]
    assert (alone != again).any()


def test_parameters_name_the_file_and_its_bytes_but_no_path(tmp_path: Path) -> None:
    task = plain(tmp_path, "Some text.")
    parameters = task.parameters()
    assert parameters["file"] == "book.txt" and len(parameters["sha256"]) == 64
    assert str(tmp_path) not in json.dumps(parameters)
    assert plain(tmp_path, "Some text!").parameters() != parameters


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({}, "text is missing; keys: none"),
        ({"text": 5}, "text must be text, not 5"),
        ({"text": " \n"}, "text is empty"),
        ({"text": "\ud800"}, "text has half a character"),
        ({"text": "t", "id": "a"}, "id 'a' is that of number 1 too"),
        ({"text": "t", "split": "dev"}, "split must be one of fit, val, test, not 'dev'"),
    ],
)
def test_a_bad_record_is_named_by_file_and_line(tmp_path: Path, bad: Any, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        jsonl(tmp_path, {"text": "fine", "id": "a"}, bad)
    message = str(caught.value)
    assert "corpus.jsonl line 2: " in message and reason in message and "\n" not in message


def test_a_file_without_text_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"book\.txt is empty"):
        plain(tmp_path, " \n\n")
    with pytest.raises(ConfigError, match=r"none\.txt: no such file"):
        Text(path=str(tmp_path / "none.txt"))
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(ConfigError, match=r"latin\.txt: not UTF-8 text"):
        Text(path=str(tmp_path / "latin.txt"))


@pytest.mark.parametrize(("option", "value"), [("sample", -1), ("document_chars", 0), ("seed", -1)])
def test_a_bad_option_is_named(tmp_path: Path, option: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"task option {option} must be at least"):
        plain(tmp_path, "text", **{option: value})
