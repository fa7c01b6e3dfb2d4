"""Signals of the logits against SciPy, counting, and sixty-digit decimals."""

from collections import Counter
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.special import logsumexp, rel_entr, softmax
from scipy.stats import entropy

from trajdiag.signals.padding import PADDED
from trajdiag.signals.registry import SIGNALS
from trajdiag.signals.tracker import compute_signals

ROWS, LOOPS, CLASSES = 40, 5, 7
OF_LOGITS = [name for name, signal in SIGNALS.items() if signal.reads == "logits"]


@pytest.fixture(scope="module")
def logits():
    return (3 * np.random.default_rng(0).normal(size=(ROWS, LOOPS, CLASSES))).astype(np.float32)


@pytest.fixture(scope="module")
def p(logits):
    return softmax(logits.astype(float), axis=2)


@pytest.fixture(scope="module")
def signals(logits):
    return compute_signals(None, logits, OF_LOGITS)


def assert_close(found, expected, first_loop=1):
    assert found.dtype == np.float32
    assert np.isnan(found[:, : first_loop - 1]).all()
    np.testing.assert_allclose(found[:, first_loop - 1 :], expected, rtol=1e-6, atol=1e-12)


def test_energy_is_minus_log_sum_exp(logits, signals):
    assert_close(signals["energy"], -logsumexp(logits.astype(float), axis=2))


def test_entropy_change_is_that_of_scipys_entropy(p, signals):
    assert_close(signals["entropy_change"], np.abs(np.diff(entropy(p, axis=2), axis=1)), 2)


def test_the_two_divergences_are_named_by_what_comes_first(p, signals):
    assert_close(signals["kl_current_previous"], rel_entr(p[:, 1:], p[:, :-1]).sum(2), 2)
    assert_close(signals["kl_previous_current"], rel_entr(p[:, :-1], p[:, 1:]).sum(2), 2)


def test_js_is_scipys_distance_squared(p, signals):
    expected = jensenshannon(p[:, 1:], p[:, :-1], axis=2) ** 2
    assert_close(signals["js"], expected, 2)
    assert (signals["js"][:, 1:] < np.log(2)).all()


def naive_min_p(p):
    """One distribution [class], class by class."""
    raised = [value if value >= 0.1 * max(p) else 1 / len(p) for value in p]
    return np.array(raised) / sum(raised)


def test_min_p_kl_sees_only_what_has_a_tenth_of_the_largest(p, signals):
    expected = [
        [rel_entr(naive_min_p(row[t - 1]), naive_min_p(row[t])).sum() for t in range(1, LOOPS)]
        for row in p
    ]
    assert_close(signals["min_p_kl"], expected, 2)
    among_noise = np.log([[[0.9, 0.04, 0.06], [0.9, 0.06, 0.04]]])
    assert compute_signals(None, among_noise, ["min_p_kl"])["min_p_kl"][0, 1] < 1e-30


def test_vote_share_counts_the_modal_prediction_so_far(logits, signals):
    expected = [
        [Counter(row[:t]).most_common(1)[0][1] / t for t in range(2, LOOPS + 1)]
        for row in logits.argmax(2).tolist()
    ]
    assert_close(signals["vote_share"], expected, 2)


@pytest.mark.parametrize(
    ("predictions", "shares"),
    [([0, 1, 0, 1], [1 / 2, 2 / 3, 1 / 2]), ([0, 0, 1, 1], [1, 2 / 3, 1 / 2])],
)
def test_a_tied_vote_goes_to_either(predictions, shares):
    found = compute_signals(None, np.eye(2, dtype=np.float32)[[predictions]], ["vote_share"])
    assert found["vote_share"][0, 1:] == pytest.approx(shares)


@pytest.mark.parametrize("classes", [1, 2, 3, 6])
def test_no_signal_sees_classes_that_a_row_does_not_have(classes):
    z = (4 * np.random.default_rng(classes).normal(size=(30, 4, classes))).astype(np.float32)
    padded = np.concatenate([z, np.full((30, 4, 3), PADDED, np.float32)], axis=2)
    whole, own = (compute_signals(None, x, OF_LOGITS) for x in (padded, z))
    for name in OF_LOGITS:
        np.testing.assert_allclose(whole[name], own[name], rtol=1e-6, atol=1e-30, err_msg=name)


def test_with_one_class_all_is_decided_from_the_start():
    found = compute_signals(None, np.array([[[2.0], [3.0], [3.5]]]), OF_LOGITS)
    assert found["energy"].tolist() == [[-2, -3, -3.5]]
    assert found["vote_share"][:, 1:].tolist() == [[1, 1]]
    for name in ("entropy_change", "kl_current_previous", "kl_previous_current", "min_p_kl", "js"):
        assert found[name][:, 1:].tolist() == [[0, 0]], name


def test_the_first_loop_alone_defines_what_needs_no_change(logits):
    found = compute_signals(None, logits[:, :1], OF_LOGITS)
    for name in OF_LOGITS:
        assert np.isnan(found[name]).all() == (SIGNALS[name].first_loop > 1), name


def decimals(z):
    """Probabilities of [class] logits to sixty digits."""
    weights = [Decimal(float(value)).exp() for value in z]
    return [weight / sum(weights) for weight in weights]


def decimal_kl(p, q):
    return sum(a * (a / b).ln() for a, b in zip(p, q, strict=True))


def decimal_min_p(p):
    raised = [a if a >= max(p) / 10 else Decimal(1) / len(p) for a in p]
    return [a / sum(raised) for a in raised]


def decimal_signals(before, now):
    """The divergences of two [class] logits, with digits to spare."""
    with localcontext() as context:
        context.prec = 200
        p, q = decimals(before), decimals(now)
        middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
        return {
            "kl_current_previous": float(decimal_kl(q, p)),
            "kl_previous_current": float(decimal_kl(p, q)),
            "min_p_kl": float(decimal_kl(decimal_min_p(p), decimal_min_p(q))),
            "js": float((decimal_kl(p, middle) + decimal_kl(q, middle)) / 2),
        }


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ([20.0, 0.0, -1.0], [21.0, 0.0, -1.0]),
        ([40.0, 0.0, -1.0], [40.5, 0.0, -1.0]),
        ([0.0, 44.0, -1.0], [0.0, 46.0, 3.0]),
        ([30.0, 29.0, 0.0], [31.0, 29.0, 0.0]),
        ([2.0, 1.0, 0.5], [2.0001, 1.0, 0.5]),
        ([12.0, 1.0, 0.5], [12.001, 1.0, 0.5]),
        ([50.0, 0.0, 0.0], [0.0, 50.0, 0.0]),
        ([3.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
    ],
)
def test_divergences_keep_their_digits_where_softmax_saturates_or_hardly_moves(before, now):
    logits = np.array([[before, now]])
    found = compute_signals(None, logits, OF_LOGITS)
    for name, expected in decimal_signals(before, now).items():
        assert found[name][0, 1] == pytest.approx(expected, rel=2e-6), name


@pytest.mark.parametrize("name", ["kl_current_previous", "kl_previous_current", "js", "min_p_kl"])
def test_ever_surer_predictions_never_tie(name):
    gaps = np.arange(2.0, 45.0, 3)
    logits = np.zeros((len(gaps), 2, 3))
    logits[:, 0, 0], logits[:, 1, 0] = gaps, gaps + 1
    found = compute_signals(None, logits, [name])[name][:, 1]
    beyond_min_p = found[1:] if name == "min_p_kl" else found
    assert (np.diff(beyond_min_p) < 0).all()
    assert (beyond_min_p > 0).all()


def test_a_leap_between_certain_predictions_is_finite():
    logits = np.zeros((2, 4, 3), np.float32)
    logits[:, 0, 0] = logits[:, 2, 0] = 5000
    logits[:, 1, 1] = logits[:, 3, 2] = 5000
    found = compute_signals(None, logits, OF_LOGITS)
    for name, values in found.items():
        assert np.isfinite(values[:, SIGNALS[name].first_loop - 1 :]).all(), name
    assert found["js"][:, 1:] == pytest.approx(np.log(2))
    assert found["kl_previous_current"][:, 1:] == pytest.approx(5000)


def test_a_loop_that_repeats_the_last_changes_nothing(logits):
    found = compute_signals(None, logits[:, :1].repeat(3, axis=1), OF_LOGITS)
    for name in ("entropy_change", "kl_previous_current", "min_p_kl", "js"):
        assert (found[name][:, 1:] == 0).all(), name


def test_a_wide_vocabulary_agrees_with_scipy():
    z = 4 * np.random.default_rng(3).normal(size=(3, 2, 1000))
    found = compute_signals(None, z, ["js", "min_p_kl", "kl_previous_current"])
    p = softmax(z, axis=2)
    assert_close(found["js"], jensenshannon(p[:, 1:], p[:, :-1], axis=2) ** 2, 2)
    assert_close(found["kl_previous_current"], rel_entr(p[:, :-1], p[:, 1:]).sum(2), 2)
    expected = [[rel_entr(naive_min_p(row[0]), naive_min_p(row[1])).sum()] for row in p]
    assert_close(found["min_p_kl"], expected, 2)
