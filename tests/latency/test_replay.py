"""Replay = live: on the same batches the exits and the predictions are those of the store."""

from typing import Any

import numpy as np
import pytest

from tests.extraction.test_questions import WORDS
from tests.language_models import FAMILIES, folder_of, loaded, tiny_ouro
from tests.latency.replay import Frozen, documents, letters, questions, thresholds
from tests.looped import Spiral
from trajdiag.gates.gate import Gate
from trajdiag.latency.rule import live_rule
from trajdiag.latency.runner import run_live
from trajdiag.readout import Readout, list_readouts
from trajdiag.readout_registry import EXPECTED
from trajdiag.signals.registry import SIGNALS
from trajdiag.store import schema

GATES = [
    {"kind": kind, "objective": objective, "utility": utility, "name": f"{kind}-{name}"}
    for kind in ("linear", "mlp", "boosted")
    for name, objective, utility in (
        ("ponder", "ponder", "next"),
        ("next", "utility", "next"),
        ("previous", "utility", "previous"),
        ("any-later", "utility", "any-later"),
        ("correctness", "correctness", "next"),
        ("agreement", "agreement", "next"),
        ("depth", "depth", "next"),
    )
    if (kind, objective) != ("boosted", "ponder")
]


def causal(frozen: Frozen, gates: list[Gate]) -> list[Readout]:
    found = list_readouts(frozen.store, gates=gates)
    return [readout for readout in found if readout.name != EXPECTED]


def fitted(frozen: Frozen, options: list[dict]) -> list[Gate]:
    return [Gate(epochs=1, patience=1, **chosen).fit(frozen.store) for chosen in options]


def assert_replayed(
    frozen: Frozen, readout: Readout, threshold: float, min_depth: int = 1, **how: Any
):
    expected = frozen.offline(readout, threshold, min_depth)
    found = frozen.live(
        readout, threshold, min_depth, compact=False, refill=False, keep_logits=True, **how
    )
    said = f"{readout.name} at {threshold!r} from {min_depth}"
    np.testing.assert_array_equal(found.exit_depth, expected, err_msg=said)
    np.testing.assert_array_equal(found.prediction, frozen.predicted(expected), err_msg=said)
    assert found.exit_depth.dtype == np.int16 and found.prediction.dtype == np.int64
    stored = frozen.store.numpy("logits")[np.arange(len(expected)), expected - 1]
    if readout.kind == "signal" and SIGNALS[readout.name].reads == "logits":
        early = expected < frozen.loops  # where the head ran for the whole batch
        np.testing.assert_array_equal(found.logits[early], stored[early], err_msg=said)
    np.testing.assert_allclose(found.logits, stored, rtol=1e-4, atol=1e-4, err_msg=said)
    assert found.compactions == found.refills == 0


@pytest.fixture(scope="module")
def gated(tmp_path_factory) -> Frozen:
    """A model with a gate of its own."""
    return letters(Spiral(loops=6), tmp_path_factory.mktemp("gated") / "gated.zarr")


@pytest.fixture(scope="module")
def own_readouts(gated) -> dict[str, Readout]:
    return {readout.name: readout for readout in causal(gated, [])}


@pytest.mark.parametrize("name", [*SIGNALS, "native", "fixed"])
def test_a_signal_and_the_native_gate_leave_where_the_store_says(gated, own_readouts, name):
    readout = own_readouts[name]
    for threshold in thresholds(readout, gated.store):
        assert_replayed(gated, readout, threshold)
    assert_replayed(gated, readout, thresholds(readout, gated.store)[0], min_depth=4)


@pytest.mark.parametrize("options", GATES, ids=lambda options: options["name"])
def test_a_fitted_gate_leaves_where_the_store_says(gated, options):
    (gate,) = fitted(gated, [options])
    (readout,) = (r for r in causal(gated, [gate]) if r.gate is gate)
    for threshold in thresholds(readout, gated.store):
        assert_replayed(gated, readout, threshold)
    assert_replayed(gated, readout, thresholds(readout, gated.store)[0], min_depth=3)


SOME = ("js", "vote_share", "acceleration_twice", "native", "native-released")
"""Readouts that between them read all there is to read, over windows of all kinds."""


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_leaves_where_the_store_says(family, tmp_path):
    frozen = letters(loaded(folder_of(family, tmp_path / family)), tmp_path / "f.zarr")
    for readout in causal(frozen, fitted(frozen, [GATES[7], GATES[15]])):
        if readout.name in SOME or readout.gate is not None:
            for threshold in thresholds(readout, frozen.store)[1:3]:
                assert_replayed(frozen, readout, threshold)


@pytest.fixture(scope="module")
def ouro(tmp_path_factory):
    return loaded(tiny_ouro(tmp_path_factory.mktemp("ouro") / "tiny"))


@pytest.mark.parametrize("style", ["continuation", "letter"])
def test_questions_leave_where_the_store_says(ouro, style, tmp_path):
    choices = ("A", "B", "C", "D") if style == "letter" else WORDS
    frozen = questions(ouro, tmp_path / "q.zarr", style=style, choices=choices)
    readouts = {readout.name: readout for readout in causal(frozen, [])}
    assert ("native-continuation" in readouts) == (style == "continuation")
    for name in (*SOME, "entropy", "min_p_kl", *(n for n in readouts if n.startswith("native"))):
        for threshold in thresholds(readouts[name], frozen.store)[1:4]:
            assert_replayed(frozen, readouts[name], threshold)


def test_every_token_of_a_document_leaves_where_the_store_says(ouro, tmp_path):
    frozen = documents(ouro, tmp_path / "d.zarr")
    for readout in causal(frozen, []):
        for threshold in thresholds(readout, frozen.store)[1:4]:
            assert_replayed(frozen, readout, threshold)


def test_two_loops_leave_one_choice(tmp_path):
    frozen = letters(Spiral(loops=2), tmp_path / "few.zarr", 2)
    for readout in causal(frozen, []):
        for threshold in thresholds(readout, frozen.store)[:3]:
            assert_replayed(frozen, readout, threshold)


def test_one_loop_leaves_no_choice(gated):
    for name in ("entropy", "vote_share", "native"):
        rule = live_rule(gated.model, name, -np.inf, loops=1)
        found = run_live(gated.model, gated.work, rule, batch_tokens=100)
        assert (found.exit_depth == 1).all()


def test_one_example_a_batch(tmp_path):
    frozen = letters(Spiral(loops=6), tmp_path / "one.zarr", batch_tokens=1, fit=4, val=3, test=3)
    for readout in causal(frozen, []):
        for threshold in thresholds(readout, frozen.store)[:4]:
            assert_replayed(frozen, readout, threshold)


def test_the_mean_state_up_to_the_decision_is_read_where_the_store_has_it(tmp_path):
    frozen = letters(Spiral(loops=6), tmp_path / "mean.zarr", pool="mean")
    (readout,) = (r for r in causal(frozen, []) if r.name == "hidden_displacement")
    threshold = thresholds(readout, frozen.store)[2]
    found = frozen.live(readout, threshold, compact=False, state_pool="mean")
    np.testing.assert_array_equal(found.exit_depth, frozen.offline(readout, threshold))


def test_batches_within_blocks_are_those_of_a_store_of_several(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", 16)
    frozen = letters(loaded(tiny_ouro(tmp_path / "ouro")), tmp_path / "b.zarr", loops=4)
    assert frozen.store.blocks == 3
    for name in SOME:
        (readout,) = (r for r in causal(frozen, []) if r.name == name)
        for threshold in thresholds(readout, frozen.store)[2:5]:
            assert_replayed(frozen, readout, threshold, block_examples=frozen.store.block_examples)
