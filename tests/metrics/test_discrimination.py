"""AUROC, AUPRC and risk-coverage against scikit-learn, brute force and simulated data sets."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import average_precision_score, roc_auc_score

from trajdiag.metrics.bootstrap import interval
from trajdiag.metrics.discrimination import (
    aurc,
    auroc,
    average_precision,
    discrimination,
    risk_at,
)
from trajdiag.metrics.levels import levels_of
from trajdiag.metrics.random_blocks import RandomBlocks


def exact(metric, score, label):
    levels = levels_of(score)
    hits = np.bincount(levels.code[label], minlength=len(levels.counts))
    return float(metric(levels.counts, hits))


def random_sample(seed, distinct, n=200):
    rng = np.random.default_rng(seed)
    label = rng.random(n) < 0.4
    score = rng.normal(size=n) + label
    return (np.round(score * distinct / 4) if distinct else score), label


@pytest.mark.parametrize("distinct", [0, 1, 4, 20])
@pytest.mark.parametrize("seed", range(5))
def test_both_areas_agree_with_scikit_learn_ties_included(seed, distinct):
    score, label = random_sample(seed, distinct)
    assert exact(auroc, score, label) == pytest.approx(roc_auc_score(label, score), abs=1e-12)
    expected = average_precision_score(label, score)
    assert exact(average_precision, score, label) == pytest.approx(expected, abs=1e-12)


def test_infinite_scores_rank_above_and_below_all_others():
    rng = np.random.default_rng(0)
    score, label = rng.normal(size=100), rng.random(100) < 0.5
    score[:20], score[20:30] = np.inf, -np.inf
    finite = np.clip(score, -100, 100)
    for metric in (auroc, average_precision, aurc):
        assert exact(metric, score, label) == exact(metric, finite, label)


def in_random_orders(score, label, n_orders=4000):
    """Risk at 1..N examples, averaged over random orders of equal scores."""
    rng = np.random.default_rng(0)
    taken = np.arange(1, len(score) + 1)
    risks = np.zeros(len(score))
    for _ in range(n_orders):
        order = np.lexsort([rng.random(len(score)), -score])
        risks += np.cumsum(~label[order]) / taken
    return risks / n_orders


def test_risk_and_its_area_are_means_over_random_orders_of_equal_scores():
    rng = np.random.default_rng(1)
    score, label = rng.integers(0, 4, 20).astype(float), rng.random(20) < 0.6
    risks = in_random_orders(score, label)
    assert exact(aurc, score, label) == pytest.approx(risks.mean(), abs=0.005)
    for coverage in (0.5, 0.8, 0.9):
        found = exact(partial(risk_at, coverage=coverage), score, label)
        assert found == pytest.approx(risks[round(20 * coverage) - 1], abs=0.01)


def test_without_ties_they_are_one_order():
    score, label = random_sample(2, 0, n=40)
    risks = np.cumsum(~label[np.argsort(-score)]) / np.arange(1, 41)
    assert exact(aurc, score, label) == pytest.approx(risks.mean(), abs=1e-12)
    assert exact(partial(risk_at, coverage=0.8), score, label) == pytest.approx(risks[31])


def test_of_a_part_of_one_example_its_part_is_taken():
    score, label = np.array([3.0, 2.0, 1.0]), np.array([True, False, False])
    assert exact(partial(risk_at, coverage=0.5), score, label) == pytest.approx(0.5 / 1.5)


def test_a_constant_score_tells_nothing():
    label = np.arange(10) < 3
    assert exact(auroc, np.ones(10), label) == 0.5
    assert exact(average_precision, np.ones(10), label) == pytest.approx(0.3)
    assert exact(aurc, np.ones(10), label) == pytest.approx(0.7)
    assert exact(partial(risk_at, coverage=0.5), np.ones(10), label) == pytest.approx(0.7)


@pytest.mark.parametrize("of", [True, False])
def test_one_class_has_no_areas_but_a_risk(of):
    score, label = np.arange(5.0), np.full(5, of)
    assert np.isnan(exact(auroc, score, label))
    assert np.isnan(exact(average_precision, score, label))
    assert exact(aurc, score, label) == pytest.approx(0.0 if of else 1.0)


def resampled(score, right, settled, blocks):
    return discrimination(levels_of(score), right, settled, blocks)


def test_with_few_levels_each_resample_is_the_number_of_its_own_examples():
    score, right = random_sample(3, 8, n=60)
    settled = right | (np.arange(60) % 3 == 0)
    blocks = RandomBlocks.deal(np.arange(60), n_resamples=30)
    found = resampled(score, right, settled, blocks)
    for row in range(31):
        drawn = np.repeat(np.arange(60), blocks.weights[row, blocks.code].astype(int))
        for name, of in (("right", right), ("settled", settled)):
            label, s = of[drawn], score[drawn]
            expected = roc_auc_score(label, s)
            assert found[f"auroc/{name}"][row] == pytest.approx(expected, abs=1e-5)
            expected = average_precision_score(label, s)
            assert found[f"auprc/{name}"][row] == pytest.approx(expected, abs=1e-5)
        expected = exact(aurc, score[drawn], right[drawn])
        assert found["aurc"][row] == pytest.approx(expected, abs=1e-5)
        expected = exact(partial(risk_at, coverage=0.8), score[drawn], right[drawn])
        assert found["risk@coverage=0.8"][row] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("share", [0.5, 0.03])
def test_bins_of_a_continuous_score_keep_the_spread_of_the_plain_bootstrap(share):
    rng = np.random.default_rng(4)
    label = rng.random(4000) < share
    score = rng.normal(size=4000) + 2 * label
    blocks = RandomBlocks.deal(np.arange(4000), n_resamples=2000)
    found = resampled(score, label, label, blocks)
    plain = {"auroc/right": [], "auprc/right": [], "aurc": [], "risk@coverage=0.5": []}
    for _ in range(400):
        drawn = rng.integers(0, 4000, 4000)
        s, y = score[drawn], label[drawn]
        plain["auroc/right"].append(exact(auroc, s, y))
        plain["auprc/right"].append(exact(average_precision, s, y))
        plain["aurc"].append(exact(aurc, s, y))
        plain["risk@coverage=0.5"].append(exact(partial(risk_at, coverage=0.5), s, y))
    for name, values in plain.items():
        assert found[name][1:].std() == pytest.approx(np.std(values), rel=0.15), name
        assert found[name][0] == pytest.approx(np.mean(values), abs=np.std(values)), name


def test_resamples_have_their_mean_at_the_value_where_binning_takes_much_off_it():
    score = np.arange(6400.0)
    label = (score % 100 > 49) & (score > 3200)  # each bin's upper half
    found = resampled(score, label, label, RandomBlocks.deal(np.arange(6400)))
    for name in ("auroc/right", "auprc/right"):
        value, spread = found[name][0], found[name][1:].std()
        assert found[name][1:].mean() == pytest.approx(value, abs=0.2 * spread), name


def test_resamples_of_a_nearly_perfect_score_stay_within_what_is_possible():
    score = np.arange(1000.0)
    label = score > 503  # amid a bin
    found = resampled(score, label, label, RandomBlocks.deal(np.arange(1000)))
    assert found["auroc/right"][0] == 1.0
    for name, estimate in found.items():
        assert ((estimate >= 0) & (estimate <= 1)).all(), name


def test_intervals_of_the_area_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(5)
    truth, held = norm.cdf(1 / np.sqrt(2)), 0
    for _ in range(400):
        label = rng.random(300) < 0.4
        blocks = RandomBlocks.deal(np.arange(300), n_resamples=300)
        found = resampled(rng.normal(size=300) + label, label, label, blocks)
        _, low, high = interval(found["auroc/right"])
        held += low <= truth <= high
    assert 0.92 <= held / 400 <= 0.98


def test_intervals_go_by_groups_where_examples_repeat():
    rng = np.random.default_rng(6)
    label = rng.random(200) < 0.5
    score = rng.normal(size=200) + label
    once = resampled(score, label, label, RandomBlocks.deal(np.arange(200)))["auroc/right"]
    group = np.repeat(np.arange(200), 5)
    five = RandomBlocks.deal(group)
    repeated = resampled(score[group], label[group], label[group], five)["auroc/right"]
    np.testing.assert_allclose(once, repeated, atol=1e-5)
