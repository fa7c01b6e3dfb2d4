"""What is no argument of a public function is refused in one short line, whatever its type."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import trajdiag
from tests.store.planted import planted
from trajdiag.cli import main
from trajdiag.errors import TrajdiagError
from trajdiag.gates.gate import Gate
from trajdiag.store.from_arrays import from_arrays

LONG = "x" * 5000
HUGE = 10**400
PLACES = [math.nan, 5, b"cache", "a\0b", "\ud800", LONG, np.ones(2)]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    a = planted(examples=60)
    return from_arrays(
        tmp_path_factory.mktemp("arguments") / "mine.zarr",
        a.hidden, a.logits, a.target, a.gate_logit, split=["fit", "val", "test"] * 20,
    )  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return trajdiag.load_model("mano-fixed-geometric", device="cpu")


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(TrajdiagError) as caught:
        call()
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 1000
    return line


@pytest.mark.parametrize("stores", [5, math.nan, np.array(3), torch.tensor(0.5)])
def test_stores(stores):
    assert refused(lambda: trajdiag.score(stores)).startswith("stores must be names, paths or")


@pytest.mark.parametrize("option", ["title", "command", "fail_if"])
@pytest.mark.parametrize("value", [5, np.ones(2), [None], math.nan])
def test_texts_of_a_report(store, option, value, tmp_path):
    given: dict[str, Any] = {option: value}
    said = refused(lambda: trajdiag.report(store, output=tmp_path / "report", **given))
    assert said.startswith(f"{option} must be a ")
    assert not (tmp_path / "report").exists()


def test_conditions_that_are_none(store, tmp_path):
    none: Any = None
    said = refused(lambda: trajdiag.report(store, output=tmp_path / "report", fail_if=none))
    assert said == "fail_if must be a list, each entry a text, got None"


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": "x"},
        {"beta": None},
        {"foo": 1},
        {"lam": np.ones(2)},
        {"frozen": "no"},
        {"k": LONG},
    ],
)
def test_options_of_a_gate(options):
    assert next(iter(options)) in refused(lambda: Gate(**options))


@pytest.mark.parametrize("given", [None, 5, "mine", np.ones(2)])
def test_what_a_gate_is_fitted_on(given):
    assert refused(lambda: Gate().fit(given)).startswith("store must be a Store, got")


def test_what_a_gate_is_made_of():
    wrong: Any = 5
    assert refused(lambda: Gate(wrong)) == "config must be a FitGateConfig, got 5"


@pytest.mark.parametrize("readout", [["entropy"], None, 5, np.ones(2)])
def test_the_readout_of_a_threshold(store, readout):
    said = refused(lambda: trajdiag.choose_threshold(store, readout, depth=2))
    assert said.startswith("readout must be a text, got")


@pytest.mark.parametrize("options", [{"min_depth": HUGE}, {"depth": HUGE}, {"n_resamples": 10**12}])
def test_numbers_of_a_threshold(store, options, tmp_path):
    given = {"depth": 2, "cache_dir": tmp_path, **options}
    assert next(iter(options)) in refused(
        lambda: trajdiag.choose_threshold(store, "entropy", **given)
    )


def test_a_fraction_is_a_number(store):
    found = trajdiag.score(store, slack=Fraction(1, 200), n_resamples=20)
    assert found.config["slack"] == 0.005


@pytest.mark.parametrize(
    "options",
    [
        {"model": math.nan},
        {"task": math.nan},
        {"readout": np.array(3)},
        {"threshold": np.array("x")},
        {"command": 5},
    ],
)
def test_arguments_of_latency(store, options):
    refused(lambda: trajdiag.measure_latency(store, **options))


@pytest.mark.parametrize(
    "options",
    [
        {"name_or_path": None},
        {"name_or_path": LONG},
        {"name_or_path": math.nan},
        {"device": None},
        {"device": LONG},
        {"device": 3},
        {"dtype": np.ones(2)},
        {"dtype": LONG},
        {"revision": 5},
        {"initial_state": LONG},
    ],
)
def test_arguments_of_a_model(options):
    given: dict[str, Any] = {"name_or_path": "mano-fixed-geometric", **options}
    refused(lambda: trajdiag.load_model(**given))


@pytest.mark.parametrize("name", [None, 5, math.nan, np.ones(2), ["mano"]])
def test_names_of_tasks_and_files(name):
    for function in (trajdiag.make_task, trajdiag.import_arrays):
        assert " must be a text, got" in refused(lambda function=function: function(name))


@pytest.mark.parametrize("ids", [None, {1}, object(), Fraction(1, 2), {"a": 1}, lambda: 1])
def test_what_is_traced(model, ids):
    assert refused(lambda: trajdiag.trace(model, ids)).startswith("input_ids must be whole numbers")


@pytest.mark.parametrize("threshold", [HUGE, -HUGE, "often", [1.0], LONG])
def test_the_threshold_of_a_generation(model, threshold):
    said = refused(lambda: trajdiag.generate(model, [[1]], readout="entropy", threshold=threshold))
    assert said.startswith("threshold must be a number or")


@pytest.mark.parametrize("place", PLACES, ids=range(len(PLACES)))
def test_the_place_of_the_cache(store, place):
    for call in (
        lambda: trajdiag.open("x", place),
        lambda: trajdiag.score(store, cache_dir=place),
        lambda: trajdiag.fit_gate(store, cache_dir=place),
        lambda: trajdiag.train(trajdiag.train_config(steps=1, cache_dir=place)),
        lambda: trajdiag.load_model("nothing", cache_dir=place),
    ):
        refused(call)


def test_names_of_tables_and_splits(store):
    for split in (["test"], np.array(["test"]), LONG):
        refused(lambda split=split: store.rows(split))
        refused(lambda split=split: trajdiag.score(store, n_resamples=2).to_pandas(split))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seed", str(2**64)], "seed must be from 0 to 2^63 - 1, not 18446744073709551616"),
        (["--init-std", "nan"], "init_std must be finite, not nan"),
        (["--init-std", "-1"], "init_std must be more than 0, not -1.0"),
        (["--threads", str(10**9)], "threads must be from 1 to 1,024, not 1000000000"),
        (["--beta", "inf"], "beta must be finite, not inf"),
        (["--name", LONG], "a checkpoint's name must be one folder's name"),
        (["--task", LONG], "unknown task 'xxx"),
        (["--d-model", str(2**28)], "not enough memory: tried to allocate"),
    ],
)
def test_options_of_train_at_the_prompt(arguments, said, tmp_path, capsys):
    assert main(["train", "--steps", "1", "--cache-dir", str(tmp_path), *arguments]) == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert said in line
    assert len(line) < 500


def test_a_cache_that_cannot_be_written_is_refused_before_anything_is_trained(capsys):
    assert main(["train", "--steps", "1", "--cache-dir", "\udcff"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "the cache's path must be text in UTF-8" in line
