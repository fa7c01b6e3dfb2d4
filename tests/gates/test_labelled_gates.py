"""Every kind of gate on the agreement and depth objectives, and on labels at their limits."""

import numpy as np
import pytest

from tests.gates.planted import FIRST_STAYS, planted_store, waiting_store
from trajdiag.gates.gate import Gate, load_gate
from trajdiag.store.from_arrays import from_arrays

KINDS = ["linear", "mlp", "boosted"]
LABELLED = [
    {"objective": "correctness"},
    {"objective": "agreement"},
    {"objective": "depth"},
    {"objective": "utility", "utility": "next"},
    {"objective": "utility", "utility": "previous"},
]


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    return waiting_store(tmp_path_factory.mktemp("planted") / "waiting.zarr")


def expected_further(kind: int, loop: int, *, unmoved: bool) -> float:
    """Mean further loops of this kind at `loop`; where `unmoved`, of those that have not turned
    from wrong to right so far."""
    chance = {s: FIRST_STAYS[kind, s - 1] for s in (1, 2, 3, 4)}
    waiting = sum(p * (s - loop) for s, p in chance.items() if s > loop)
    turned = sum(p for s, p in chance.items() if 1 < s <= loop)
    return waiting / (1 - turned) if unmoved else waiting


def test_a_network_of_depth_gives_the_mean_of_further_loops(waiting):
    store, kind = waiting
    gate = Gate(kind="linear", objective="depth", patience=4).fit(store)
    values, kind = gate.values(store, "test"), kind[store.rows("test")]
    want = [[expected_further(k, t, unmoved=False) for t in (1, 2, 3)] for k in range(3)]
    assert np.abs(values[:, :-1] - np.array(want)[kind]).max() < 0.15
    assert (values[:, -1] == 0).all()
    assert (gate.direction, gate.first_loop, gate.scale) == ("low", 1, "loops")


def test_trees_of_depth_give_the_mean_of_further_loops_after_what_was_seen(waiting):
    store, kind = waiting
    gate = Gate(kind="boosted", objective="depth").fit(store)
    test = store.rows("test")
    values, kind, prediction = gate.values(store, "test"), kind[test], store.predictions("test")
    for loop in (1, 2, 3):
        for k in range(3):
            unmoved = (prediction[:, :loop] == prediction[:, :1]).all(1)
            still, turned = unmoved & (kind == k), ~unmoved & (kind == k)
            want = expected_further(k, loop, unmoved=True)
            assert np.abs(values[still, loop - 1] - want).max() < 0.2
            assert np.abs(values[turned, loop - 1]).max(initial=0.0) < 0.1
    assert gate.loss_unit == "loops squared"
    assert gate.val_loss_ < gate.baseline_loss_


@pytest.mark.parametrize("kind", ["linear", "boosted"])
def test_an_agreement_gate_gives_the_logit_of_having_the_last_prediction(tmp_path, kind):
    store, _ = planted_store(tmp_path / "planted.zarr", signal=4.0)
    gate = Gate(kind=kind, objective="agreement", epochs=10).fit(store)
    values, prediction = gate.values(store, "test"), store.predictions("test")
    agrees = prediction[:, :-1] == prediction[:, -1:]
    share = ((values[:, :-1] > 0) == agrees).mean()
    # The planted states tell all; the signals tell a change of the two classes after the fact.
    assert share > (0.98 if kind == "linear" else max(agrees.mean(), 1 - agrees.mean()))
    assert (values[:, -1] == np.inf).all()
    assert (gate.direction, gate.name, gate.scale) == ("high", f"{kind}-agreement", "logit")


def one_class(path, right: bool, examples=(20, 5, 5), loops: int = 2):
    rng = np.random.default_rng(0)
    n = sum(examples)
    target = rng.integers(0, 3, n)
    logits = rng.normal(size=(n, loops, 3))
    logits[np.arange(n), :, target] += 20.0 if right else -20.0
    split = np.repeat(["fit", "val", "test"], examples)
    return from_arrays(path, rng.normal(size=(n, loops, 4)), logits, target, split=split)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("right", [True, False])
def test_labels_of_one_class_give_a_constant_and_say_so(tmp_path, kind, right):
    store = one_class(tmp_path / "one.zarr", right)
    said = []
    gate = Gate(kind=kind, objective="correctness").fit(store, said.append)
    assert said == ["every fit example has the same label at every loop: the gate is a constant"]
    values = load_gate(gate.save(tmp_path / "gate"), store).values(store, "test")
    want = np.log(40.5 / 0.5) * (1 if right else -1)
    assert np.allclose(values, want, rtol=1e-6)
    assert gate.val_loss_ == pytest.approx(np.log1p(np.exp(-abs(want))), rel=1e-5)
    depth = Gate(kind=kind, objective="depth").fit(store)
    assert (depth.values(store, "test") == 0).all()
    assert (depth.val_loss_, depth.baseline_loss_) == (0.0, 0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", LABELLED, ids=lambda o: "-".join(o.values()))
@pytest.mark.parametrize("loops", [2, 3])
def test_a_single_fit_example_is_enough_to_run(tmp_path, kind, options, loops):
    rng = np.random.default_rng(3)
    split = ["fit", *["val"] * 3, *["test"] * 3]
    shape = (7, loops, 4)
    store = from_arrays(
        tmp_path / "single.zarr", rng.normal(size=shape), rng.normal(size=shape), np.zeros(7, int),
        split=split,
    )  # fmt: skip
    gate = Gate(kind=kind, epochs=2, **options).fit(store)
    values = gate.values(store, "test")
    assert values.shape == (3, loops)
    assert np.isfinite(values[:, gate.first_loop - 1 : -1]).all()
    assert not np.isnan(values[:, -1]).any()
    assert np.isfinite(gate.val_loss_)


@pytest.mark.parametrize("options", LABELLED, ids=lambda o: "-".join(o.values()))
def test_trees_on_two_loops_read_the_first_without_its_changes(tmp_path, options):
    rng = np.random.default_rng(4)
    store = from_arrays(
        tmp_path / "two.zarr", rng.normal(size=(400, 2, 4)), rng.normal(size=(400, 2, 3)),
        rng.integers(0, 3, 400),
    )  # fmt: skip
    values = Gate(kind="boosted", **options).fit(store).values(store, "test")
    assert not np.isnan(values[:, 1]).any()
