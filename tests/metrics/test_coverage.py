"""How often 95% intervals hold the truth: in 93 to 97 of 100 simulated data sets, of 3,000 for
means and of 1,000 for what is chosen; in 90 or more over the fewest groups anything is told of.

Data sets are columns of one resample, several resamples of other groups and seeds: given the
weights, what they draw from independent columns is independent.
"""

from typing import Literal

import numpy as np
import pytest

from trajdiag.diagnosis.evidence import LEAST_TOLD
from trajdiag.metrics.bootstrap import LEFT_OUT, Resample, interval
from trajdiag.metrics.frontier import NEVER, exit_depth, right_at
from trajdiag.metrics.points import Points

GROUPS, LOOPS = 300, 5
REPEATS, DATA_SETS = 10, 300
"""Resamples, and data sets of each."""


def clusters(rng, groups=GROUPS):
    """Sizes 1 to 5 of the groups, as the group of each example."""
    return np.repeat(np.arange(groups), rng.integers(1, 6, groups))


def resampled(group, seed, n_resamples=1000, role: Literal["test", "val"] = "test"):
    # Groups of other names in every repeat, as other data sets would have.
    return Resample(group + 10_000 * seed, n_resamples, seed, role=role, leave_out=True)


def coverage(estimates, truth):
    """The share of columns [row, data set] whose interval holds the truth: percentile, BCa."""
    held = np.zeros(2)
    for estimate in estimates.T:
        for i, left_out in enumerate((0, 2 * LEFT_OUT)):
            rows = estimate if left_out else estimate[: -2 * LEFT_OUT]
            _, low, high = interval(rows, left_out=left_out)
            assert low is not None and high is not None
            held[i] += low <= truth <= high
    return held / estimates.shape[1]


def answers(rng, group):
    """Whether right, [example, data set], where an input is easy or hard to all of its repeats:
    Beta(2, 1), of mean 2/3."""
    easy = rng.beta(2, 1, (group.max() + 1, DATA_SETS))
    return rng.random((len(group), DATA_SETS)) < easy[group]


GAINED = 0.3 * 1 / 3 - 0.1 * 2 / 3


def gained(rng, group, seed):
    """The estimates of the difference of two accuracies, [row, data set]: the second is right in .3
    of what the first gets wrong, and wrong in .1 of what it gets right."""
    one = answers(rng, group)
    luck = rng.random(one.shape)
    other = np.where(one, luck > 0.1, luck < 0.3)
    means = resampled(group, seed).means(np.concatenate([one, other], axis=1))
    return means[:, DATA_SETS:] - means[:, :DATA_SETS]


@pytest.mark.parametrize("clustered", [False, True])
def test_intervals_of_an_accuracy_hold_it_as_often_as_they_promise(clustered):
    rng = np.random.default_rng(clustered)
    found = []
    for seed in range(REPEATS):
        group = clusters(rng) if clustered else np.arange(GROUPS)
        found.append(coverage(resampled(group, seed).means(answers(rng, group)), 2 / 3))
    assert (np.abs(np.mean(found, axis=0) - 0.95) < 0.02).all()


def test_intervals_over_examples_where_inputs_repeat_hold_it_too_seldom():
    rng = np.random.default_rng(2)
    found = []
    for seed in range(REPEATS):
        group = clusters(rng)
        means = resampled(np.arange(len(group)), seed).means(answers(rng, group))
        found.append(coverage(means, 2 / 3))
    assert (np.mean(found, axis=0) < 0.91).all()


@pytest.mark.parametrize("clustered", [False, True])
def test_intervals_of_a_paired_difference_hold_it_as_often_as_they_promise(clustered):
    rng = np.random.default_rng(10 + clustered)
    found = []
    for seed in range(REPEATS):
        group = clusters(rng) if clustered else np.arange(GROUPS)
        found.append(coverage(gained(rng, group, seed), GAINED))
    assert (np.abs(np.mean(found, axis=0) - 0.95) < 0.02).all()


@pytest.mark.parametrize("clustered", [False, True])
def test_over_the_fewest_groups_that_anything_is_told_of_they_hold_it_nearly_as_often(clustered):
    rng = np.random.default_rng(30 + clustered)
    found = []
    for seed in range(REPEATS):
        group = clusters(rng, LEAST_TOLD) if clustered else np.arange(LEAST_TOLD)
        accuracy = coverage(resampled(group, seed).means(answers(rng, group)), 2 / 3)
        found.append([accuracy, coverage(gained(rng, group, seed), GAINED)])
    assert (np.mean(found, axis=0) > 0.9).all()


def test_over_the_fewest_groups_nothing_is_seldom_taken_for_something():
    rng = np.random.default_rng(32)
    held, above = [], []
    for seed in range(REPEATS):
        means = resampled(np.arange(LEAST_TOLD), seed).means(rng.normal(size=(LEAST_TOLD, 300)))
        held.append(coverage(means, 0.0))
        above.append([interval(column[: -2 * LEFT_OUT])[1] > 0 for column in means.T])
    assert (np.mean(held, axis=0) > 0.92).all()
    assert np.mean(above) < 0.045


THRESHOLDS = np.concatenate([[NEVER], np.linspace(-3, 5, 25), [NEVER]])


def exits(rng, data_sets):
    """Exit loop and whether right there at every threshold, the first of them leaving at loop 1,
    of data sets of GROUPS examples: [example, data set x point] each.

    Readiness drifts up by one a loop from a start that differs between examples; the signal sees it
    through noise, and overthinking takes 3% of the answers at each loop.
    """
    shape = GROUPS * data_sets, LOOPS
    ready = np.arange(1, LOOPS + 1) - rng.uniform(0, 6, (shape[0], 1))
    lost = (rng.random(shape) < 0.03).cumsum(axis=1) > 0
    correct = (ready + 0.5 * rng.normal(size=shape) > 0) & ~lost
    depth = exit_depth(ready + rng.normal(size=shape), THRESHOLDS, "high")
    depth[:, 0] = 1
    return depth.reshape(GROUPS, -1), right_at(correct, depth).reshape(GROUPS, -1)


def areas(val, test):
    """Area of each data set's curve, chosen on val and read off test, from means [row, data set x
    point] of depth and accuracy each: [row, data set]."""
    rows = len(val[0])
    val_depth, val_accuracy, depth, accuracy = (
        x.reshape(-1, len(THRESHOLDS)) for x in (*val, *test)
    )
    points = Points(val_depth=val_depth, val_accuracy=val_accuracy, depth=depth, accuracy=accuracy)
    return points.path().area(LOOPS).reshape(rows, -1)


def test_intervals_of_what_val_chooses_again_hold_it_as_often_as_they_promise():
    rng = np.random.default_rng(20)

    def sample():
        return [x.mean(axis=0, keepdims=True) for x in exits(rng, 50)]

    fresh = [areas(sample(), sample()) for _ in range(60)]
    # The expectation over fresh pairs of samples, known to a fiftieth of their spread.
    truth = np.mean(fresh)
    found = []
    for seed in range(20):

        def means(role: Literal["test", "val"], seed=seed):
            columns = np.concatenate(exits(rng, 50), axis=1, dtype=np.int16)
            return np.split(resampled(np.arange(GROUPS), seed, 500, role).means(columns), 2, axis=1)

        found.append(coverage(areas(means("val"), means("test")), truth))
    assert (np.abs(np.mean(found, axis=0) - 0.95) < 0.02).all()
