"""Intervals over training seeds: against closed forms, and as often right as they promise."""

import math

import numpy as np
import pytest
from scipy import stats

from trajdiag.metrics.bootstrap import Resample
from trajdiag.metrics.over_seeds import mean_over_seeds, median_over_seeds


def estimates(own, apart=0.0, together=0.0, resamples=4000, seed=0):
    """Estimates whose resamples spread by `apart` each on its own, and by `together` alike."""
    rng = np.random.default_rng(seed)
    spread = apart * rng.normal(size=(len(own), resamples)) + together * rng.normal(size=resamples)
    return [np.concatenate([[value], value + row]) for value, row in zip(own, spread, strict=True)]


@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_of_trainings_that_alone_differ_it_is_student_s_interval(n, confidence):
    own = np.random.default_rng(n).normal(size=n)
    value, low, high = mean_over_seeds(estimates(own), confidence)
    expected = stats.t.interval(confidence, n - 1, loc=own.mean(), scale=stats.sem(own))
    assert value == pytest.approx(own.mean())
    assert (low, high) == pytest.approx(expected)


def test_of_trainings_that_are_alike_it_is_that_of_the_examples():
    value, low, high = mean_over_seeds(estimates([0.5] * 4, together=0.1))
    assert (value, low, high) == pytest.approx((0.5, 0.5 - 0.196, 0.5 + 0.196), rel=0.03)


def test_real_resamples_of_trainings_on_shared_examples():
    rng = np.random.default_rng(3)
    examples = Resample(np.arange(2000), n_resamples=2000)
    hard = rng.random((2000, 1)) < 0.4
    right = [~hard & (rng.random((2000, 1)) < share) for share in (0.9, 0.92, 0.97)]
    found = [examples.means(column)[:, 0] for column in right]
    value, low, high = mean_over_seeds(found)
    own = np.array([column.mean() for column in right])
    mean = np.mean(right, axis=0)
    apart = sum((column - mean).var() / 2000 for column in right) / 2
    reach = math.sqrt(
        stats.t.ppf(0.975, 2) ** 2 * max(own.var(ddof=1) - apart, 0) / 3
        + 1.96**2 * mean.var() / 2000
    )
    assert value == pytest.approx(own.mean())
    assert (low, high) == pytest.approx((value - reach, value + reach), abs=0.05 * reach)


def test_it_ends_where_what_is_estimated_ends():
    _, low, high = mean_over_seeds(estimates([0.97, 0.99, 1.0], apart=0.01), within=(0.0, 1.0))
    assert high == 1.0 and low is not None and low < 0.97


def test_a_store_that_misses_leaves_no_mean_and_resamples_that_miss_no_upper_end():
    assert mean_over_seeds(estimates([2.0, np.inf])) == (None, None, None)
    missing = estimates([2.0, 2.1], apart=0.1, resamples=100)
    missing[0][1:3] = np.inf
    value, low, high = mean_over_seeds(missing)
    assert value is not None and low is not None and high is not None
    missing[1][3:8] = np.inf
    assert mean_over_seeds(missing)[2] is None


def test_without_resamples_there_is_a_mean_alone():
    undefined = [np.array([value, np.nan, np.nan]) for value in (1.0, 2.0)]
    assert mean_over_seeds(undefined) == (1.5, None, None)


def test_one_training_has_no_interval_over_seeds():
    with pytest.raises(ValueError, match="needs two of them, got 1"):
        mean_over_seeds(estimates([0.5]))


SPREADS = {"seeds": (1, 0, 0), "shared": (0, 1, 0), "own": (0, 0, 1), "all": (1, 0.3, 0.3)}


def coverage(n, spread, sets=2000, resamples=300):
    """How often the interval holds the mean 0: spread of trainings, of what examples do to all
    alike, and of what they do to each."""
    seeds, shared, own = spread
    rng = np.random.default_rng([n, *(round(10 * x) for x in spread)])
    held = 0
    for _ in range(sets):
        values = seeds * rng.normal(size=n) + shared * rng.normal() + own * rng.normal(size=n)
        moved = shared * rng.normal(size=resamples) + own * rng.normal(size=(n, resamples))
        rows = values[:, None] + np.concatenate([np.zeros((n, 1)), moved], axis=1)
        _, low, high = mean_over_seeds(list(rows))
        assert low is not None and high is not None
        held += low <= 0 <= high
    return held / sets


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("spread", SPREADS)
def test_it_holds_the_mean_as_often_as_it_promises(n, spread):
    assert coverage(n, SPREADS[spread]) > 0.935


def brute_median_interval(values, confidence):
    """The narrowest pair of order statistics, the same number from either end, that is sure."""
    ordered, n = sorted(values), len(values)
    for k in range(n // 2, 0, -1):
        if 1 - 2 * stats.binom.cdf(k - 1, n, 0.5) >= confidence:
            return ordered[k - 1], ordered[n - k]
    return None, None


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 9, 20])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_median_lies_between_order_statistics(n, confidence):
    values = np.random.default_rng(n).normal(size=n)
    value, low, high = median_over_seeds(values, confidence)
    assert value == pytest.approx(np.median(values))
    assert (low, high) == brute_median_interval(values, confidence)


def test_fewer_than_six_seeds_have_no_interval_of_a_median():
    assert median_over_seeds(np.arange(5.0))[1:] == (None, None)
    assert median_over_seeds(np.arange(6.0)) == (2.5, 0.0, 5.0)


def test_the_median_takes_misses_as_infinite():
    assert median_over_seeds(np.array([1.0, 3.0, np.inf])) == (3.0, None, None)
    assert median_over_seeds(np.array([1.0, np.inf, np.inf])) == (None, None, None)
    assert median_over_seeds(np.array([1.0, np.inf])) == (None, None, None)
    assert median_over_seeds(np.array([1.0, 2, 3, 4, 5, np.inf])) == (3.5, 1.0, None)
