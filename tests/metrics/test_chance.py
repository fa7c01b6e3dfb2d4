"""Whether luck alone is called luck, and anything else is not."""

import itertools

import numpy as np
import pytest

from trajdiag.metrics.chance import PERMUTATIONS, chance_p

LEAST = 1 / (1 + PERMUTATIONS)


def wandering(rng, examples, loops, classes):
    """Predictions that stay or jump anywhere, of examples that are unlike each other."""
    jumps = rng.random((examples, loops)) < rng.random((examples, 1))
    drawn = rng.integers(0, classes, (examples, loops))
    for t in range(1, loops):
        drawn[:, t] = np.where(jumps[:, t], drawn[:, t], drawn[:, t - 1])
    return drawn


@pytest.mark.parametrize(("loops", "classes"), [(4, 5), (2, 3), (3, 2)])
def test_under_luck_alone_small_p_values_are_as_rare_as_they_say(loops, classes):
    rng = np.random.default_rng(loops)
    p = np.array(
        [
            chance_p(
                wandering(rng, 60, loops, classes),
                rng.choice(classes, 60, p=np.arange(1, classes + 1) / np.arange(classes + 1).sum()),
                seed=simulation,
            )
            for simulation in range(300)
        ]
    )
    # 300 simulations: a share of .05 has a standard error of .013
    assert (p <= 0.05).mean() < 0.09
    assert (p <= 0.5).mean() < 0.5 + 3 * 0.029
    assert 0.3 < np.median(p) < 0.75


@pytest.mark.parametrize(("loops", "classes"), [(4, 5), (2, 3), (3, 2)])
def test_a_trajectory_that_knows_something_is_no_luck(loops, classes):
    rng = np.random.default_rng(10 + loops)
    target = rng.integers(0, classes, 200)
    predictions = wandering(rng, 200, loops, classes)
    solved = rng.integers(1, 3 * loops, 200)  # about a third of the examples, each from its loop on
    known = np.arange(1, loops + 1) >= solved[:, None]
    predictions = np.where(known, target[:, None], predictions)
    assert chance_p(predictions, target) < 0.02
    assert chance_p(np.repeat(target[:, None], loops, axis=1), target) == LEAST


def oracle_by_loops(predictions, target):
    """Over budgets "wait up to loop k": how many examples are right at some loop up to k."""
    return sum(
        any(row[t] == goal for t in range(k))
        for row, goal in zip(predictions.tolist(), target, strict=True)
        for k in range(1, len(row) + 1)
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_p_value_is_the_share_of_all_permutations_that_do_as_well(seed):
    rng = np.random.default_rng(30 + seed)
    predictions, target = rng.integers(0, 3, (6, 3)), rng.integers(0, 3, 6)
    found = oracle_by_loops(predictions, target.tolist())
    as_good = [
        oracle_by_loops(predictions, permuted) >= found
        for permuted in itertools.permutations(target.tolist())
    ]
    # The share of PERMUTATIONS draws has a standard error of at most .025.
    assert chance_p(predictions, target, seed) == pytest.approx(np.mean(as_good), abs=0.08)


def test_a_trajectory_that_is_worse_than_luck_is_not_told_from_it():
    target = np.random.default_rng(20).integers(0, 2, 100)
    assert chance_p(np.repeat(1 - target[:, None], 3, axis=1), target) == 1.0


def test_with_one_class_nothing_can_be_told():
    target = np.zeros(50, dtype=np.int64)
    predictions = np.random.default_rng(21).integers(0, 2, (50, 3))
    assert chance_p(predictions, target) == 1.0


def test_one_example_or_one_loop_is_no_special_case():
    assert chance_p(np.array([[1, 0, 1]]), np.array([1])) == 1.0
    target = np.random.default_rng(22).integers(0, 4, 100)
    assert chance_p(target[:, None], target) == LEAST


def test_the_same_seed_gives_the_same_p_value():
    rng = np.random.default_rng(23)
    predictions, target = wandering(rng, 40, 3, 3), rng.integers(0, 3, 40)
    assert chance_p(predictions, target, seed=5) == chance_p(predictions, target, seed=5)
