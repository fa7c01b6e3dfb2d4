"""Readout files that are missing, damaged, foreign or changed are refused in one line."""

import dataclasses
import hashlib
import json
import math
import shlex
from pathlib import Path

import numpy as np
import pytest

from trajdiag.deployment.readout_file import load_readout, save_readout
from trajdiag.deployment.saved_readout import (
    Measured,
    OperatingPoint,
    ReadoutError,
    SavedReadout,
    SplitNumbers,
)


def saved(path: Path, threshold: float = 0.25) -> SavedReadout:
    numbers = SplitNumbers(
        examples=10,
        groups=9,
        depth=Measured(value=2.5),
        accuracy=Measured(value=0.9, low=0.8, high=1.0),
        risk=Measured(value=0.1),
    )
    return SavedReadout(
        name="entropy",
        kind="signal",
        direction="low",
        first_loop=1,
        min_depth=1,
        scale="signal",
        unit="nats",
        formula="H",
        gate=None,
        target="accuracy",
        level=0.9,
        delta=None,
        store="mine",
        fingerprint="ab",
        model="model",
        model_sha256=None,
        point=OperatingPoint(threshold=threshold, method="by hand", val=numbers, test=numbers),
        path=path,
    )


@pytest.mark.parametrize("threshold", [0.1 + 0.2, -1e-300, np.inf, -np.inf, np.nan])
def test_every_threshold_comes_back_to_the_bit(tmp_path, threshold: float):
    path = save_readout(saved(tmp_path / "new" / "a.json", float(threshold)))
    found = load_readout(path)
    np.testing.assert_equal(found.point.threshold, float(threshold))
    assert found.point.never_leaves == np.isnan(threshold)
    json.loads(path.read_text(), parse_constant=pytest.fail)  # no NaN, which is no JSON


def test_nothing_of_an_unfinished_write_is_left(tmp_path):
    save_readout(saved(tmp_path / "a.json"))
    save_readout(saved(tmp_path / "a.json", 0.5))
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
    assert load_readout(tmp_path / "a.json").point.threshold == 0.5


def test_a_missing_file_says_how_to_make_one(tmp_path):
    with pytest.raises(ReadoutError, match=r"no readout file at .*trajdiag score STORE"):
        load_readout(tmp_path / "none.json")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"name": "entropy"}', "\x00\x01", "[" * 100_000]
)
def test_a_foreign_file_is_refused(tmp_path, text: str):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ReadoutError, match="is no readout file") as refused:
        load_readout(path)
    assert "\n" not in str(refused.value)
    with pytest.raises(ReadoutError, match="is no readout file"):
        load_readout(tmp_path)


def test_a_file_of_another_version_is_refused(tmp_path):
    path = save_readout(saved(tmp_path / "a.json"))
    path.write_text(path.read_text().replace('"trajdiag_readout": 1', '"trajdiag_readout": 2'))
    with pytest.raises(ReadoutError, match="version 2, this trajdiag reads 1"):
        load_readout(path)


def test_a_file_that_was_changed_by_hand_is_refused_whatever_was_changed(tmp_path):
    path = save_readout(saved(tmp_path / "a.json"))
    content = json.loads(path.read_text())
    for key in [key for key in content if key != "trajdiag_readout"]:
        changed = {**content, key: "something else"}
        path.write_text(json.dumps(changed))
        with pytest.raises(ReadoutError, match="damaged or was changed"):
            load_readout(path)
        path.write_text(json.dumps({k: v for k, v in content.items() if k != key}))
        with pytest.raises(ReadoutError, match="damaged or was changed"):
            load_readout(path)
    path.write_text(json.dumps(content))  # but not for its white space
    assert load_readout(path) == saved(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kind", "oracle"),
        ("direction", "up"),
        ("scale", "metres"),
        ("gate", {"folder": "x", "sha256": "y"}),
        ("point", {"threshold": 1}),
        ("point", None),
        ("point", []),
        ("surplus", 1),
        ("name", None),
        ("name", "no-such-signal"),
        ("kind", "native"),
        ("direction", "high"),
        ("scale", "hazard"),
        ("first_loop", 0),
        ("first_loop", True),
        ("first_loop", 2),
        ("min_depth", 1.5),
        ("min_depth", "1"),
        ("target", "speed"),
        ("level", "high"),
        ("level", "0.9"),
        ("level", True),
        ("level", 2.0),
        ("level", 10**400),
        ("level", math.inf),
        ("delta", 0.05),
        ("conformal", {}),
        ("model", 3),
        ("model_sha256", 3),
        ("point.threshold", "high"),
        ("point.threshold", True),
        ("point.threshold", math.nan),
        ("point.method", None),
        ("point.val", 1),
        ("point.val.examples", 2.0),
        ("point.test.groups", 0),
        ("point.test.depth", 2.5),
        ("point.test.depth.value", None),
        ("point.test.depth.low", "low"),
        ("point.test.depth.middle", 1),
    ],
)
def test_a_file_that_is_whole_but_says_nonsense_is_refused_in_plain_words(tmp_path, key, value):
    path = save_readout(saved(tmp_path / "a.json"))
    content = json.loads(path.read_text())
    *above, last = key.split(".")
    within = content
    for name in above:
        within = within[name]
    within[last] = value
    write_signed(path, content)
    with pytest.raises(ReadoutError, match="is damaged") as refused:
        load_readout(path)
    said = str(refused.value)
    assert "\n" not in said and len(said) < 300 + len(str(path))
    assert not any(word in said for word in ("Error", "__init__", "NoneType", "keyword"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"surplus": 1}, "it says 'surplus', which no readout file does"),
        ({"min_depth": True}, "min_depth must be a whole number from 1, got True"),
        ({"direction": "high"}, "direction of entropy is low, got 'high'"),
        ({"level": 2.0}, "accuracy must be a share"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, changes, words):
    path = save_readout(saved(tmp_path / "a.json"))
    write_signed(path, json.loads(path.read_text()) | changes)
    with pytest.raises(ReadoutError, match=words):
        load_readout(path)


@pytest.mark.parametrize("key", [field.name for field in dataclasses.fields(SavedReadout)][:-1])
def test_a_field_that_is_missing_is_named(tmp_path, key):
    path = save_readout(saved(tmp_path / "a.json"))
    content = json.loads(path.read_text())
    del content[key]
    write_signed(path, content)
    with pytest.raises(ReadoutError, match=f"is damaged: it does not say {key};"):
        load_readout(path)


@pytest.mark.parametrize("path", [None, 3, "", b"a.json"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ReadoutError, match="a readout file is named by its path, got"):
        load_readout(path)


def write_signed(path: Path, content: dict) -> None:
    """Write `content` with the digest that its own rest has."""
    content.pop("sha256")
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    path.write_text(json.dumps({**content, "sha256": hashlib.sha256(canonical).hexdigest()}))


def test_the_command_that_chooses_it_again_is_one_line_for_a_shell(tmp_path):
    plain = saved(tmp_path / "a.json")
    assert plain.command == "trajdiag score mine --readouts entropy --target accuracy=0.9"
    odd = dataclasses.replace(
        plain, store="my runs~", name="my gate", target="risk", delta=0.1, min_depth=2
    )
    words = ["trajdiag", "score", "my runs~", "--readouts", "my gate"]
    words += ["--target", "risk=0.9", "--delta", "0.1", "--min-depth", "2"]
    assert shlex.split(odd.command) == words
