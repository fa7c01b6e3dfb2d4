"""Calibration against scikit-learn, hand-made bins and simulated data sets."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss

from trajdiag.metrics.bootstrap import interval
from trajdiag.metrics.calibration import (
    calibration,
    expected_calibration_error,
    probability,
    reliability,
)
from trajdiag.metrics.random_blocks import RandomBlocks


def test_confidence_and_logits_give_back_their_probability():
    p = np.array([0.0, 0.25, 0.5, 1 - 1e-9])
    np.testing.assert_allclose(probability(-np.log1p(-p), "top1", "signal"), p)
    logits = np.array([[-1000.0, 0.0, np.log(3)]])
    np.testing.assert_allclose(probability(logits, "probe", "logit"), [[0, 0.5, 0.75]])


def test_saturated_confidence_is_certainty_and_nan_stays():
    found = probability(np.array([np.inf, np.nan], np.float32), "top1", "signal")
    np.testing.assert_array_equal(found, [1, np.nan])
    np.testing.assert_array_equal(probability(np.array([np.inf, -np.inf]), "g", "logit"), [1, 0])


@pytest.mark.parametrize(("name", "scale"), [("entropy", "signal"), ("native", "hazard")])
def test_other_values_mean_no_probability(name, scale):
    assert probability(np.ones((2, 2)), name, scale) is None


def test_brier_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    p = rng.random(500)
    label = rng.random(500) < p
    found, _ = calibration(p, label, RandomBlocks.deal(np.arange(500), n_resamples=5))
    assert found["brier"][0] == pytest.approx(brier_score_loss(label, p), abs=1e-12)


def test_distinct_probabilities_fall_into_fifteen_bins_of_equal_mass():
    rng = np.random.default_rng(1)
    p = rng.random(1500)
    label = rng.random(1500) < p**2
    found = reliability(p, label)
    order = np.argsort(p).reshape(15, 100)
    np.testing.assert_array_equal(found.n, np.full(15, 100))
    np.testing.assert_allclose(found.confidence, p[order].mean(axis=1))
    np.testing.assert_allclose(found.accuracy, label[order].mean(axis=1))
    gaps = np.abs(p[order].mean(axis=1) - label[order].mean(axis=1))
    assert expected_calibration_error(found) == pytest.approx(gaps.mean())


def test_equal_probabilities_share_a_bin_whatever_their_order():
    p = np.array([1.0] * 90 + [0.2] * 10)
    label = np.arange(100) % 5 > 0
    found = reliability(p, label, bins=4)
    np.testing.assert_array_equal(found.n, [10, 90])
    np.testing.assert_allclose(found.confidence, [0.2, 1.0])
    np.testing.assert_allclose(found.accuracy, [0.8, 0.8])
    assert expected_calibration_error(found) == pytest.approx(0.1 * 0.6 + 0.9 * 0.2)


def test_a_single_example_is_its_own_bin():
    assert expected_calibration_error(reliability(np.array([0.3]), np.array([True]))) == 0.7


def test_no_examples_have_no_calibration():
    nothing = reliability(np.zeros(0), np.zeros(0, bool))
    assert np.isnan(expected_calibration_error(nothing))


def test_resamples_of_brier_and_of_the_bins_gaps_are_those_of_their_own_examples():
    rng = np.random.default_rng(2)
    p = rng.random(80)
    label = rng.random(80) < 0.5
    blocks = RandomBlocks.deal(np.arange(80), n_resamples=25)
    found, bins = calibration(p, label, blocks)
    expected = []
    for row in range(26):
        drawn = np.repeat(np.arange(80), blocks.weights[row, blocks.code].astype(int))
        score = brier_score_loss(label[drawn], p[drawn])
        assert found["brier"][row] == pytest.approx(score, abs=1e-12)
        of = [bins.code[drawn] == b for b in range(15)]
        gaps = [abs(np.sum(label[drawn][b]) - np.sum(p[drawn][b])) for b in of]
        expected.append(sum(gaps) / len(drawn))
    assert found["ece"][0] == pytest.approx(expected[0])
    shift = expected[0] - np.mean(expected[1:])
    np.testing.assert_allclose(found["ece"][1:], np.maximum(np.array(expected[1:]) + shift, 0))


def test_the_interval_of_a_calibrated_probability_holds_its_own_value():
    rng = np.random.default_rng(3)
    for _ in range(50):
        p = rng.random(2000)
        found, _ = calibration(p, rng.random(2000) < p, RandomBlocks.deal(np.arange(2000), 200))
        value, low, high = interval(found["ece"])
        assert 0 <= low <= value <= high


def test_intervals_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(4)
    q = np.linspace(0.1, 0.8, 100_001)
    truth = {"ece": 0.2, "brier": np.mean(q * (1 - q) + 0.2**2)}
    held = dict.fromkeys(truth, 0)
    for _ in range(300):
        p = rng.uniform(0.3, 1, 400)
        label = rng.random(400) < p - 0.2
        found, _ = calibration(p, label, RandomBlocks.deal(np.arange(400), n_resamples=300))
        for name, value in truth.items():
            _, low, high = interval(found[name])
            held[name] += low <= value <= high
    assert 0.90 <= held["ece"] / 300 <= 0.99
    assert 0.92 <= held["brier"] / 300 <= 0.98
