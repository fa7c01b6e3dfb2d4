"""Parity: answers, balance, the count of ones."""

import hashlib
from typing import Any

import numpy as np
import pytest

from trajdiag.errors import ConfigError
from trajdiag.tasks.base import IGNORE, TrainableTask
from trajdiag.tasks.parity import Parity

SMALL: dict[str, Any] = {"fit": 600, "val": 300, "test": 300}
PARITY_DIGEST = "8d7c1f2920ad4be32ca7196b9664033760b7446d9d850ef175b03e28fc547002"


def test_the_answer_is_the_count_of_ones_mod_2() -> None:
    for examples in Parity(**SMALL).examples().values():
        ones = [text.count("1") for text in examples.input]
        assert (examples.target == np.array(ones) % 2).all()
        assert (examples.covariates["ones"] == ones).all()
        assert (examples.difficulty == [len(text) for text in examples.input]).all()


def test_the_tokens_spell_the_text() -> None:
    words = ["0", "1", "=", "<bos>", "<pad>"]
    examples = Parity(**SMALL).examples()["test"]
    for ids, length, text in zip(examples.input_ids, examples.length, examples.input, strict=True):
        spelled = [words[i] for i in ids]
        assert spelled[:length] == ["<bos>", *text, "="]
        assert set(spelled[length:]) <= {"<pad>"}


def test_splits_are_balanced_by_length() -> None:
    examples = Parity(min_difficulty=3, max_difficulty=9, **SMALL).examples()["fit"]
    counts = np.bincount(examples.difficulty.astype(int))
    assert counts[:3].sum() == 0 and np.ptp(counts[3:]) <= 1


def test_long_strings_do_not_repeat_across_splits() -> None:
    task = Parity(min_difficulty=12, max_difficulty=13, **SMALL)
    examples = task.examples()
    fit, val, test = (set(e.input) for e in examples.values())
    expected = {12: 4096 >= 10 * 600, 13: 8192 >= 10 * 600}
    assert {n["difficulty"]: n["repeats_removed"] for n in task.notes()["overlap"]} == expected
    assert not {text for text in (fit & val) | (test & (fit | val)) if len(text) == 13}


def test_a_seed_gives_the_same_examples_on_every_machine() -> None:
    digest = hashlib.sha256()
    for examples in Parity(**SMALL).examples().values():
        digest.update(examples.input_ids.astype("<i4").tobytes())
        digest.update(examples.target.astype("<i8").tobytes())
    assert digest.hexdigest() == PARITY_DIGEST


def test_training_rows_ask_for_the_parity_so_far_at_every_bit() -> None:
    task = Parity(**SMALL)
    assert isinstance(task, TrainableTask)
    for group in task.training_batch(np.random.default_rng(0), dict.fromkeys(range(1, 7), 10)):
        for ids, target, dense in zip(group.input_ids, group.target, group.dense, strict=True):
            bits = ids[1:-1].tolist()
            running = [sum(bits[: i + 1]) % 2 for i in range(len(bits))]
            assert dense.tolist() == [IGNORE, *running, IGNORE]
            assert target == running[-1]


@pytest.mark.parametrize(("option", "value"), [("min_difficulty", 0), ("max_difficulty", 5000)])
def test_a_bad_option_is_named_in_one_line(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"task option {option} must be"):
        Parity(**{option: value})
