"""Probabilities that were given for logits are refused, and those of a gate taken as what they
are."""

import numpy as np
import pytest
import torch
from scipy.special import logit, softmax

from tests.store.planted import planted
from trajdiag.errors import ConfigError, NonFiniteError
from trajdiag.store import given_loops
from trajdiag.store.from_arrays import from_arrays

OF_GATE = (
    "gate_logit lies within 0 and 1 in every example and loop, as probabilities do; give it as "
    "gate_probability, or, if these are logits, gate_probability of their sigmoid"
)
OF_LOGITS = (
    "logits are probabilities: in every example and loop they lie within 0 and 1 and sum to 1; "
    "give their logarithms"
)


class Slices:
    """An array that is read by slices of a few examples alone."""

    def __init__(self, values: np.ndarray, most: int) -> None:
        self.shape, self._values, self._most = values.shape, values, most

    def __getitem__(self, at: slice) -> np.ndarray:
        assert at.stop - at.start <= self._most
        return self._values[at]


@pytest.fixture
def in_pieces(monkeypatch):
    """Arrays are checked a few examples at a time."""
    monkeypatch.setattr(given_loops, "_PIECE_BYTES", 3 * 5 * 4 * 7)


def arguments(**changes):
    a = planted(examples=40)
    given = {"hidden": a.hidden, "logits": a.logits.numpy(), "target": a.target}
    return given | {"gate_logit": a.gate_logit.numpy()} | changes


def probabilities(dtype=np.float64) -> np.ndarray:
    return softmax(planted(examples=40).logits.double().numpy(), -1).astype(dtype)


def hazards() -> np.ndarray:
    return np.random.default_rng(0).random((40, 3))


def padded(values: np.ndarray) -> np.ndarray:
    """The last class is one that half of the examples do not have."""
    values = values.copy()
    values[::2, :, :-1] /= values[::2, :, :-1].sum(-1, keepdims=True)
    values[::2, :, -1] = -1e30
    return values


@pytest.mark.parametrize(
    "logits",
    [
        probabilities(),
        probabilities(np.float32),
        probabilities(np.float16),
        torch.from_numpy(probabilities()).bfloat16(),
        probabilities() * 1.0005,
        padded(probabilities()),
        np.eye(5)[np.arange(120).reshape(40, 3) % 5],
    ],
    ids=["float64", "float32", "float16", "bfloat16", "rounded", "padded", "one-hot"],
)
def test_probabilities_for_logits_are_refused_before_anything_is_written(
    tmp_path, in_pieces, logits
):
    with pytest.raises(ConfigError) as caught:
        from_arrays(tmp_path / "x.zarr", **arguments(logits=logits))
    assert str(caught.value) == OF_LOGITS
    assert not list(tmp_path.iterdir())


def one_row(values: np.ndarray, row: np.ndarray) -> np.ndarray:
    """`values`, but for the last loop of the last example."""
    values = values.copy()
    values[-1, -1] = row
    return values


@pytest.mark.parametrize(
    "logits",
    [
        np.log(probabilities()),
        padded(np.log(probabilities())),
        probabilities() * 1.002,
        one_row(probabilities(), np.full(5, 0.3)),
        one_row(probabilities(), np.array([1.5, -0.5, 0, 0, 0])),
    ],
    ids=["logarithms", "padded", "other-sums", "one-sum", "one-value"],
)
def test_logits_that_are_probabilities_in_all_but_one_place_are_logits(tmp_path, in_pieces, logits):
    store = from_arrays(tmp_path / "x.zarr", **arguments(logits=logits))
    assert len(store) == 40


def test_probabilities_for_a_gates_logits_are_refused(tmp_path, in_pieces):
    for values in (hazards(), hazards().round()):
        with pytest.raises(ConfigError) as caught:
            from_arrays(tmp_path / "x.zarr", **arguments(gate_logit=values))
        assert str(caught.value) == OF_GATE
    assert not list(tmp_path.iterdir())


def test_a_gate_that_is_constant_short_or_once_outside_is_one_of_logits(tmp_path, in_pieces):
    outside = hazards()
    outside[-1, -1] = -0.001
    for name, gate in (("constant", np.full((40, 3), 0.5)), ("outside", outside)):
        assert from_arrays(tmp_path / f"{name}.zarr", **arguments(gate_logit=gate)).has_gate
    few = {key: values[:6] for key, values in arguments(gate_logit=hazards()).items()}
    assert from_arrays(tmp_path / "few.zarr", **few).has_gate


def test_a_gates_probabilities_make_the_store_that_their_logits_do(tmp_path):
    p = hazards()
    stores = [
        from_arrays(tmp_path / f"{number}.zarr", **arguments(gate_logit=None) | gate)
        for number, gate in enumerate(({"gate_probability": p}, {"gate_logit": logit(p)}))
    ]
    first, second = (store.numpy("gate_logit") for store in stores)
    np.testing.assert_allclose(first, second, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_come_back_from_their_sigmoid(tmp_path, dtype):
    a = planted(examples=40)
    p = a.gate_logit.double().sigmoid().numpy().astype(dtype)
    given = arguments(gate_logit=None, gate_probability=p)
    stored = from_arrays(tmp_path / "x.zarr", **given).numpy("gate_logit")
    close = {np.float32: 1e-5, np.float64: 1e-6}[dtype]
    np.testing.assert_allclose(stored, a.gate_logit.numpy(), rtol=close, atol=close)


def test_certainty_is_finite_and_the_first_and_last_in_order(tmp_path):
    p = hazards()
    p[:5] = [0.0, 1.0, np.nextafter(1, 0)]
    p[5:9] = [1e-38, 1e-300, 0.5]
    store = from_arrays(tmp_path / "x.zarr", **arguments(gate_logit=None, gate_probability=p))
    stored = store.numpy("gate_logit")
    assert np.isfinite(stored).all()
    assert stored[0].tolist() == pytest.approx([-149 * np.log(2), 149 * np.log(2), 36.7368], 1e-6)
    assert (np.diff(stored.ravel()[np.argsort(p, axis=None)]) >= 0).all()
    assert stored[5, 0] > stored[5, 1] == stored.min()
    assert stored[5, 2] == 0


def test_arrays_beyond_memory_are_read_in_pieces_and_give_the_same_store(tmp_path, in_pieces):
    p = hazards()
    whole = from_arrays(tmp_path / "whole.zarr", **arguments(gate_logit=None, gate_probability=p))
    a = planted(examples=40)
    pieces = from_arrays(
        tmp_path / "pieces.zarr",
        a.hidden,
        a.logits,
        a.target,
        gate_probability=Slices(p, 40),
    )
    assert pieces.fingerprint == whole.fingerprint
    p[39, 2] = 1.25
    message = r"gate_probability must lie within 0 and 1, got 1\.25 for example 39 at loop 3"
    with pytest.raises(ConfigError, match=message):
        from_arrays(
            tmp_path / "x.zarr", **arguments(gate_logit=None, gate_probability=Slices(p, 39))
        )
    with pytest.raises(ConfigError, match="logits are probabilities"):
        from_arrays(tmp_path / "x.zarr", **arguments(logits=Slices(probabilities(), 7)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gate_probability": hazards()}, "give gate_logit or gate_probability, not both"),
        ({"gate_logit": None, "gate_probability": hazards() - 0.5},
         "gate_probability must lie within 0 and 1, got -.*; give logits as gate_logit"),
        ({"gate_logit": None, "gate_probability": hazards().T},
         r"gate_probability \[3, 40\] seems to be \[loop, example\]"),
        ({"gate_logit": None, "gate_probability": hazards()[:, :2]},
         r"so that gate_probability must be \[40, 3\]"),
    ],
)  # fmt: skip
def test_a_gates_probabilities_that_do_not_fit_are_named(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        from_arrays(tmp_path / "x.zarr", **arguments(**changes))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinite")])
def test_a_gates_probability_that_is_not_finite_is_placed(tmp_path, value, what):
    p = hazards()
    p[17, 1] = value
    with pytest.raises(NonFiniteError, match=f"gate_probability of example 17 at loop 2 is {what}"):
        from_arrays(tmp_path / "x.zarr", **arguments(gate_logit=None, gate_probability=p))
