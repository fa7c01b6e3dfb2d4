"""MANO: answers, balance, seeds, overlap."""

import hashlib
from typing import Any

import numpy as np
import pytest

from trajdiag.errors import ConfigError
from trajdiag.store.schema import SPLITS
from trajdiag.tasks.base import IGNORE, TrainableTask
from trajdiag.tasks.mano import Mano

SMALL: dict[str, Any] = {"fit": 600, "val": 300, "test": 300}
MANO_DIGEST = "2706de8f6a6abe6b35145321256825964ae0019aa13d1818f0a196b41605c09e"


def evaluated(words: list[str], modulus: int) -> tuple[int, list[str]]:
    """The value of the prefix expression that begins `words`, and the words after it."""
    head, *rest = words
    if head not in "+-*":
        return int(head), rest
    left, rest = evaluated(rest, modulus)
    right, rest = evaluated(rest, modulus)
    return {"+": left + right, "-": left - right, "*": left * right}[head] % modulus, rest


@pytest.mark.parametrize("task", [Mano(**SMALL), Mano(modulus=23, max_difficulty=10, **SMALL)])
def test_answers_agree_with_a_recursive_evaluator(task: Mano) -> None:
    for examples in task.examples().values():
        for text, target in zip(examples.input, examples.target, strict=True):
            assert evaluated(text.split(" "), task.modulus) == (target, [])


def test_the_tokens_spell_the_text() -> None:
    task = Mano(**SMALL)
    words = [*map(str, range(7)), "+", "-", "*", "=", "<bos>", "<pad>"]
    examples = task.examples()["val"]
    for ids, length, text in zip(examples.input_ids, examples.length, examples.input, strict=True):
        spelled = [words[i] for i in ids]
        assert spelled[:length] == ["<bos>", *text.split(" "), "="]
        assert set(spelled[length:]) <= {"<pad>"}


def test_a_length_token_tells_the_operations_after_bos() -> None:
    plain, told = Mano(**SMALL), Mano(length_token=True, **SMALL)
    assert told.vocab_size == plain.vocab_size + 4
    examples = told.examples()["val"]
    assert (examples.input_ids[:, 1] == plain.vocab_size + examples.difficulty).all()
    assert (examples.input == plain.examples()["val"].input).all()


def test_splits_are_balanced_by_operation_count() -> None:
    task = Mano(min_difficulty=2, max_difficulty=4, fit=1000, val=500, test=400)
    for split, size in (("fit", 1000), ("val", 500), ("test", 400)):
        examples = task.examples()[split]
        counts = np.bincount(examples.difficulty.astype(int))
        assert len(examples) == size == counts.sum()
        assert counts[:2].sum() == 0 and np.ptp(counts[2:]) <= 1
        operations = [sum(word in "+-*" for word in text.split(" ")) for text in examples.input]
        assert (examples.difficulty == operations).all()


def test_the_law_of_operators_and_subtrees_is_uniform() -> None:
    examples = Mano(min_difficulty=3, fit=30_000, val=0, test=0).examples()["fit"]
    expression = examples.input_ids[:, 1:8]
    roots = np.bincount(expression[:, 0], minlength=10)[7:10]
    assert np.abs(roots / 30_000 - 1 / 3).max() < 0.01
    # Left subtree of 0, 1 or 2 operations: a leaf second; else how many operators come in a row.
    left_is_leaf = expression[:, 1] < 7
    assert abs(left_is_leaf.mean() - 1 / 3) < 0.01
    leaves = np.bincount(expression[expression < 7], minlength=7)
    assert np.abs(leaves / leaves.sum() - 1 / 7).max() < 0.003


def test_a_seed_gives_the_same_examples_on_every_machine() -> None:
    digest = hashlib.sha256()
    for examples in Mano(**SMALL).examples().values():
        digest.update(examples.input_ids.astype("<i4").tobytes())
        digest.update(examples.target.astype("<i8").tobytes())
    assert digest.hexdigest() == MANO_DIGEST


def test_a_bin_does_not_change_with_the_range_of_the_others() -> None:
    near = Mano(min_difficulty=2, max_difficulty=2, fit=100, val=0, test=0).examples()["fit"]
    far = Mano(min_difficulty=2, max_difficulty=3, fit=200, val=0, test=0).examples()["fit"]
    assert sorted(near.input) == sorted(far.input[far.difficulty == 2])


def test_ample_bins_share_no_input_across_splits_and_small_ones_are_counted() -> None:
    task = Mano(fit=5000, val=2500, test=2500)
    examples = task.examples()
    seen: dict[int, set[str]] = {1: set(), 2: set(), 3: set()}
    shared = {split: dict.fromkeys(seen, 0) for split in SPLITS}
    for split in SPLITS:
        for operations, inputs in seen.items():
            here = examples[split].input[examples[split].difficulty == operations]
            shared[split][operations] = sum(text in inputs for text in here)
            inputs.update(here)
    assert shared["val"][3] == shared["test"][3] == 0
    notes = {row["difficulty"]: row for row in task.notes()["overlap"]}
    for operations in seen:
        assert notes[operations]["val_seen"] == shared["val"][operations]
        assert notes[operations]["test_seen"] == shared["test"][operations]
        assert notes[operations]["repeats_removed"] == (operations == 3)
    assert notes[1]["distinct_inputs"] == len(seen[1]) == 3 * 7 * 7
    assert notes[1]["test_seen"] == sum(examples["test"].difficulty == 1)


def test_equal_inputs_and_only_they_share_a_group() -> None:
    examples = Mano(**SMALL).examples().values()
    inputs = np.concatenate([e.input for e in examples])
    groups = np.concatenate([e.group for e in examples])
    pairs = set(zip(inputs, groups, strict=True))
    assert len(pairs) == len(set(inputs)) == len(set(groups)) < len(inputs)


def test_ids_are_unique_and_name_the_split() -> None:
    ids = np.concatenate([e.id for e in Mano(**SMALL).examples().values()])
    assert len(set(ids)) == len(ids)
    assert "test-000123" in ids


def test_training_rows_ask_for_the_value_of_every_subtree() -> None:
    task = Mano(**SMALL)
    assert isinstance(task, TrainableTask)
    words = [*map(str, range(7)), "+", "-", "*"]
    for group in task.training_batch(np.random.default_rng(0), {1: 40, 2: 40, 3: 48}):
        width = group.input_ids.shape[1]
        assert width == 2 * group.difficulty + 3
        for ids, target, dense in zip(group.input_ids, group.target, group.dense, strict=True):
            expression = [words[i] for i in ids[1:-1]]
            assert evaluated(expression, 7) == (target, [])
            wanted = np.full(width, IGNORE)
            # The smallest subtree is the one that starts last among those that end at a token.
            for start, word in enumerate(expression):
                if word in "+-*":
                    value, rest = evaluated(expression[start:], 7)
                    wanted[width - 2 - len(rest)] = value
            assert (dense == wanted).all()


def test_training_rows_leave_out_the_inputs_of_val_and_test() -> None:
    # Three operations over one operator mod 3: 405 inputs, of which 20 are held out.
    task = Mano(modulus=3, operators="+", min_difficulty=3, fit=20, val=10, test=10)
    examples = task.examples()
    held = {tuple(ids) for s in ("val", "test") for ids in examples[s].input_ids.tolist()}
    rows = task.training_batch(np.random.default_rng(0), {3: 20_000})[0].input_ids
    seen = {tuple(ids) for ids in rows.tolist()}
    assert not held & seen
    assert len(seen) == 405 - len(held)


def test_training_rows_are_as_many_as_asked_for() -> None:
    groups = Mano(**SMALL).training_batch(np.random.default_rng(0), {1: 5, 2: 9})
    assert [(g.difficulty, len(g.target)) for g in groups] == [(1, 5), (2, 9)]


def test_a_split_of_size_0_is_missing() -> None:
    assert list(Mano(fit=10, val=0, test=10).examples()) == ["fit", "test"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("modulus", 1),
        ("operators", "+/"),
        ("operators", "++"),
        ("operators", ""),
        ("min_difficulty", -1),
        ("max_difficulty", 0),
        ("test", 2),
        ("seeds", (1, 1, 2)),
    ],
)
def test_a_bad_option_is_named_in_one_line(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"task option {option} must be") as caught:
        Mano(**{option: value})
    assert "\n" not in str(caught.value)
