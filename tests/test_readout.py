"""Readouts of a store: which there are, and what their values are."""

from typing import get_args

import numpy as np
import pytest
import torch

from tests.extraction.test_questions import Quiz
from tests.language_models import VOCABULARY, byte_tokenizer, loaded
from tests.models.random_ouro import random_decoder
from tests.trajectories import planted
from trajdiag.diagnosis.diagnosing import diagnose
from trajdiag.errors import ConfigError, FingerprintError, TrajdiagWarning, UnknownNameError
from trajdiag.extraction import extract
from trajdiag.gates.config import FitGateConfig, FittedKind
from trajdiag.gates.frozen_fit import fit_gate
from trajdiag.gates.gate import Gate
from trajdiag.gates.objectives import OBJECTIVES, UTILITIES
from trajdiag.gates.released import released_cdf
from trajdiag.metrics.frontier import exit_depth
from trajdiag.models.checkpoint import write_checkpoint
from trajdiag.readout import (
    bound,
    fitted_gates,
    list_readouts,
    oracles,
    released_rule,
)
from trajdiag.readout_registry import READOUTS
from trajdiag.reporting import palette
from trajdiag.reporting.names import FAMILIES
from trajdiag.signals.registry import SIGNALS
from trajdiag.store.from_arrays import from_arrays

SMALL = {"fit": 12, "val": 12, "test": 12}


def store_with_gate(path, gate_logit):
    return planted(path, np.ones(gate_logit.shape, bool), gate_logit=gate_logit)


def test_a_store_has_its_signals_fixed_loops_and_its_own_gate(tmp_path):
    store = store_with_gate(tmp_path / "a.zarr", np.zeros((10, 3)))
    names = [readout.name for readout in list_readouts(store, cache_dir=tmp_path)]
    defined = [name for name, signal in SIGNALS.items() if signal.first_loop <= 3]
    assert names == ["native", "native-expected", *defined, "fixed"]
    plain = planted(tmp_path / "b.zarr", np.ones((10, 3), bool))
    assert "native" not in [readout.name for readout in list_readouts(plain, cache_dir=tmp_path)]


def test_the_native_gate_ranks_as_its_cdf_and_beyond_where_that_saturates(tmp_path):
    gate_logit = np.random.default_rng(0).normal(0, 2, (10, 4))
    gate_logit[0] = [40.0, 41.0, 0.0, 0.0]
    store = store_with_gate(tmp_path / "a.zarr", gate_logit)
    native = list_readouts(store, cache_dir=tmp_path)[0]
    values = native.values(store, "test")
    hazard = 1 / (1 + np.exp(-store.numpy("gate_logit", split="test").astype(np.float64)))
    cdf = 1 - np.cumprod(1 - hazard, axis=1)
    np.testing.assert_allclose(1 - np.exp(-values[:, :-1]), cdf[:, :-1], atol=1e-12)
    assert np.isposinf(values[:, -1]).all()
    certain = native.values(store, "fit")[0]
    assert certain[0] < certain[1] < certain[2]


def test_fixed_loops_are_a_signal_that_counts(tmp_path):
    store = store_with_gate(tmp_path / "a.zarr", np.zeros((10, 3)))
    fixed = list_readouts(store, cache_dir=tmp_path)[-1]
    np.testing.assert_array_equal(fixed.values(store, "val"), np.tile([1, 2, 3], (4, 1)))


def test_hindsight_and_the_bound_have_no_values(tmp_path):
    store = store_with_gate(tmp_path / "a.zarr", np.zeros((10, 3)))
    for readout in (*oracles(), bound()):
        with pytest.raises(ValueError, match=f"readout {readout.name} is no function"):
            readout.values(store, "test")
    assert [readout.name for readout in oracles()] == [
        "oracle",
        "oracle-stays",
        "oracle-loss",
        "oracle-saturation",
    ]
    assert {readout.kind for readout in oracles()} == {"oracle"}
    assert (bound().kind, bound().direction, bound().unit) == ("bound", "low", "accuracy")


class TestTheExpectedDepthOfTheGate:
    """Read with all its loops, beside what a causal rule can do."""

    def test_is_how_far_a_loop_lies_beyond_it(self, tmp_path):
        gate_logit = np.random.default_rng(0).normal(0, 2, (10, 5))
        store = store_with_gate(tmp_path / "a.zarr", gate_logit)
        expected = next(r for r in list_readouts(store, cache_dir=tmp_path) if "expected" in r.name)
        assert (expected.kind, expected.direction, expected.unit) == ("variant", "high", "loops")
        found = expected.values(store, "test")
        hazard = 1 / (1 + np.exp(-store.numpy("gate_logit", split="test").astype(float)))
        for row, e in zip(found, hazard, strict=True):
            q = [e[t] * np.prod(1 - e[:t]) for t in range(4)]
            q.append(1 - sum(q))
            mean = sum((t + 1) * share for t, share in enumerate(q))
            np.testing.assert_allclose(row, np.arange(1, 6) - mean, rtol=1e-12)

    def test_stops_at_the_first_loop_at_or_beyond_it(self, tmp_path):
        # hazards of one half: 1/2 + 2/4 + 3/8 + 4/8 = 15/8
        store = store_with_gate(tmp_path / "a.zarr", np.zeros((10, 4)))
        expected = list_readouts(store, cache_dir=tmp_path)[1]
        values = expected.values(store, "test")
        np.testing.assert_allclose(values[0], np.arange(1, 5) - 15 / 8, rtol=1e-12)
        assert exit_depth(values, 0.0, "high", expected.first_loop).tolist() == [2] * 4

    def test_is_there_only_where_the_model_has_a_gate(self, tmp_path):
        plain = planted(tmp_path / "b.zarr", np.ones((10, 3), bool))
        assert all(r.kind in ("signal", "fixed") for r in list_readouts(plain, cache_dir=tmp_path))


class TestAMinimumDepth:
    """No readout leaves before it."""

    @pytest.fixture
    def store(self, tmp_path):
        store = store_with_gate(tmp_path / "a.zarr", np.random.default_rng(0).normal(0, 2, (60, 5)))
        for objective in ("ponder", "correctness"):
            fit_gate(store, kind="linear", objective=objective, epochs=1, cache_dir=str(tmp_path))
        return store

    @pytest.mark.parametrize("least", [1, 2, 3, 5])
    def test_delays_every_exit_to_the_first_crossing_from_there_on(self, store, tmp_path, least):
        readouts = list_readouts(store, cache_dir=tmp_path, min_depth=least)
        kinds = {readout.kind for readout in readouts}
        assert kinds == {"native", "variant", "gate", "signal", "fixed"}
        for readout in readouts:
            values = readout.values(store, "test")
            threshold = float(np.nanmedian(values[:, :-1]))
            crosses = values >= threshold if readout.direction == "high" else values <= threshold
            crosses[:, : max(least, readout.first_loop) - 1] = False
            crosses[:, -1] = True
            found = exit_depth(values, threshold, readout.direction, readout.first_loop)
            assert found.tolist() == (crosses.argmax(1) + 1).tolist(), readout.name
            assert found.min() >= least

    def test_changes_no_value_and_no_later_first_loop(self, store, tmp_path):
        free, held = (list_readouts(store, cache_dir=tmp_path, min_depth=least) for least in (1, 3))
        assert [r.first_loop for r in held] == [max(3, r.first_loop) for r in free]
        for one, other in zip(free, held, strict=True):
            np.testing.assert_array_equal(one.values(store, "val"), other.values(store, "val"))

    @pytest.mark.parametrize("least", [0, 6])
    def test_must_be_a_loop(self, store, tmp_path, least):
        with pytest.raises(ConfigError, match=f"a loop of store a, 1 to 5, got {least}"):
            list_readouts(store, cache_dir=tmp_path, min_depth=least)


@pytest.mark.parametrize(
    ("objective", "scale", "unit", "direction"),
    [
        ("correctness", "logit", "logit", "high"),
        ("agreement", "logit", "logit", "high"),
        ("depth", "loops", "loops", "low"),
    ],
)
def test_a_fitted_gate_says_what_its_values_are(tmp_path, objective, scale, unit, direction):
    right = np.random.default_rng(0).random((60, 3)) < 0.5
    store = planted(tmp_path / "a.zarr", right)
    gate = fit_gate(store, kind="linear", objective=objective, epochs=1, cache_dir=str(tmp_path))
    readout = next(r for r in list_readouts(store, gates=[gate]) if r.kind == "gate")
    assert (readout.scale, readout.unit, readout.direction) == (scale, unit, direction)


class TestTheRegistry:
    """What `trajdiag list readouts` prints."""

    def test_holds_every_readout_of_a_store_as_it_is(self, ouro, tmp_path):
        deep = planted(tmp_path / "deep.zarr", np.ones((60, 4), bool))
        found = [
            *list_readouts(ouro, cache_dir=tmp_path),
            *list_readouts(deep, cache_dir=tmp_path),
            *oracles(),
            bound(),
        ]
        assert {r.name for r in found} == {n for n, e in READOUTS.items() if e.kind != "gate"}
        for readout in found:
            entry = READOUTS[readout.name]
            assert (entry.kind, entry.first_loop) == (readout.kind, readout.first_loop)
            assert entry.direction == (None if readout.kind == "oracle" else readout.direction)

    def test_holds_every_kind_and_objective_that_a_gate_can_be_fitted_with(self):
        for kind in get_args(FittedKind):
            assert READOUTS[f"{kind}-OBJECTIVE"].kind == "gate"
        for objective in OBJECTIVES:
            for utility in UTILITIES if objective == "utility" else UTILITIES[:1]:
                gate = Gate(kind="linear", objective=objective, utility=utility)
                entry = READOUTS[gate.name.replace("linear", "KIND")]
                assert (entry.direction, entry.first_loop) == (gate.direction, gate.first_loop)

    def test_names_are_taken_so_that_no_gate_can_bear_them(self):
        for name, entry in READOUTS.items():
            if entry.kind != "gate":
                with pytest.raises(ConfigError, match="another readout's name"):
                    FitGateConfig(name=name)

    def test_says_of_each_what_it_is_and_where_it_comes_from(self):
        assert all(entry.formula and entry.reference for entry in READOUTS.values())
        assert READOUTS["argmax_stability"].formula.startswith("patience")
        assert "1 - cosine" in READOUTS["hidden_cosine"].formula
        assert "no causal rule" in READOUTS["native-expected"].formula

    def test_has_a_colour_and_a_dash_for_each_that_has_a_name_of_its_own(self):
        named = {name for name, entry in READOUTS.items() if entry.kind != "gate"}
        assert named == palette.READOUTS.keys()
        assert sorted(name for family in FAMILIES for name in family) == sorted(SIGNALS)


def test_gates_fitted_on_the_store_are_readouts_all_of_them_or_those_named(tmp_path):
    store = store_with_gate(tmp_path / "a.zarr", np.zeros((60, 3)))
    options = {"kind": "linear", "epochs": 1, "cache_dir": str(tmp_path)}
    ponder = fit_gate(store, objective="ponder", **options)
    fit_gate(store, objective="correctness", **options)
    found = {r.name: r for r in list_readouts(store, cache_dir=tmp_path) if r.kind == "gate"}
    assert {name: r.scale for name, r in found.items()} == {
        "linear-correctness": "logit",
        "linear-ponder": "hazard",
    }
    for split in ("val", "test"):
        values = found["linear-ponder"].values(store, split)
        np.testing.assert_array_equal(values, ponder.values(store, split))
    named = list_readouts(store, gates=["linear-ponder"], cache_dir=tmp_path)
    assert [r.name for r in named if r.kind == "gate"] == ["linear-ponder"]
    with pytest.raises(UnknownNameError, match="existing: linear-correctness, linear-ponder"):
        list_readouts(store, gates=["mlp-ponder"], cache_dir=tmp_path)


def test_a_gate_of_another_store_or_of_a_readouts_name_is_refused(tmp_path):
    one = store_with_gate(tmp_path / "a.zarr", np.zeros((60, 3)))
    other = store_with_gate(tmp_path / "b.zarr", np.ones((60, 3)))
    fit_gate(one, kind="linear", epochs=1, cache_dir=str(tmp_path))
    folder = tmp_path / "gates" / "a" / "linear-ponder"
    with pytest.raises(FingerprintError):
        list_readouts(other, gates=[folder], cache_dir=tmp_path)
    with pytest.raises(ConfigError, match="entropy is another readout's name"):
        fit_gate(one, kind="linear", epochs=1, name="entropy", cache_dir=str(tmp_path))
    folder.rename(folder.parent / "entropy")
    with pytest.raises(ConfigError, match="two readouts of store a are named entropy"):
        list_readouts(one, cache_dir=tmp_path)


def test_gates_of_an_earlier_store_of_that_name_are_left_out_with_one_warning(tmp_path):
    rng = np.random.default_rng(0)
    for folder in ("first", "second"):
        hidden = rng.normal(size=(60, 3, 4)).astype(np.float32)
        logits = rng.normal(size=(60, 3, 2)).astype(np.float32)
        (tmp_path / folder).mkdir()
        target = np.arange(60) % 2
        store = from_arrays(tmp_path / folder / "mine.zarr", hidden, logits, target)
        if folder == "first":
            for name in ("one", "two", "three"):
                fit_gate(store, kind="linear", epochs=1, name=name, cache_dir=str(tmp_path))
    with pytest.warns(TrajdiagWarning) as warned:
        assert fitted_gates(store, tmp_path) == {}
    (warning,) = warned
    assert "another store named mine: gates one, three, two; fit" in str(warning.message)


@pytest.fixture(scope="module")
def ouro(tmp_path_factory):
    home = tmp_path_factory.mktemp("ouro")
    decoder = random_decoder(vocab_size=VOCABULARY, loops=4, dtype="bfloat16")
    with torch.no_grad():
        decoder.model.early_exit_gate.weight.mul_(3)
        decoder.model.early_exit_gate.bias.fill_(1)
    write_checkpoint(home / "tiny", decoder.bfloat16())
    byte_tokenizer().save(str(home / "tiny" / "tokenizer.json"))
    return extract(loaded(home / "tiny", torch.bfloat16), Quiz(), cache_dir=home)


class TestTheOuroGate:
    """What a released model's own gate is read as."""

    def test_is_read_exactly_as_released_and_over_the_continuations(self, ouro, tmp_path):
        found = {r.name: r for r in list_readouts(ouro, cache_dir=tmp_path)}
        assert list(found)[:3] == ["native", "native-released", "native-continuation"]
        assert [found[name].kind for name in list(found)[:3]] == ["native", "variant", "variant"]
        released = found["native-released"].values(ouro, "test")
        gate_logit = torch.from_numpy(ouro.numpy("gate_logit", split="test"))
        np.testing.assert_array_equal(
            released, released_cdf(gate_logit, torch.bfloat16).float().numpy()
        )
        over = found["native-continuation"].values(ouro, "test")
        hazard = np.log1p(np.exp(ouro.numpy("gate_logit_continuation", split="test")))
        np.testing.assert_allclose(over[:, :-1], hazard.astype(float).cumsum(1)[:, :-1], rtol=1e-5)

    def test_differs_at_threshold_1_between_the_two_rules_and_is_counted(self, ouro):
        released = np.argmax(
            released_cdf(torch.from_numpy(ouro.numpy("gate_logit", split="test")), torch.bfloat16)
            .float()
            .numpy()
            >= 1,
            axis=1,
        )
        differing = int((released + 1 < 4).sum())
        assert 0 < differing < 8
        rule = released_rule(ouro, "test")
        assert rule is not None
        assert (rule.threshold, rule.dtype) == (1.0, "bfloat16")
        assert (rule.differing, rule.examples) == (differing, 8)
        results = diagnose(ouro, n_resamples=20)
        row = next(r for r in results.scores if r.metric == "n_differ@1")
        assert (row.readout, row.value) == ("native-released", differing)
        finding = next(f for f in results.findings if f.code == "released-rule-differs")
        assert f"leaves {differing} of 8 test examples at another loop" in finding.message

    def test_leaves_as_the_exact_rule_where_nothing_rounds(self, tmp_path):
        decoder = random_decoder(vocab_size=VOCABULARY, loops=4)
        write_checkpoint(tmp_path / "tiny", decoder)
        byte_tokenizer().save(str(tmp_path / "tiny" / "tokenizer.json"))
        model = loaded(tmp_path / "tiny", torch.float32)
        store = extract(model, Quiz(), cache_dir=tmp_path)
        rule = released_rule(store, "test")
        assert rule is not None
        assert (rule.dtype, rule.differing) == ("float32", 0)
        findings = diagnose(store, n_resamples=20, bound=("ridge",)).findings
        assert "released-rule-differs" not in {finding.code for finding in findings}

    def test_a_model_of_our_own_training_has_no_released_rule(self, tmp_path):
        store = extract("mano-joint-linear", cache_dir=tmp_path, task_options=SMALL)
        names = [r.name for r in list_readouts(store, cache_dir=tmp_path)]
        assert "native" in names
        assert "native-released" not in names
        assert released_rule(store, "test") is None
