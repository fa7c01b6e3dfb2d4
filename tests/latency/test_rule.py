"""Which rules can be run live, on which models."""

import dataclasses

import numpy as np
import pytest

from tests.latency.replay import letters
from tests.looped import Letters, Spiral
from trajdiag.deployment.choosing import choose_threshold
from trajdiag.errors import (
    ConfigError,
    FingerprintError,
    GateError,
    TrajdiagError,
    UnknownNameError,
)
from trajdiag.extraction import extract
from trajdiag.extraction.examples import example_work
from trajdiag.gates.frozen_fit import fit_gate
from trajdiag.gates.gate import Gate
from trajdiag.latency.rule import live_rule, saved_rule
from trajdiag.latency.runner import run_live


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("native-expected", ConfigError, "reads the gate at later loops"),
        ("bound", ConfigError, "is a bound"),
        ("oracle", ConfigError, "is hindsight"),
        ("oracle-stays", ConfigError, "is hindsight"),
        ("native-released", ConfigError, "Ouro's released code"),
        ("entropie", UnknownNameError, "did you mean entropy?"),
        ("KIND-ponder", UnknownNameError, "unknown readout to run live"),
    ],
)
def test_what_is_no_causal_rule_of_the_model_is_refused_in_one_line(name, error, said):
    with pytest.raises(error) as caught:
        live_rule(Spiral(), name, 0.5)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["native", "native-continuation"])
def test_a_gate_that_the_model_lacks_is_refused(name):
    with pytest.raises(ConfigError, match="reads the model's own gate, and spiral has none"):
        live_rule(Spiral(gate=False), name, 0.5)


def test_continuations_that_the_task_lacks_are_refused():
    work = example_work(Letters(), inputs=False)
    rule = live_rule(Spiral(), "native-continuation", 0.5)
    with pytest.raises(ConfigError, match="over continuations, and there are none; use native"):
        run_live(Spiral(), work, rule, batch_tokens=100)


@pytest.mark.parametrize("min_depth", [0, 4])
def test_a_minimum_depth_that_is_no_loop_is_refused(min_depth):
    with pytest.raises(ConfigError, match="one of loops 1 to 3"):
        live_rule(Spiral(), "entropy", 0.5, min_depth=min_depth)


def test_gates_that_do_not_fit_the_model_are_refused(tmp_path):
    frozen = letters(Spiral(loops=6), tmp_path / "g.zarr")
    linear = Gate(kind="linear", epochs=1).fit(frozen.store)
    with pytest.raises(ConfigError, match="reads states of width 8, and spiral has 16"):
        live_rule(Spiral(d_model=16), linear, 0.5)
    boosted = Gate(kind="boosted", objective="depth", epochs=1).fit(frozen.store)
    with pytest.raises(ConfigError, match="reads the model's own gate"):
        live_rule(Spiral(gate=False), boosted, 0.5)
    with pytest.raises(GateError, match="not fitted"):
        live_rule(Spiral(), Gate(), 0.5)


@pytest.mark.parametrize("name", ["entropy", "native", "linear-agreement", "fixed"])
def test_a_saved_readout_runs_live_as_it_does_on_its_store(name, tmp_path):
    model, task = Spiral(loops=6), Letters(fit=40, val=40, test=40)
    store = extract(model, task, cache_dir=str(tmp_path), batch_tokens=90)
    fit_gate(store, kind="linear", objective="agreement", epochs=1, cache_dir=str(tmp_path))
    saved = choose_threshold(store, name, depth=3.5, min_depth=2, cache_dir=str(tmp_path))
    rule = saved_rule(model, saved)
    found = run_live(model, example_work(task, inputs=False), rule, batch_tokens=90)
    expected = saved.exit_depth(store, "test")
    np.testing.assert_array_equal(found.exit_depth[store.rows("test")], expected)
    assert expected.min() >= 2
    if saved.gate is not None:
        other = Spiral(loops=6)
        other.record = dataclasses.replace(other.record, sha256="6" * 64)
        with pytest.raises(FingerprintError, match="fitted on the states of model spiral"):
            saved_rule(other, saved)
        saved = dataclasses.replace(saved, path=tmp_path / "elsewhere" / "a" / "b.json")
        with pytest.raises(TrajdiagError, match="no gate at"):
            saved_rule(model, saved)
