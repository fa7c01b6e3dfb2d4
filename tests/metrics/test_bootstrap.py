"""The bootstrap against analytic standard errors, and what its pairing and grouping promise."""

import numpy as np
import pytest
from scipy.stats import norm

from trajdiag.metrics import bootstrap
from trajdiag.metrics.bootstrap import Resample, interval


def test_the_spread_of_a_mean_is_its_analytic_standard_error():
    rng = np.random.default_rng(0)
    right = rng.random((2000, 1)) < 0.3
    estimate = Resample(np.arange(2000), n_resamples=4000).means(right)[:, 0]
    assert estimate[0] == right.mean()
    analytic = np.sqrt(right.mean() * (1 - right.mean()) / 2000)
    assert estimate[1:].std() == pytest.approx(analytic, rel=0.05)
    value, low, high = interval(estimate)
    assert value == right.mean()
    assert low == pytest.approx(right.mean() - norm.ppf(0.975) * analytic, abs=0.15 * analytic)
    assert high == pytest.approx(right.mean() + norm.ppf(0.975) * analytic, abs=0.15 * analytic)


def test_repeats_of_one_input_count_as_one():
    rng = np.random.default_rng(1)
    per_group = rng.random(500) < 0.5
    group = np.repeat(np.arange(500), 8)
    estimate = Resample(group, n_resamples=4000).means(per_group[group][:, None])[:, 0]
    assert estimate[1:].std() == pytest.approx(0.5 / np.sqrt(500), rel=0.06)


def test_unequal_groups_weigh_by_their_examples():
    group = np.array([7, 7, 7, 3])
    right = np.array([[1], [1], [1], [0]])
    found = set(np.round(Resample(group, n_resamples=200).means(right)[:, 0], 12))
    assert found == {0.75, 1.0, 0.0}


def test_a_resample_is_the_mean_of_the_drawn_groups(monkeypatch):
    rng = np.random.default_rng(2)
    group, columns = rng.integers(0, 40, 300), rng.integers(0, 5, (300, 3))
    resample = Resample(group, n_resamples=70)
    weights = np.concatenate([w for _, w in resample._weights()])
    assert (weights.sum(axis=1) == resample.n_groups).all()
    per_example = weights[:, np.unique(group, return_inverse=True)[1]]
    expected = [np.average(columns, axis=0, weights=w) for w in per_example]
    np.testing.assert_allclose(resample.means(columns)[1:], expected, rtol=1e-6)
    monkeypatch.setattr(bootstrap, "_BLOCK", 7)
    monkeypatch.setattr(bootstrap, "_KEEP", 0)
    np.testing.assert_allclose(
        Resample(group, n_resamples=70).means(columns)[1:], expected, rtol=1e-6
    )


def test_the_same_groups_get_the_same_weights_in_any_order_of_examples():
    rng = np.random.default_rng(3)
    group, x = rng.integers(0, 50, 200), rng.random((200, 1)) < 0.5
    order = rng.permutation(200)
    one = Resample(group, n_resamples=50).means(x)
    np.testing.assert_allclose(one, Resample(group[order], n_resamples=50).means(x[order]))
    assert not np.allclose(one, Resample(group, n_resamples=50, seed=1).means(x))


def test_other_groups_get_independent_weights():
    x = np.random.default_rng(4).random((400, 1))
    one = Resample(np.arange(400), n_resamples=2000).means(x)[1:, 0]
    other = Resample(np.arange(400) + 400, n_resamples=2000).means(x)[1:, 0]
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.08


def test_paired_differences_are_narrower_than_unpaired_ones():
    rng = np.random.default_rng(5)
    base = rng.random(1000) < 0.5
    better = base | (rng.random(1000) < 0.02)
    means = Resample(np.arange(1000), n_resamples=1000).means(np.stack([base, better], axis=1))
    assert (means[1:, 1] - means[1:, 0]).std() < 0.3 * means[1:, 0].std()
    assert (means[:, 1] >= means[:, 0]).all()


def test_a_single_group_has_a_value_but_no_interval():
    means = Resample(np.zeros(5, int), n_resamples=10).means(np.array([[1], [0], [1], [1], [1]]))
    assert interval(means[:, 0]) == (0.8, None, None)


def test_an_undefined_value_has_no_interval():
    assert interval(np.array([np.nan, 1.0, 2.0])) == (None, None, None)
    assert interval(np.array([1.0, np.nan, np.nan, 2.0])) == (1.0, None, None)
    assert interval(np.array([1.0, np.nan, 1.0, 3.0]), confidence=0.5) == (1.0, 1.5, 2.5)
