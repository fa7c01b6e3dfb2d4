"""An option is of the type of its field, or is refused in a line before anything is done."""

import json
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from trajdiag.errors import ConfigError
from trajdiag.names import checked_options, require_type, settle_fields


@dataclass(kw_only=True)
class Config:
    count: int = 1
    share: float = 0.5
    loud: bool = False
    name: str | None = None
    kind: Literal["plain", "fancy"] = "plain"
    readouts: tuple[str, ...] | None = None
    swap: tuple[str, str] | None = None
    targets: tuple[float, ...] = ()
    threshold: dict[str, float] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("count", 1.5, "count must be a whole number, got 1.5"),
        ("count", True, "count must be a whole number, got True"),
        ("count", None, "count must be a whole number, got None"),
        ("share", "x", "share must be a number, got 'x'"),
        ("share", 10**400, "share must be a number, got 1000"),
        ("share", np.ones(2), r"share must be a number, got array\(\[1\., 1\.\]\)"),
        ("loud", 1, "loud must be true or false, got 1"),
        ("name", b"x", "name must be a text or None, got b'x'"),
        ("kind", ["plain"], "kind must be one of plain, fancy, got"),
        ("readouts", "x", "readouts must be a list, each entry a text or None, got 'x'"),
        ("readouts", [None], "readouts must be a list, each entry a text or None, got"),
        ("swap", {"a": "b"}, "swap must be a list of 2, each entry a text or None, got"),
        ("swap", ["a"], "swap must be a list of 2, each entry a text or None, got"),
        pytest.param("share", 10**5000, "must be a number, got an int too long", id="digits"),
        ("targets", [0.5, "x"], "targets must be a list, each entry a number, got"),
        ("threshold", {"entropy": "a"}, "threshold must be a number by name, got"),
        ("threshold", [1.0], "threshold must be a number by name, got"),
    ],
)
def test_what_is_of_another_type_is_refused_in_a_line(option, value, message):
    with pytest.raises(ConfigError, match=message) as caught:
        checked_options("run", Config, {option: value})
    assert "\n" not in str(caught.value)


def test_numbers_of_numpy_are_pythons_and_paths_are_texts():
    found = checked_options(
        "run",
        Config,
        {
            "count": np.int64(3),
            "share": np.float32(0.5),
            "loud": np.bool_(True),
            "name": Path("a/b"),
            "readouts": ["x"],
            "targets": np.array([0.5, 0.9]),
            "threshold": {"entropy": np.float32(1)},
        },
    )
    assert [type(found[name]) for name in ("count", "share", "loud")] == [int, float, bool]
    assert found["name"] == "a/b"
    assert found["readouts"] == ("x",)
    assert json.dumps([found["targets"], found["threshold"]]) == '[[0.5, 0.9], {"entropy": 1.0}]'
    assert Config(**found).count == 3


@pytest.mark.parametrize("share", [1, Fraction(1, 2), np.int8(1), torch.tensor(1)])
def test_any_real_number_is_kept_as_a_float(share):
    found = checked_options("run", Config, {"share": share, "targets": (share,)})
    assert type(found["share"]) is float and found["share"] == float(share)
    assert type(found["targets"][0]) is float


def test_a_long_value_is_cut():
    with pytest.raises(ConfigError) as caught:
        checked_options("run", Config, {"share": "x" * 5000})
    assert len(str(caught.value)) < 150


def test_one_made_directly_is_settled_as_one_made_of_options():
    @dataclass(frozen=True, kw_only=True)
    class Settled:
        count: int = 1
        readouts: tuple[str, ...] | None = None

        def __post_init__(self) -> None:
            settle_fields(self)

    made = Settled(count=np.int64(2), readouts=[Path("a/b")])  # pyright: ignore[reportArgumentType]
    assert type(made.count) is int
    assert made.readouts == ("a/b",)
    with pytest.raises(ConfigError, match="count must be a whole number, got 'x'"):
        Settled(count="x")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("value", [None, "no", 1, np.ones(2), torch.ones(2), np.array("no")])
def test_what_is_no_truth_value_is_none(value):
    with pytest.raises(ConfigError, match="overwrite must be true or false, got"):
        require_type("overwrite", value, bool)
