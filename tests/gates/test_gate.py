import json

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from tests.gates.planted import planted_store
from trajdiag.errors import ConfigError, FingerprintError, GateError
from trajdiag.gates.gate import Gate, load_gate
from trajdiag.gates.network import GateNetwork
from trajdiag.gates.state_reader import StateReader
from trajdiag.store.from_arrays import from_arrays


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    return planted_store(tmp_path_factory.mktemp("planted") / "planted.zarr", signal=4.0)


@pytest.fixture(scope="module")
def gate(planted):
    return Gate(seed=1, epochs=6).fit(planted[0])


def exit_loops(gate, store):
    """First loop where the CDF reaches a tenth, on test: from the first right loop on, the uniform
    prior spreads the exit over all that are left."""
    return (gate.values(store, "test") >= -np.log(1 - 0.1)).argmax(1) + 1


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_planted_signal_is_found_and_exits_are_near_perfect(planted, kind):
    store, first_right = planted
    gate = Gate(kind=kind, epochs=15).fit(store)
    test = store.rows("test")
    assert np.mean(exit_loops(gate, store) == first_right[test]) > 0.95
    assert gate.val_loss_ < 0.2 * gate.baseline_loss_


@pytest.mark.parametrize("utility", ["next", "any-later"])
def test_a_forward_utility_gate_waits_for_the_gain(tmp_path, utility):
    # With two loops both forward labels ask the same: does the second loop repair the first?
    store, first_right = planted_store(tmp_path / "two.zarr", signal=4.0, loops=2)
    gate = Gate(objective="utility", utility=utility).fit(store)
    test = store.rows("test")
    assert np.mean(exit_loops(gate, store) == first_right[test]) > 0.95


def test_a_correctness_gate_gives_the_logit_of_being_right(planted):
    store, _ = planted
    gate = Gate(kind="linear", objective="correctness", epochs=10).fit(store)
    values, right = gate.values(store, "test"), store.correct("test")
    assert values.shape == right.shape
    # A signal of +-4 in unit noise separates two classes by 8 spreads.
    assert np.mean((values > 0) == right) > norm.cdf(4.0) - 0.01


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_noise_is_at_chance(tmp_path, kind):
    store, _ = planted_store(tmp_path / "noise.zarr", signal=0.0)
    gate = Gate(kind=kind, objective="correctness").fit(store)
    second = gate.values(store, "test")[:, 1]
    assert abs(roc_auc_score(store.correct("test")[:, 1], second) - 0.5) < 0.1
    assert gate.val_loss_ == pytest.approx(gate.baseline_loss_, rel=0.05)


def test_a_backward_utility_gate_cannot_leave_at_loop_1(planted):
    store, _ = planted
    gate = Gate(kind="linear", objective="utility", utility="previous").fit(store)
    values = gate.values(store, "val")
    assert gate.first_loop == 2
    assert np.isnan(values[:, 0]).all()
    assert np.isfinite(values[:, 1:-1]).all()


def test_values_are_the_cumulative_hazard_of_the_gates_own_logits(planted, gate):
    store, _ = planted
    hidden = torch.from_numpy(store.numpy("hidden", split="val"))
    leave = torch.sigmoid(gate.reader_.logits(hidden).double())
    cdf = 1 - torch.cumprod(1 - leave[:, :-1], 1)
    values = gate.values(store, "val")
    assert np.allclose(1 - np.exp(-values[:, :-1]), cdf.numpy(), atol=1e-6)
    assert np.isinf(values[:, -1]).all()


def test_val_loss_is_that_of_the_kept_network_on_raw_states(planted, gate):
    store, _ = planted
    logit = gate.reader_.logits(torch.from_numpy(store.numpy("hidden", split="val"))).double()
    leave = torch.sigmoid(logit)
    leave[:, -1] = 1
    q = leave * torch.cumprod(torch.cat([torch.ones(len(q1 := leave), 1), 1 - q1[:, :-1]], 1), 1)
    ce = torch.from_numpy(store.cross_entropy("val"))
    kl = (torch.xlogy(q, q) - q * np.log(1 / store.loops)).sum(1)
    want = ((q * ce).sum(1) + gate.config.beta * kl).mean().item()
    assert gate.val_loss_ == pytest.approx(want, rel=1e-4)
    assert gate.val_loss_ == pytest.approx(min(gate.history_), rel=1e-2)


def test_states_streamed_from_disk_give_the_same_gate_as_states_in_memory(planted, gate):
    store, _ = planted
    streamed = Gate(seed=1, epochs=6, memory=0.0).fit(store)
    assert streamed.history_ == gate.history_
    assert np.array_equal(streamed.values(store, "test"), gate.values(store, "test"))


def test_a_seed_gives_the_same_gate_and_another_seed_another(planted, gate):
    store, _ = planted
    assert Gate(seed=1, epochs=6).fit(store).history_ == gate.history_
    assert Gate(seed=2, epochs=1).fit(store).history_ != gate.history_[:1]


def test_fitting_leaves_the_callers_random_state_alone(planted):
    torch.manual_seed(5)
    want = torch.rand(3)
    torch.manual_seed(5)
    Gate(kind="linear", epochs=1).fit(planted[0])
    assert torch.equal(torch.rand(3), want)


def test_a_gate_returns_from_its_folder_with_the_same_values(planted, gate, tmp_path):
    store, _ = planted
    again = load_gate(gate.save(tmp_path / "gate"), store)
    assert np.array_equal(again.values(store, "test"), gate.values(store, "test"))
    assert (again.config.identity(), again.commands) == (gate.config.identity(), gate.commands)
    assert sorted(p.name for p in (tmp_path / "gate").iterdir()) == [
        "config.json",
        "gate.safetensors",
    ]


def test_a_gate_shows_what_it_is_and_how_well_it_does(gate):
    said = f"val loss {gate.val_loss_:.5f} nats, {gate.baseline_loss_:.5f} without the states"
    assert repr(gate) == f"Gate(mlp-ponder: fitted on planted, {said})"
    page = gate._repr_html_()
    for text in ("Gate mlp-ponder", "reads the states", said, "trajdiag fit-gate planted"):
        assert text in page
    bare = Gate(kind="boosted", objective="utility", name="bare")
    assert repr(bare) == "Gate(bare: not fitted)"
    assert "no store yet" in bare._repr_html_()
    assert "boosted, reads the signals" in bare._repr_html_()
    assert "utility (next)" in bare._repr_html_()


def test_a_gate_refuses_another_store(planted, gate, tmp_path):
    other, _ = planted_store(tmp_path / "other.zarr", signal=4.0, seed=9)
    folder = gate.save(tmp_path / "gate")
    with pytest.raises(FingerprintError, match="was fitted on store planted"):
        load_gate(folder, other)
    with pytest.raises(FingerprintError):
        gate.values(other, "test")


def test_a_damaged_gate_is_refused_in_one_line(planted, gate, tmp_path):
    folder = gate.save(tmp_path / "gate")
    weights = folder / "gate.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(GateError, match=r"is damaged: gate\.safetensors is not the file") as error:
        load_gate(folder, planted[0])
    assert "\n" not in str(error.value)
    (folder / "config.json").write_text("{")
    with pytest.raises(GateError, match="is damaged"):
        load_gate(folder, planted[0])
    with pytest.raises(GateError, match="no gate at"):
        load_gate(tmp_path / "absent", planted[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("null", r"config\.json is no JSON object"),
        ("[1]", r"config\.json is no JSON object"),
        ('{"a": [1]}', r"config\.json does not say version"),
        ('{"version": 1}', r"config\.json does not say kind"),
    ],
)
def test_a_config_that_is_no_gates_is_refused_in_plain_words(planted, gate, tmp_path, text, words):
    folder = gate.save(tmp_path / "gate")
    (folder / "config.json").write_text(text)
    with pytest.raises(GateError, match=f"is damaged: {words}; fit it again"):
        load_gate(folder, planted[0])


def test_whatever_stands_in_a_field_of_the_config_is_refused_in_words_or_harmless(
    planted, gate, tmp_path
):
    folder = gate.save(tmp_path / "gate")
    content = json.loads((folder / "config.json").read_text())
    for key in content:
        for value in (None, [1], {"a": 1}, "words"):
            (folder / "config.json").write_text(json.dumps({**content, key: value}))
            try:
                again = load_gate(folder, planted[0])
            except (GateError, FingerprintError) as error:
                assert not any(
                    word in str(error)
                    for word in ("NoneType", "subscriptable", "not supported", "argument", "'dict'")
                ), str(error)
            else:
                assert key == "crc32c" or value == content[key]
                assert np.array_equal(
                    again.values(planted[0], "test"), gate.values(planted[0], "test")
                )


def test_a_digit_that_has_changed_in_the_config_is_noticed(planted, gate, tmp_path):
    folder = gate.save(tmp_path / "gate")
    config = folder / "config.json"
    text = config.read_text()
    at = text.index(f'"val_loss": {gate.val_loss_}') + len('"val_loss": 0.0')
    config.write_text(f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}")
    with pytest.raises(GateError, match=r"is damaged: config\.json is not what was written"):
        load_gate(folder, planted[0])
    content = json.loads(text)
    del content["crc32c"]  # as earlier versions wrote it
    config.write_text(json.dumps(content))
    assert load_gate(folder, planted[0]).val_loss_ == gate.val_loss_


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("store", 5),
        ("store", ""),
        ("store", "x" * 5000),
        ("store", "\ud800"),
        ("commands", "trajdiag"),
        ("commands", [5]),
        ("commands", ["\ud800"]),
        ("fingerprint", None),
        ("val_loss", float("nan")),
        ("val_loss", 10**400),
        ("val_loss", True),
        ("baseline_loss", "0.5"),
        ("baseline_loss", float("inf")),
        ("history", [None]),
        ("history", [float("nan")]),
        ("d_model", 10**6),
        ("d_model", True),
        ("epochs", 10**400),
        ("beta", "x"),
        ("seed", 1.5),
    ],
)
def test_what_stands_in_an_older_config_without_a_checksum_is_checked(
    planted, gate, tmp_path, key, value
):
    folder = gate.save(tmp_path / "gate")
    content = json.loads((folder / "config.json").read_text())
    assert key in content
    del content["crc32c"]
    (folder / "config.json").write_text(json.dumps({**content, key: value}))
    with pytest.raises(GateError, match="is damaged: ") as caught:
        load_gate(folder, planted[0])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_gate_of_another_version_is_refused(planted, gate, tmp_path):
    folder = gate.save(tmp_path / "gate")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "version": 99}))
    with pytest.raises(GateError, match="version 99"):
        load_gate(folder, planted[0])


def test_an_unfitted_gate_says_so(planted):
    with pytest.raises(GateError, match="not fitted"):
        Gate().values(planted[0], "test")


def few_examples(path, split=("fit", "val", "test")):
    rng = np.random.default_rng(0)
    n = 3 * len(split)
    hidden, logits = rng.normal(size=(n, 3, 4)), rng.normal(size=(n, 3, 2))
    return from_arrays(path, hidden, logits, np.zeros(n, np.int64), split=np.tile(split, 3))


def test_a_store_without_val_examples_cannot_be_fitted_on(tmp_path):
    store = few_examples(tmp_path / "store.zarr", split=("fit", "test"))
    with pytest.raises(GateError, match="has no val examples"):
        Gate().fit(store)


@pytest.mark.parametrize("array", ["hidden", "logits"])
def test_numbers_too_large_for_float32s_sums_are_refused_in_words(tmp_path, array):
    rng = np.random.default_rng(0)
    given = {"hidden": rng.normal(size=(60, 3, 4)), "logits": rng.normal(size=(60, 3, 2))}
    given[array] = np.clip(3e38 * given[array], -3.4e38, 3.4e38)
    store = from_arrays(tmp_path / "x.zarr", **given, target=np.arange(60) % 2)
    with pytest.raises(GateError, match="too large for float32; check the store's states and log"):
        Gate(kind="linear", epochs=1).fit(store)


def test_a_handful_of_examples_is_enough_to_run(tmp_path):
    gate = Gate(epochs=2).fit(few_examples(tmp_path / "few.zarr"))
    assert np.isfinite(gate.val_loss_)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "cubic"}, "unknown kind 'cubic'; existing: linear, mlp"),
        ({"objective": "hope"}, "ponder, utility, correctness, agreement, depth"),
        ({"kind": "boosted"}, "objectives for boosted: utility, correctness, agreement, depth"),
        ({"utility": "last"}, "next, previous, any-later"),
        ({"prior": "flat"}, "uniform, geometric"),
        ({"beta": -1.0}, "beta must be at least 0"),
        ({"lam": 1.0}, "between 0 and 1"),
        *(
            ({option: value}, f"{option} must .*got {value}")
            for option in ("beta", "lam", "k", "gamma", "memory")
            for value in (np.nan, np.inf, -np.inf)
        ),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"name": "../gate"}, "must be one folder's name"),
        ({"name": "entropy"}, "entropy is another readout's name"),
        ({"name": "native-released"}, "is another readout's name"),
        ({"name": "native-continuation"}, "is another readout's name"),
        ({"name": "native-expected"}, "is another readout's name"),
        ({"name": "bound"}, "is another readout's name"),
        ({"name": "oracle-stays"}, "is another readout's name"),
        ({"name": "oracle-loss"}, "is another readout's name"),
        ({"name": "oracle-saturation"}, "is another readout's name"),
        ({"frozen": False}, "trajdiag train --objective joint"),
    ],
)
def test_options_that_cannot_be_fitted_are_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        Gate(**options)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_outputs_are_the_same_bit_for_bit_whatever_else_is_read_with_them(kind):
    network = GateNetwork(kind, 64)
    reader = StateReader(network)
    states = 3 * torch.randn(301, 64, generator=torch.Generator().manual_seed(0))
    whole = reader.logits(states)
    for size in (1, 3, 17):
        assert torch.equal(torch.cat([reader.logits(x) for x in states.split(size)]), whole)
    torch.testing.assert_close(whole, network(states), rtol=1e-5, atol=1e-5)
