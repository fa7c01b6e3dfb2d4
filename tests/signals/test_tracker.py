"""Signals against SciPy, closed forms and brute force."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine
from scipy.special import log_softmax, rel_entr, softmax
from scipy.stats import entropy

from trajdiag.signals.registry import SIGNALS
from trajdiag.signals.tracker import SignalTracker, compute_signals

ROWS, LOOPS, D, CLASSES = 40, 5, 16, 7


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(ROWS, LOOPS, D)).astype(np.float32)
    logits = (3 * rng.normal(size=(ROWS, LOOPS, CLASSES))).astype(np.float32)
    return hidden, logits


@pytest.fixture(scope="module")
def signals(arrays):
    return compute_signals(*arrays)


def assert_close(found, expected, first_loop=1):
    assert found.dtype == np.float32
    assert np.isnan(found[:, : first_loop - 1]).all()
    np.testing.assert_allclose(found[:, first_loop - 1 :], expected, rtol=1e-6, atol=1e-7)


def test_entropy_is_scipys_in_nats(arrays, signals):
    assert_close(signals["entropy"], entropy(softmax(arrays[1].astype(float), axis=2), axis=2))


def test_top1_is_minus_log_of_the_mass_elsewhere(arrays, signals):
    p = softmax(arrays[1].astype(float), axis=2)
    assert_close(signals["top1"], -np.log(1 - p.max(2)))


def test_margins_are_between_the_two_largest(arrays, signals):
    z = np.sort(arrays[1].astype(float), axis=2)
    p = np.sort(softmax(arrays[1].astype(float), axis=2), axis=2)
    assert_close(signals["logit_margin"], z[..., -1] - z[..., -2])
    assert_close(signals["probability_margin"], -np.log(1 - (p[..., -1] - p[..., -2])))


def test_kl_current_previous_puts_the_current_loop_first(arrays, signals):
    p = softmax(arrays[1].astype(float), axis=2)
    forward = rel_entr(p[:, 1:], p[:, :-1]).sum(2)
    assert_close(signals["kl_current_previous"], forward, first_loop=2)
    assert not np.allclose(forward, rel_entr(p[:, :-1], p[:, 1:]).sum(2))


def test_changes_are_euclidean(arrays, signals):
    hidden, logits = (x.astype(float) for x in arrays)
    moved = np.linalg.norm(np.diff(hidden, axis=1), axis=2)
    assert_close(signals["logit_change"], np.linalg.norm(np.diff(logits, axis=1), axis=2), 2)
    assert_close(signals["hidden_displacement"], moved, 2)
    assert_close(signals["relative_change"], moved / np.linalg.norm(hidden[:, 1:], axis=2), 2)


def test_hidden_cosine_is_scipys(arrays, signals):
    hidden = arrays[0].astype(float)
    expected = [[1 - cosine(h[t], h[t - 1]) for t in range(1, LOOPS)] for h in hidden]
    assert_close(signals["hidden_cosine"], np.array(expected), 2)


def test_argmax_stability_counts_the_unbroken_run_of_one_prediction():
    predictions = np.array([[0, 0, 0, 1, 1], [2, 0, 2, 2, 2], [1, 1, 1, 1, 1]])
    logits = np.eye(3, dtype=np.float32)[predictions]
    found = compute_signals(np.ones((3, 5, 2), np.float32), logits)["argmax_stability"]
    assert np.isnan(found[:, 0]).all()
    assert found[:, 1:].tolist() == [[1, 2, 0, 1], [0, 0, 1, 2], [1, 2, 3, 4]]


def test_saturated_softmax_still_ranks_and_is_never_nan():
    gaps = np.array([30.0, 40.0, 100.0, 800.0, 1000.0, 5000.0])
    logits = np.zeros((6, 2, 3), np.float32)
    logits[:, :, 1] = gaps[:, None]
    logits[:, :, 2] = -gaps[:, None]
    found = compute_signals(np.ones((6, 2, 4), np.float32), logits)
    for name, signal in SIGNALS.items():
        assert np.isfinite(found[name][:, signal.first_loop - 1 :]).all(), name
    # one rival at distance g: -log(1 - p) = log(1 + e^g), which is g where e^-g vanishes
    np.testing.assert_allclose(found["top1"][:, 0], gaps, rtol=1e-6)
    assert (np.diff(found["top1"][:, 0]) > 0).all()
    assert (np.diff(found["probability_margin"][:, 0]) > 0).all()
    assert (np.diff(found["entropy"][:3, 0]) < 0).all()


def test_entropy_of_a_near_certain_answer_keeps_its_digits():
    gap = 60.0
    found = compute_signals(
        np.ones((1, 2, 1), np.float32), np.array([[[gap, 0.0]] * 2], np.float32)
    )
    # p(2) = e^-g: H = e^-g (g + 1) to first order
    assert found["entropy"][0, 0] == pytest.approx(np.exp(-gap) * (gap + 1), rel=1e-6)


def test_a_loop_that_changes_nothing_has_cosine_one_and_no_change():
    hidden = np.random.default_rng(1).normal(size=(50, 1, 33)).repeat(3, axis=1)
    logits = np.random.default_rng(2).normal(size=(50, 1, 5)).repeat(3, axis=1)
    found = compute_signals(hidden.astype(np.float32), logits.astype(np.float32))
    assert (found["hidden_cosine"][:, 1:] == 1).all()
    for name in ("relative_change", "hidden_displacement", "logit_change", "kl_current_previous"):
        assert (found[name][:, 1:] == 0).all(), name


def test_zero_states_are_defined():
    hidden = np.zeros((1, 3, 4), np.float32)
    hidden[0, 2] = 1
    found = compute_signals(hidden, np.zeros((1, 3, 2), np.float32))
    assert found["hidden_cosine"][0, 1:].tolist() == [1, 0]
    assert found["relative_change"][0, 1:].tolist() == [0, 1]


def test_ties_give_margin_zero_and_the_full_entropy():
    found = compute_signals(np.ones((1, 2, 2), np.float32), np.zeros((1, 2, 4), np.float32))
    assert found["logit_margin"].tolist() == [[0, 0]]
    assert found["probability_margin"] == pytest.approx(0)
    assert found["entropy"] == pytest.approx(np.log(4))


def test_one_class_is_certain_of_nothing_in_particular():
    found = compute_signals(np.ones((2, 3, 2), np.float32), np.ones((2, 3, 1), np.float32))
    for name in ("entropy", "top1", "logit_margin", "probability_margin"):
        assert (found[name] == 0).all(), name


def test_signals_use_no_later_loop(arrays, signals):
    hidden, logits = (x[:, :3] for x in arrays)
    for name, values in compute_signals(hidden, logits).items():
        np.testing.assert_array_equal(values, signals[name][:, :3])


def test_a_reused_tracker_gives_what_a_fresh_one_gives(arrays, signals):
    hidden, logits = (torch.from_numpy(x) for x in arrays)
    tracker = SignalTracker()
    for rows in (slice(0, 25), slice(25, 40)):
        found = tracker.track(hidden[rows].unbind(1), logits[rows].unbind(1))
        for name, values in zip(tracker.names, found, strict=True):
            np.testing.assert_array_equal(values.t().numpy(), signals[name][rows])


def test_a_wide_vocabulary_agrees_with_scipy():
    logits = np.random.default_rng(3).normal(size=(3, 2, 1000)).astype(np.float32) * 4
    found = compute_signals(np.ones((3, 2, 2), np.float32), logits)
    log_p = log_softmax(logits.astype(float), axis=2)
    kl = (np.exp(log_p[:, 1]) * (log_p[:, 1] - log_p[:, 0])).sum(1)
    np.testing.assert_allclose(found["kl_current_previous"][:, 1], kl, rtol=1e-6)


def test_bfloat16_states_are_read_exactly(arrays):
    hidden = torch.from_numpy(arrays[0]).bfloat16()
    as_float = compute_signals(hidden.float(), arrays[1])
    for name, values in compute_signals(hidden, torch.from_numpy(arrays[1])).items():
        np.testing.assert_array_equal(values, as_float[name])


def test_every_signal_says_which_end_means_stop():
    assert {signal.direction for signal in SIGNALS.values()} == {"high", "low"}
    assert all(signal.unit and signal.formula and signal.reference for signal in SIGNALS.values())


@pytest.mark.parametrize("classes", [2, 3, 80])
@pytest.mark.parametrize("scale", [1e20, 3e38])
def test_every_signal_of_values_near_float32s_limit_is_finite_and_without_a_warning(scale, classes):
    rng = np.random.default_rng(0)
    hidden, logits = (
        np.clip(scale * rng.normal(size=(60, LOOPS, size)), -3.4e38, 3.4e38).astype(np.float32)
        for size in (D, classes)
    )
    hidden[:5, 2] = 0
    for name, found in compute_signals(hidden, logits).items():
        assert np.isfinite(found[:, SIGNALS[name].first_loop - 1 :]).all(), name
        assert np.isnan(found[:, : SIGNALS[name].first_loop - 1]).all(), name


def test_a_signal_beyond_float32_is_its_largest_number():
    states = np.array([[[3e38], [-3e38], [-3e38]]], np.float32)
    logits = np.array([[[3e38, -3e38], [-3e38, 3e38], [1e38, -1e38]]], np.float32)
    found = compute_signals(states, logits)
    largest = np.finfo(np.float32).max
    np.testing.assert_allclose(found["logit_margin"], [[largest, largest, 2e38]], rtol=1e-6)
    for name in ("kl_current_previous", "kl_previous_current"):
        np.testing.assert_array_equal(found[name][:, 1], largest, err_msg=name)
    np.testing.assert_array_equal(found["hidden_displacement"][0, 1:], [largest, 0])
    np.testing.assert_allclose(found["js"][0, 1:], np.log(2), rtol=1e-6)
    moved_from_nothing = compute_signals(
        np.float32([[[0.0], [0.0], [1.0], [0.0]]]), None, ["relative_change"]
    )
    assert moved_from_nothing["relative_change"][0, 1:].tolist() == [0, 1, largest]
