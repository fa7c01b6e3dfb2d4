"""Risk control: p values against scipy and their formulas, paths against brute force, and the
promises over a thousand simulated splits."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from trajdiag.metrics.frontier import exit_depth, frontier
from trajdiag.metrics.risk_control import (
    binomial_p,
    conformal,
    fixed_sequence,
    group_weights,
    hoeffding_bentkus_p,
    risk_path,
)

SPLITS = 1_000
LOOPS = 4


def given_up(correct):
    """Right at the last loop, wrong at this one: [example, loop]."""
    return correct[:, -1:] & ~correct


def world(examples: int, rng: np.random.Generator, group=None):
    """A signal that rises when the answer is right, and answers that come and sometimes go."""
    ease = rng.normal(size=examples)
    if group is not None:
        ease = 0.4 * ease + rng.normal(size=group.max() + 1)[group]
    comes = np.clip(np.round(2.2 - ease), 1, LOOPS + 1)
    correct = np.arange(1, LOOPS + 1) >= comes[:, None]
    correct ^= rng.random(correct.shape) < 0.05
    values = correct * 1.0 + ease[:, None] + rng.normal(size=correct.shape)
    return values, correct


def path(values, correct, weight, direction="high", first_loop=1, monotone=False):
    found = frontier(values, correct, direction, first_loop)
    loss = given_up(correct)
    risk = risk_path(found, values, loss, weight, direction, first_loop, monotone=monotone)
    return found, risk


@pytest.mark.parametrize("direction", ["high", "low"])
@pytest.mark.parametrize("first_loop", [1, 2])
@pytest.mark.parametrize("loops", [2, 5])
def test_a_path_holds_the_loss_at_every_threshold(direction: str, first_loop: int, loops: int):
    rng = np.random.default_rng(loops)
    values = rng.integers(0, 6, size=(40, loops)).astype(np.float32)
    values[rng.random(values.shape) < 0.1] = np.nan
    correct = rng.random((40, loops)) < 0.6
    weight = rng.random(40)
    found, plain = path(values, correct, weight, direction, first_loop)
    _, monotone = path(values, correct, weight, direction, first_loop, monotone=True)
    kept = np.zeros(40, bool)
    for point, threshold in enumerate(found.threshold):
        exits = exit_depth(values, threshold, direction, first_loop)
        lost = given_up(correct)[np.arange(40), exits - 1]
        kept |= lost
        assert plain[point] == pytest.approx(weight @ lost)
        assert monotone[point] == pytest.approx(weight @ kept)


def test_one_example_or_no_usable_loop_makes_a_path_of_what_there_is():
    _, risk = path(np.array([[2.0, 3.0]]), np.array([[False, True]]), np.ones(1))
    assert risk.tolist() == [0.0, 1.0]
    _, risk = path(np.full((3, 2), np.nan), np.ones((3, 2), bool), np.ones(3))
    assert risk.tolist() == [0.0]


def test_weights_make_a_sum_the_mean_of_group_means():
    weight, n = group_weights(np.array([7, 7, 7, 2]))
    assert n == 2
    assert weight @ np.array([1.0, 0.0, 0.5, 1.0]) / n == pytest.approx((0.5 + 1.0) / 2)


def test_binomial_p_is_scipys_tail():
    failures = np.arange(0, 201)
    found = binomial_p(failures / 200, 200, 0.03)
    np.testing.assert_allclose(found, binom.cdf(failures, 200, 0.03), rtol=1e-9)
    assert binomial_p(np.array([0.0]), 59, 0.05) == pytest.approx(0.95**59)


def test_hoeffding_bentkus_p_is_the_smaller_of_its_two_bounds():
    n, level = 120, 0.1
    for risk in (0.0, 0.02, 1 / 30, 0.09, 0.1, 0.4, 1.0):
        a = min(risk, level)
        h = (a * math.log(a / level) if a else 0.0) + (1 - a) * math.log((1 - a) / (1 - level))
        bentkus = math.e * binom.cdf(math.ceil(round(n * risk, 9)), n, level)
        expected = min(1.0, math.exp(-n * h), bentkus)
        assert hoeffding_bentkus_p(np.array([risk]), n, level)[0] == pytest.approx(expected)


def test_hoeffding_bentkus_is_never_below_the_exact_p_of_whole_losses():
    failures = np.arange(0, 51)
    exact = binomial_p(failures / 50, 50, 0.2)
    assert (hoeffding_bentkus_p(failures / 50, 50, 0.2) >= exact - 1e-12).all()


def test_the_sequence_ends_at_its_first_failure():
    assert fixed_sequence(np.array([0.01, 0.05, 0.06, 0.01]), 0.05) == 2
    assert fixed_sequence(np.array([0.2, 0.01]), 0.05) == 0
    assert fixed_sequence(np.array([0.01, np.nan]), 0.05) == 1
    assert fixed_sequence(np.zeros(3), 0.05) == 3


def test_conformal_control_leaves_room_for_one_more_group_that_fails():
    # 99 groups at .1: at most 9 may have failed, for (9 + 1) / 100
    assert conformal(np.array([0, 8, 9, 10, 11]) / 99, 99, 0.1) == 3
    assert conformal(np.zeros(3), 8, 0.1) == 0


def by_testing(p):
    def choose(values, correct, weight, n, level):
        found, risk = path(values, correct, weight)
        return found, fixed_sequence(p(risk[1:] / n, n, level), 0.1)

    return choose


def by_conformal(values, correct, weight, n, level):
    found, risk = path(values, correct, weight, monotone=True)
    return found, conformal(risk[1:] / n, n, level)


def by_eye(values, correct, weight, n, level):
    """The boldest threshold whose risk on the split is what was asked."""
    found, risk = path(values, correct, weight)
    return found, int(np.flatnonzero(risk / n <= level)[-1])


def true_risks(choose, level: float, clustered: bool, seed: int):
    """Over a thousand splits of 150 groups, the risk that the chosen threshold truly has."""
    rng = np.random.default_rng(seed)
    groups = 3_000
    sizes = rng.integers(1, 7, groups) if clustered else np.ones(groups, int)
    group = np.repeat(np.arange(groups), sizes)
    members = np.split(np.arange(len(group)), np.cumsum(sizes)[:-1])
    values, correct = world(len(group), rng, group if clustered else None)
    everyone, truth = path(values, correct, group_weights(group)[0])
    truth /= groups
    found = []
    for _ in range(SPLITS):
        drawn = rng.integers(0, groups, 150)
        rows = np.concatenate([members[g] for g in drawn])
        # a group that is drawn twice is two groups
        weight, n = group_weights(np.repeat(np.arange(150), sizes[drawn]))
        split, point = choose(values[rows], correct[rows], weight, n, level)
        found.append(truth[everyone.at(split.threshold[point], "high")])
    return np.array(found)


@pytest.mark.parametrize(("p", "clustered"), [(binomial_p, False), (hoeffding_bentkus_p, True)])
def test_over_a_thousand_splits_a_tested_risk_is_broken_as_seldom_as_was_said(p, clustered: bool):
    level, delta = 0.1, 0.1
    true = true_risks(by_testing(p), level, clustered, seed=11)
    standard_error = math.sqrt(delta * (1 - delta) / SPLITS)
    assert (true > level).mean() <= delta + 2 * standard_error
    assert true.mean() > 0.3 * level  # something is gained
    # and what is only read off the split breaks it several times as often
    assert (true_risks(by_eye, level, clustered, seed=11) > level).mean() > 3 * delta


@pytest.mark.parametrize("clustered", [False, True])
def test_over_a_thousand_splits_a_conformal_risk_is_kept_on_average(clustered: bool):
    level = 0.1
    true = true_risks(by_conformal, level, clustered, seed=12)
    assert true.mean() <= level + 2 * true.std() / math.sqrt(SPLITS)
    assert true.mean() > 0.5 * level
