"""The bootstrap against analytic standard errors, and what its pairing and grouping promise."""

import numpy as np
import pytest
import scipy.stats
from scipy.stats import norm

from trajdiag.metrics import bootstrap
from trajdiag.metrics.bootstrap import LEFT_OUT, Resample, interval


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


def test_a_single_group_has_no_jackknife_either():
    means = Resample(np.zeros(5, int), n_resamples=10, leave_out=True).means(np.eye(5))
    np.testing.assert_allclose(means[0], 0.2)
    assert np.isnan(means[1:]).all()
    assert interval(means[:, 0], left_out=2 * LEFT_OUT)[1:] == (None, None)


def test_columns_may_be_given_as_sums_over_groups_when_they_are_needed(monkeypatch):
    monkeypatch.setattr(bootstrap, "_PIECE", 37)
    rng = np.random.default_rng(6)
    group, columns = rng.integers(0, 60, 400), rng.integers(0, 9, (400, 3))
    asked = []

    def of(rows, unit, units):
        asked.append(rows)
        sums = np.zeros((units, 3), dtype=np.float32)
        np.add.at(sums, unit, columns[rows])
        return sums

    resample = Resample(group, n_resamples=40, leave_out=True)
    np.testing.assert_allclose(resample.means_of(of), resample.means(columns), rtol=1e-12)
    np.testing.assert_array_equal(np.sort(np.concatenate(asked)), np.arange(400))
    assert len(asked) > 5


@pytest.mark.parametrize("most_groups", [10, 10**6])
def test_sums_over_every_unit_give_the_same_means(monkeypatch, most_groups):
    monkeypatch.setattr(bootstrap, "MOST_GROUPS", most_groups)
    monkeypatch.setattr(bootstrap, "BLOCKS", 25)
    monkeypatch.setattr(bootstrap, "_BLOCK", 7)
    rng = np.random.default_rng(6)
    group, columns = rng.integers(0, 60, 500), rng.integers(0, 9, (500, 4))
    resample = Resample(group, n_resamples=80, leave_out=True)
    sums = np.zeros((resample.n_units, 4), np.int32)
    np.add.at(sums, resample.units(), columns)
    np.testing.assert_array_equal(resample.means_by_unit(sums), resample.means(columns))


def test_singleton_groups_are_the_plain_bootstrap_of_examples(monkeypatch):
    rng = np.random.default_rng(7)
    right = rng.random((90, 2)) < 0.4
    found = Resample(np.arange(90), n_resamples=300, seed=11).means(right)
    # Other groups of one example each: the same numbers under other names.
    monkeypatch.setattr(bootstrap.zlib, "crc32", lambda _: 12345)
    draws = np.random.default_rng([11, 12345]).integers(0, 90, (300, 90))
    expected = [right[examples].mean(axis=0) for examples in draws]
    names = rng.choice(10_000, 90, replace=False)
    order = np.argsort(names)
    patched = Resample(names, n_resamples=300, seed=11).means(right[np.argsort(order)])
    np.testing.assert_allclose(patched[1:], expected, rtol=1e-6)
    np.testing.assert_allclose(found[1:].mean(axis=0), patched[1:].mean(axis=0), atol=0.015)
    np.testing.assert_allclose(found[1:].std(axis=0), patched[1:].std(axis=0), rtol=0.2)


def test_val_and_test_of_one_store_are_drawn_independently():
    x = np.random.default_rng(8).random((300, 1))
    by_role = {
        role: Resample(np.arange(300), n_resamples=2000, role=role).means(x)[1:, 0]
        for role in ("val", "test")
    }
    assert abs(np.corrcoef(by_role["val"], by_role["test"])[0, 1]) < 0.08
    np.testing.assert_array_equal(
        by_role["val"], Resample(np.arange(300), n_resamples=2000, role="val").means(x)[1:, 0]
    )


@pytest.mark.parametrize("role", ["val", "test"])
def test_the_jackknife_leaves_out_blocks_of_whole_groups(role):
    rng = np.random.default_rng(9)
    # A column of each example's own tells which examples a mean is of.
    group = rng.integers(0, 350, 1000)
    column = rng.integers(0, 9, (1000, 1))
    resample = Resample(group, n_resamples=20, role=role, leave_out=True)
    means = resample.means(np.concatenate([column, np.eye(1000)], axis=1))
    assert len(resample) == len(means) == 1 + 20 + 2 * LEFT_OUT
    of_val, of_test = means[21 : 21 + LEFT_OUT], means[21 + LEFT_OUT :]
    own, other = (of_val, of_test) if role == "val" else (of_test, of_val)
    np.testing.assert_array_equal(other, np.repeat(means[:1], LEFT_OUT, axis=0))
    left_out = own[:, 1:] == 0
    np.testing.assert_array_equal(left_out.sum(axis=0), np.ones(1000))
    for without, mean in zip(left_out, own[:, 0], strict=True):
        assert mean == pytest.approx(column[~without].mean())
        assert not set(group[without]) & set(group[~without])
        assert 3 <= len(set(group[without])) <= 4


@pytest.fixture
def few_blocks(monkeypatch):
    monkeypatch.setattr(bootstrap, "MOST_GROUPS", 1000)
    monkeypatch.setattr(bootstrap, "BLOCKS", 500)


@pytest.mark.parametrize("size", [1, 3])
def test_random_blocks_of_many_groups_spread_as_the_groups_do(few_blocks, monkeypatch, size):
    rng = np.random.default_rng(10)
    per_group = rng.random((4000, 2)) < [0.2, 0.7]
    group = np.repeat(np.arange(4000), size)
    columns = per_group[group] ^ (rng.random((len(group), 2)) < 0.1)
    blocks = Resample(group, n_resamples=3000).means(columns)
    monkeypatch.setattr(bootstrap, "MOST_GROUPS", 100_000)
    exact = Resample(group, n_resamples=3000).means(columns)
    np.testing.assert_allclose(blocks[0], exact[0], rtol=1e-12)
    # 1 / sqrt(2 x 500) for the blocks and 1 / sqrt(2 x 3000) for the draws of each.
    assert blocks[1:].std(axis=0) == pytest.approx(exact[1:].std(axis=0), rel=3 * 0.037)
    np.testing.assert_allclose(blocks[1:].mean(axis=0), exact[0], atol=0.001)
    one, other = (np.corrcoef(x[1:, 0], x[1:, 1])[0, 1] for x in (blocks, exact))
    assert abs(one - other) < 0.15


def test_random_blocks_keep_groups_whole_and_differ_little_in_size(few_blocks):
    rng = np.random.default_rng(11)
    group = rng.permutation(np.repeat(np.arange(1203), 2))
    resample = Resample(group, n_resamples=5)
    weights = np.concatenate([w for _, w in resample._weights()])
    assert weights.shape == (5, 500)
    assert (weights.sum(axis=1) == 500).all()
    assert set(np.diff(resample._starts)) == {4, 6}
    for first, last in zip(resample._starts[:-1], resample._starts[1:], strict=True):
        members = group[resample._order[first:last]]
        assert set(np.bincount(members)) <= {0, 2}
    assert resample.n_groups == 1203


def test_two_stores_of_many_groups_stay_paired(few_blocks):
    rng = np.random.default_rng(12)
    base = rng.random((3000, 1)) < 0.5
    better = base | (rng.random((3000, 1)) < 0.02)
    order = rng.permutation(3000)
    one = Resample(np.arange(3000), n_resamples=300).means(base)
    other = Resample(order, n_resamples=300).means(better[order])
    assert (other >= one).all()
    assert (other - one)[1:].std() < 0.3 * one[1:].std()


def test_an_undefined_value_has_no_interval():
    assert interval(np.array([np.nan, 1.0, 2.0])) == (None, None, None)
    assert interval(np.array([1.0, np.nan, np.nan, 2.0])) == (1.0, None, None)
    assert interval(np.array([1.0, np.nan, 1.0, 3.0]), confidence=0.5) == (1.0, 1.5, 2.5)


def test_an_end_that_is_not_reached_is_none():
    depths = np.concatenate([[2.0], np.linspace(1.0, 3.0, 95), np.full(5, np.inf)])
    value, low, high = interval(depths)
    assert (value, high) == (2.0, None)
    assert low == pytest.approx(np.quantile(depths[1:96], 0.025 * 99 / 94))
    assert interval(depths, confidence=0.8)[2] == pytest.approx(
        np.sort(depths[1:])[89] * 0.9 + np.sort(depths[1:])[90] * 0.1, abs=0.02
    )


def test_a_value_that_is_not_reached_has_no_interval():
    depths = np.concatenate([[np.inf], np.linspace(1.0, 3.0, 50)])
    assert interval(depths) == (None, None, None)
    assert interval(np.full(51, np.inf)) == (None, None, None)
    assert interval(np.concatenate([[2.0], np.full(50, np.inf)])) == (2.0, None, None)


def skewed(seed, n=LEFT_OUT):
    """A sample of as many groups as blocks are left out, so that each is left out alone."""
    return np.random.default_rng(seed).lognormal(sigma=1.0, size=n)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("role", ["val", "test"])
def test_bca_agrees_with_scipy_on_a_skewed_mean(seed, role):
    x = skewed(seed)
    resample = Resample(np.arange(LEFT_OUT), n_resamples=20_000, role=role, leave_out=True)
    estimate = resample.means(x[:, None])[:, 0]
    value, low, high = interval(estimate, left_out=2 * LEFT_OUT)
    rng = np.random.default_rng(seed)
    scipys = scipy.stats.bootstrap(
        (x,), np.mean, n_resamples=20_000, method="BCa", rng=rng
    ).confidence_interval
    standard_error = x.std() / np.sqrt(len(x))
    assert value == pytest.approx(x.mean())
    assert low == pytest.approx(scipys.low, abs=0.06 * standard_error)
    assert high == pytest.approx(scipys.high, abs=0.12 * standard_error)
    plain = interval(estimate[: -2 * LEFT_OUT])
    assert plain[1] is not None and plain[2] is not None and low is not None and high is not None
    assert low - plain[1] > 0.1 * standard_error
    assert high - plain[2] > 0.1 * standard_error


def test_bca_of_what_depends_on_both_samples_agrees_with_scipy():
    val, test = skewed(5), skewed(6)

    def mean(x, role):
        resample = Resample(np.arange(LEFT_OUT), n_resamples=20_000, role=role, leave_out=True)
        return resample.means(x[:, None])[:, 0]

    estimate = mean(test, "test") - mean(val, "val")
    value, low, high = interval(estimate, left_out=2 * LEFT_OUT)
    scipys = scipy.stats.bootstrap(
        (test, val),
        lambda one, other, axis: one.mean(axis=axis) - other.mean(axis=axis),
        n_resamples=20_000,
        method="BCa",
        rng=np.random.default_rng(7),
    ).confidence_interval
    standard_error = np.hypot(val.std(), test.std()) / np.sqrt(LEFT_OUT)
    assert value == pytest.approx(test.mean() - val.mean())
    assert low == pytest.approx(scipys.low, abs=0.1 * standard_error)
    assert high == pytest.approx(scipys.high, abs=0.1 * standard_error)


def test_bca_without_bias_or_acceleration_is_the_percentile_interval():
    drawn = np.linspace(-1.0, 1.0, 2001)
    even = np.concatenate([[0.0], drawn, np.tile([-0.1, 0.1], LEFT_OUT)])
    assert interval(even, left_out=2 * LEFT_OUT) == pytest.approx(interval(even[:2002]))
    still = np.concatenate([[0.0], drawn, np.zeros(2 * LEFT_OUT)])
    assert interval(still, left_out=2 * LEFT_OUT) == pytest.approx(interval(even[:2002]))


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_bca_without_acceleration_moves_the_percentiles_by_twice_the_bias(confidence):
    drawn = np.linspace(0.0, 1.0, 10_001)
    biased = np.concatenate([[0.6], drawn, np.tile([-0.1, 0.1], LEFT_OUT)])
    _, low, high = interval(biased, confidence, left_out=2 * LEFT_OUT)
    tail = norm.ppf((1 + confidence) / 2)
    assert low == pytest.approx(norm.cdf(2 * norm.ppf(0.6) - tail), abs=2e-4)
    assert high == pytest.approx(norm.cdf(2 * norm.ppf(0.6) + tail), abs=2e-4)


def test_bca_without_bias_moves_the_percentiles_by_the_acceleration():
    drawn = np.linspace(0.0, 1.0, 10_001)
    # One block of the val groups alone pulls: deviations from its half's mean of .99 once, and of
    # -.01 for the other 99 blocks.
    jackknife = np.zeros(2 * LEFT_OUT)
    jackknife[0] = -1.0
    cubes, squares = 0.99**3 - 99 * 0.01**3, 0.99**2 + 99 * 0.01**2
    acceleration = cubes / (6 * squares**1.5)
    estimate = np.concatenate([[0.5], drawn, jackknife])
    value, low, high = interval(estimate, left_out=2 * LEFT_OUT)
    ends = [m / (1 - acceleration * m) for m in norm.ppf([0.025, 0.975])]
    assert value == 0.5
    assert low == pytest.approx(norm.cdf(ends[0]), abs=2e-4)
    assert high == pytest.approx(norm.cdf(ends[1]), abs=2e-4)


def test_bca_of_a_value_outside_all_resamples_stays_among_them():
    drawn = np.linspace(0.0, 1.0, 1001)
    for value, end in ((2.0, 1.0), (-1.0, 0.0)):
        estimate = np.concatenate([[value], drawn, np.tile([-0.1, 0.1], LEFT_OUT)])
        _, low, high = interval(estimate, left_out=2 * LEFT_OUT)
        assert low is not None and high is not None
        assert 0.0 <= low <= high <= 1.0
        assert end in (pytest.approx(low, abs=0.01), pytest.approx(high, abs=0.01))


def test_bca_of_depths_that_some_blocks_are_needed_to_reach_still_has_an_interval():
    depths = np.concatenate([[2.0], np.linspace(1.0, 3.0, 990), np.full(10, np.inf)])
    jackknife = np.full(2 * LEFT_OUT, 2.0)
    jackknife[3] = np.inf
    found = interval(np.concatenate([depths, jackknife]), left_out=2 * LEFT_OUT)
    plain = np.concatenate([depths, np.full(2 * LEFT_OUT, 2.0)])
    assert found == interval(plain, left_out=2 * LEFT_OUT)
