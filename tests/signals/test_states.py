"""Acceleration of the hidden states against NumPy's second difference and brute force."""

import numpy as np
import pytest
import torch

from trajdiag.errors import UnknownNameError
from trajdiag.metrics.frontier import exit_depth
from trajdiag.signals.registry import SIGNALS
from trajdiag.signals.tracker import SignalTracker, compute_signals

ACCELERATION = ["acceleration", "acceleration_twice"]
OF_STATES = [name for name, signal in SIGNALS.items() if signal.reads == "states"]


@pytest.fixture(scope="module")
def hidden():
    return np.random.default_rng(0).normal(size=(50, 6, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def signals(hidden):
    return compute_signals(hidden, None, ACCELERATION)


def test_acceleration_is_the_norm_of_the_second_difference(hidden, signals):
    expected = np.linalg.norm(np.diff(hidden.astype(float), n=2, axis=1), axis=2)
    found = signals["acceleration"]
    assert np.isnan(found[:, :2]).all()
    np.testing.assert_allclose(found[:, 2:], expected, rtol=1e-6)
    twice = signals["acceleration_twice"]
    assert np.isnan(twice[:, :3]).all()
    np.testing.assert_array_equal(twice[:, 3:], np.maximum(found[:, 3:], found[:, 2:-1]))


@pytest.mark.parametrize("quantile", [0.1, 0.4, 0.7])
def test_twice_leaves_where_two_in_a_row_are_below_the_threshold(signals, quantile):
    acceleration = signals["acceleration"]
    threshold = float(np.float32(np.nanquantile(acceleration, quantile)))
    expected = []
    for row in acceleration:
        leaves = [t for t in range(4, 6) if row[t - 1] <= threshold and row[t - 2] <= threshold]
        expected.append(min(leaves, default=6))
    assert 4 in expected or quantile < 0.5
    twice = SIGNALS["acceleration_twice"]
    found = exit_depth(signals["acceleration_twice"], threshold, twice.direction, twice.first_loop)
    assert found.tolist() == expected


def test_a_straight_line_at_one_speed_does_not_accelerate():
    line = np.arange(5)[None, :, None] * np.array([[[0.25, -2.0, 3.0]]]) + 7
    found = compute_signals(line.astype(np.float32), None, ACCELERATION)
    assert found["acceleration"][0, 2:].tolist() == [0, 0, 0]
    assert found["acceleration_twice"][0, 3:].tolist() == [0, 0]


def test_states_of_zeros_have_every_signal():
    found = compute_signals(np.zeros((2, 5, 3), np.float32), None, OF_STATES)
    for name, values in found.items():
        expected = 1 if name == "hidden_cosine" else 0
        assert (values[:, SIGNALS[name].first_loop - 1 :] == expected).all(), name


@pytest.mark.parametrize("loops", [1, 2, 3])
def test_fewer_loops_than_a_signal_needs_leave_it_undefined(hidden, loops):
    found = compute_signals(hidden[:, :loops], None, OF_STATES)
    for name in OF_STATES:
        assert np.isnan(found[name]).all() == (loops < SIGNALS[name].first_loop), name


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_asked_alone_is_what_it_is_among_all(hidden, name):
    logits = np.random.default_rng(1).normal(size=(50, 6, 4)).astype(np.float32)
    alone = compute_signals(hidden, logits, [name])
    assert list(alone) == [name]
    np.testing.assert_array_equal(alone[name], compute_signals(hidden, logits)[name])


def test_what_a_signal_reads_must_be_given(hidden):
    with pytest.raises(ValueError, match="acceleration need hidden states"):
        compute_signals(None, hidden, ["acceleration"])
    with pytest.raises(ValueError, match="js need logits"):
        SignalTracker(["js"]).track([torch.zeros(2, 3)])


def test_an_unknown_signal_lists_those_there_are():
    with pytest.raises(UnknownNameError, match="unknown signal 'predictive_kl'"):
        SignalTracker(["predictive_kl"])
