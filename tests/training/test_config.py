"""Training options, presets and what changes over the steps."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.tasks.registry import make_task
from trajdiag.training.config import PRESETS, TrainConfig, train_config
from trajdiag.training.schedule import (
    Curriculum,
    dense_weight,
    learning_rate,
    rows_by_difficulty,
)


def test_every_preset_names_a_task_that_can_be_made() -> None:
    for by_task in PRESETS.values():
        for task, config in by_task.items():
            assert make_task(config.task, **config.task_options).name == task


def test_dense_labels_and_curriculum_are_on_in_quick_and_off_in_paper() -> None:
    for task in ("mano", "parity"):
        quick, paper = train_config("quick", task), train_config("paper", task)
        assert quick.dense and quick.curriculum
        assert not paper.dense and not paper.curriculum


def test_options_go_on_top_of_the_preset_and_task_options_are_merged() -> None:
    config = train_config("paper", "mano", lr=1e-3, task_options={"modulus": 11})
    assert config.lr == 1e-3
    assert config.task_options["modulus"] == 11
    assert config.task_options["max_difficulty"] == 10


def test_a_task_of_the_users_own_takes_manos_sizes_without_its_options() -> None:
    config = train_config("paper", "my.module:Task")
    assert (config.d_model, config.task_options) == (512, {})
    assert config.checkpoint_name == "task-fixed-uniform-seed0"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "mano-fixed-uniform-seed0"),
        ({"objective": "joint", "gate": "mlp", "seed": 3}, "mano-joint-mlp-seed3"),
        ({"objective": "final"}, "mano-final-seed0"),
        ({"name": "mine"}, "mine"),
    ],
)
def test_the_checkpoints_name_tells_what_it_is(options: dict[str, Any], expected: str) -> None:
    assert train_config(**options).checkpoint_name == expected


def test_identity_leaves_out_where_and_how_loudly() -> None:
    there = train_config(cache_dir="/a", name="a", report_every=1, save_every=2, threads=2)
    assert there.identity() == train_config().identity()
    assert train_config(seed=1).identity() != train_config().identity()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("steps", 0),
        ("batch", 8),
        ("lam", 1.0),
        ("beta", -1.0),
        ("lr", 0.0),
        ("final_lr", 1.0),
        ("d_model", 20),
        ("d_model", 10**12),
        ("threads", 10**9),
        ("seed", 2**64),
        ("beta", math.inf),
        ("clip", math.inf),
        ("init_std", math.nan),
        ("init_std", -1.0),
        ("rope_theta", 0.0),
        ("adam_betas", (0.9, 1.0)),
    ],
)
def test_a_bad_value_is_named(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"training option {option} must be"):
        train_config(**{option: value})


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("steps", None, "a whole number"),
        ("steps", 2.5, "a whole number"),
        ("layers", "x", "a whole number"),
        ("batch", math.nan, "a whole number"),
        ("seed", True, "a whole number"),
        ("lr", "x", "a number"),
        ("lam", None, "a number"),
        ("lr", np.ones(2), "a number"),
        ("dense", "no", "true or false"),
        ("overwrite", "no", "true or false"),
        ("overwrite", 1, "true or false"),
        ("overwrite", np.ones(2), "true or false"),
        ("task_options", None, ".* by name"),
        ("adam_betas", "x", "a list of 2, each entry a number"),
        ("adam_betas", (0.9,), "a list of 2, each entry a number"),
        ("task", ["mano"], "a text"),
        ("objective", np.ones(2), "one of final, fixed, joint"),
    ],
)
def test_what_is_of_another_type_is_refused_in_a_line(option, value, wanted) -> None:
    for make in (train_config, TrainConfig):
        with pytest.raises(ConfigError, match=f"^{option} must be {wanted}, got ") as caught:
            make(**{option: value})
        assert "\n" not in str(caught.value)


def test_numbers_of_numpy_and_torch_are_pythons() -> None:
    given: dict[str, Any] = {"steps": np.int64(7), "lr": torch.tensor(0.25), "tied": np.bool_(True)}
    for made in (train_config(**given), TrainConfig(**given)):
        assert (made.steps, made.lr, made.tied) == (7, 0.25, True)
        json.dumps(made.identity())


def test_unknown_names_list_what_exists() -> None:
    with pytest.raises(UnknownNameError, match="'fast'; existing: paper, quick"):
        train_config("fast")
    with pytest.raises(UnknownNameError, match=r"option of train_config 'rate'; existing: .*lr"):
        train_config(rate=1)
    with pytest.raises(UnknownNameError, match="unknown objective 'last'; existing: final"):
        train_config(objective="last")


def test_the_learning_rate_rises_then_falls_to_the_final_one() -> None:
    config = TrainConfig(steps=110, warmup=10, lr=1.0, final_lr=0.1)
    rates = [learning_rate(config, step) for step in range(111)]
    assert rates[0] == 0.1 and rates[9] == rates[10] == 1.0
    assert rates[60] == pytest.approx(0.55)
    assert rates[110] == pytest.approx(0.1)
    cosine = TrainConfig(steps=110, warmup=10, lr=1.0, decay="cosine")
    assert learning_rate(cosine, 35) == pytest.approx((1 + 0.5**0.5) / 2)


def test_dense_labels_fade_out_by_80_percent_of_the_steps() -> None:
    config = TrainConfig(steps=100)
    assert [dense_weight(config, step) for step in (0, 40, 80, 99)] == [1.0, 0.5, 0.0, 0.0]
    assert dense_weight(TrainConfig(steps=100, dense=False), 0) == 0.0


def test_the_curriculum_adds_a_difficulty_when_the_hardest_is_learned() -> None:
    begun = Curriculum.begin(TrainConfig(), 1, 3)
    assert begun.level == 1
    assert begun.advance(0.8) == begun
    assert begun.advance(0.81).level == 2
    assert Curriculum(level=3, last=3).advance(1.0).level == 3
    assert Curriculum.begin(TrainConfig(curriculum=False), 1, 3).level == 3


def test_rows_are_shared_out_evenly_or_in_proportion_to_difficulty() -> None:
    even = TrainConfig(batch=128, harder_rows=False)
    assert rows_by_difficulty(even, 1, 3) == {1: 43, 2: 43, 3: 42}
    harder = TrainConfig(batch=128)
    assert rows_by_difficulty(harder, 1, 3) == {1: 21, 2: 42, 3: 65}
    assert rows_by_difficulty(harder, 2, 3) == {2: 42, 3: 86}
    assert rows_by_difficulty(harder, 1, 1) == {1: 128}
