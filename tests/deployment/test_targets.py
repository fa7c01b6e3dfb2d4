"""The threshold that does what was asked on val, against trying every threshold there is."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from trajdiag.deployment.targets import NotReachedError, TargetConfig, choose_on_val, given_up
from trajdiag.errors import ConfigError


def example(seed: int, examples: int = 60, loops: int = 4):
    """Values with ties and holes, and answers that tend to be right when the value is high."""
    rng = np.random.default_rng(seed)
    correct = rng.random((examples, loops)) < np.linspace(0.5, 0.9, loops)
    values = np.round(correct + rng.normal(size=correct.shape), 1).astype(np.float32)
    values[rng.random(values.shape) < 0.05] = np.nan
    return values, correct


def exits_at(values, threshold: float, direction: str, first_loop: int):
    """The exit of every example, one loop at a time."""
    found = np.full(len(values), values.shape[1])
    for row, of_example in enumerate(values):
        for loop in range(first_loop, values.shape[1]):
            value = of_example[loop - 1]
            if (value >= threshold) if direction == "high" else (value <= threshold):
                found[row] = loop
                break
    return found


def every_threshold(values, direction: str):
    """From the safest to the boldest."""
    ordered = np.unique(values[~np.isnan(values)])
    return [math.nan, *(ordered[::-1] if direction == "high" else ordered)]


def outcome(values, correct, threshold, direction, first_loop):
    exits = exits_at(values, threshold, direction, first_loop)
    right = correct[np.arange(len(exits)), exits - 1]
    return exits.mean(), right.mean(), correct[:, -1] & ~right


CASES = [
    (seed, direction, first_loop, loops)
    for seed, (direction, first_loop, loops) in enumerate(
        [("high", 1, 4), ("low", 1, 4), ("high", 2, 4), ("low", 3, 4), ("high", 1, 2)]
    )
]


@pytest.mark.parametrize(("seed", "direction", "first_loop", "loops"), CASES)
def test_an_accuracy_is_reached_at_the_least_depth(seed, direction, first_loop, loops):
    values, correct = example(seed, loops=loops)
    outcomes = [
        outcome(values, correct, threshold, direction, first_loop)[:2]
        for threshold in every_threshold(values, direction)
    ]
    for level in (0.5, 0.7, max(accuracy for _, accuracy in outcomes)):
        (chosen,) = choose_on_val(
            "x", values, correct, np.arange(60), direction, first_loop, TargetConfig(accuracy=level)
        )
        depth, accuracy, _ = outcome(values, correct, chosen.threshold, direction, first_loop)
        assert accuracy >= level - 1e-9
        assert depth == min(d for d, a in outcomes if a >= level - 1e-9)


@pytest.mark.parametrize(("seed", "direction", "first_loop", "loops"), CASES)
def test_a_depth_is_kept_at_the_most_accuracy(seed, direction, first_loop, loops):
    values, correct = example(seed, loops=loops)
    outcomes = [
        outcome(values, correct, threshold, direction, first_loop)[:2]
        for threshold in every_threshold(values, direction)
    ]
    for level in (max(1.5, min(d for d, _ in outcomes)), loops - 0.5, loops):
        (chosen,) = choose_on_val(
            "x", values, correct, np.arange(60), direction, first_loop, TargetConfig(depth=level)
        )
        depth, accuracy, _ = outcome(values, correct, chosen.threshold, direction, first_loop)
        assert depth <= level
        assert accuracy == max(a for d, a in outcomes if d <= level)
        assert depth == min(d for d, a in outcomes if a == accuracy and d <= level)


@pytest.mark.parametrize(("seed", "direction", "first_loop", "loops"), CASES)
def test_a_risk_is_tested_threshold_by_threshold_from_the_safest(
    seed, direction, first_loop, loops
):
    values, correct = example(seed, examples=200, loops=loops)
    level, delta = 0.1, 0.2
    tested = kept = math.nan
    lost_so_far = np.zeros(200, bool)
    testing = keeping = True
    for threshold in every_threshold(values, direction)[1:]:
        _, _, lost = outcome(values, correct, threshold, direction, first_loop)
        testing &= bool(binom.cdf(lost.sum(), 200, level) <= delta)
        tested = threshold if testing else tested
        lost_so_far |= lost
        keeping &= bool((lost_so_far.sum() + 1) / 201 <= level)
        kept = threshold if keeping else kept
    by_test, conformal = choose_on_val(
        "x",
        values,
        correct,
        np.arange(200),
        direction,
        first_loop,
        TargetConfig(risk=level, delta=delta),
    )
    assert (by_test.method, conformal.method) == (
        "Learn-then-Test, exact binomial",
        "conformal risk control",
    )
    for found, expected in ((by_test.threshold, tested), (conformal.threshold, kept)):
        # thresholds between which nobody's exit changes are one
        np.testing.assert_array_equal(
            exits_at(values, found, direction, first_loop),
            exits_at(values, expected, direction, first_loop),
        )
    assert not math.isnan(by_test.threshold)


def test_examples_that_come_in_groups_are_not_counted_as_independent():
    values, correct = example(0, examples=400)
    config = TargetConfig(risk=0.1)
    alone, _ = choose_on_val("x", values, correct, np.arange(400), "high", 1, config)
    grouped, _ = choose_on_val("x", values, correct, np.arange(400) // 4, "high", 1, config)
    assert grouped.method == "Learn-then-Test, Hoeffding-Bentkus"
    assert math.isnan(grouped.threshold) or grouped.threshold > alone.threshold


def test_too_few_examples_promise_a_risk_only_by_never_leaving():
    correct = np.array([[False, True]] + [[True, True]] * 9)
    values = np.arange(20.0).reshape(10, 2)
    for chosen in choose_on_val(
        "x", values, correct, np.arange(10), "high", 1, TargetConfig(risk=0.02)
    ):
        assert math.isnan(chosen.threshold)


def test_one_example_is_enough_to_choose_on():
    values, correct = np.array([[0.5, 0.7]]), np.array([[True, True]])
    (chosen,) = choose_on_val(
        "x", values, correct, np.zeros(1, int), "high", 1, TargetConfig(accuracy=1)
    )
    assert chosen.threshold == 0.5


def test_what_cannot_be_reached_says_how_far_it_gets():
    values, correct = np.array([[0.1, 0.0], [0.2, 0.0]]), np.array([[True, False], [False, True]])
    with pytest.raises(NotReachedError) as accuracy:
        choose_on_val("x", values, correct, np.arange(2), "high", 1, TargetConfig(accuracy=0.9))
    assert str(accuracy.value) == (
        "no threshold of x reaches accuracy 0.9 on val; the most is 0.5000, at mean depth 1.00"
    )
    with pytest.raises(NotReachedError) as depth:
        choose_on_val("x", values, correct, np.arange(2), "high", 2, TargetConfig(depth=1.5))
    assert str(depth.value) == (
        "no threshold of x has a mean depth of 1.5 loops or less on val; the least is 2.00"
    )


def test_what_is_given_up_is_what_the_last_loop_would_have_had():
    correct = np.array([[False, True, True], [True, False, False], [True, False, True]])
    np.testing.assert_array_equal(
        given_up(correct), [[True, False, False], [False] * 3, [False, True, False]]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "one target"),
        ({"accuracy": 0.9, "depth": 2}, "one target"),
        ({"accuracy": 0}, "accuracy must be"),
        ({"accuracy": 95}, "accuracy must be"),
        ({"accuracy": math.nan}, "accuracy must be"),
        ({"depth": 0.5}, "depth must be"),
        ({"depth": math.inf}, "depth must be"),
        ({"risk": 0}, "risk must be"),
        ({"risk": 1}, "risk must be"),
        ({"risk": 0.1, "delta": 0}, "delta must be"),
        ({"risk": 0.1, "min_depth": 0}, "min_depth must be"),
        ({"risk": 0.1, "n_resamples": 1}, "n_resamples must be"),
        ({"risk": 0.1, "confidence": 1}, "confidence"),
        ({"risk": 0.1, "seed": -1}, "seed must be"),
    ],
)
def test_a_target_that_means_nothing_is_refused(options, message: str):
    with pytest.raises(ConfigError, match=message):
        TargetConfig(**options)
