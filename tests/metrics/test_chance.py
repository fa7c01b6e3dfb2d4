"""Whether luck alone is called luck, and anything else is not."""

import itertools

import numpy as np
import pytest

from trajdiag.metrics.chance import PERMUTATIONS, chance_p

LEAST = 1 / (1 + PERMUTATIONS)


def chance_alone(predictions, target, seed=0):
    """Of examples that are a group each."""
    return chance_p(predictions, target, np.arange(len(target)), seed)


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
            chance_alone(
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
    assert chance_alone(predictions, target) < 0.02
    assert chance_alone(np.repeat(target[:, None], loops, axis=1), target) == LEAST


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
    assert chance_alone(predictions, target, seed) == pytest.approx(np.mean(as_good), abs=0.08)


def test_a_trajectory_that_is_worse_than_luck_is_not_told_from_it():
    target = np.random.default_rng(20).integers(0, 2, 100)
    assert chance_alone(np.repeat(1 - target[:, None], 3, axis=1), target) == 1.0


def test_with_one_class_nothing_can_be_told():
    target = np.zeros(50, dtype=np.int64)
    predictions = np.random.default_rng(21).integers(0, 2, (50, 3))
    assert chance_alone(predictions, target) == 1.0


def test_one_example_or_one_loop_is_no_special_case():
    assert chance_alone(np.array([[1, 0, 1]]), np.array([1])) == 1.0
    target = np.random.default_rng(22).integers(0, 4, 100)
    assert chance_alone(target[:, None], target) == LEAST


def test_the_same_seed_gives_the_same_p_value():
    rng = np.random.default_rng(23)
    predictions, target = wandering(rng, 40, 3, 3), rng.integers(0, 3, 40)
    assert chance_alone(predictions, target, seed=5) == chance_alone(predictions, target, seed=5)


SIZES = {
    "five": lambda rng: np.full(40, 5),
    "twenty": lambda rng: np.full(40, 20),
    "one to twenty": lambda rng: rng.integers(1, 21, 40),
}


def repeats(rng, sizes, shared):
    """Predictions, target and group of examples that are much like others of their group; the
    target is one of the group's, or mostly so."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    target = rng.integers(0, 3, len(sizes))[group]
    if not shared:
        target = np.where(rng.random(len(group)) < 0.6, target, rng.integers(0, 3, len(group)))
    alike = wandering(rng, len(sizes), 4, 3)[group]
    other = rng.integers(0, 3, alike.shape)
    return np.where(rng.random(alike.shape) < 0.9, alike, other), target, group


@pytest.mark.parametrize(
    ("sizes", "shared"),
    [("five", True), ("twenty", True), ("twenty", False), ("one to twenty", True)],
)
def test_examples_of_one_group_are_no_independent_evidence(sizes, shared):
    rng = np.random.default_rng(40)
    worlds = [repeats(rng, SIZES[sizes](rng), shared) for _ in range(100)]
    p = np.array([chance_p(*world, seed) for seed, world in enumerate(worlds)])
    # 100 simulations: a share of .05 has a standard error of .022.
    assert (p <= 0.05).mean() < 0.12
    assert 0.3 < np.median(p) < 0.75


@pytest.mark.parametrize("sizes", SIZES)
def test_groups_some_of_which_are_solved_are_no_luck(sizes):
    rng = np.random.default_rng(41)
    predictions, target, group = repeats(rng, SIZES[sizes](rng), shared=False)
    solved = (group % 2 == 0)[:, None] & (np.arange(4) >= 1)
    predictions = np.where(solved, target[:, None], predictions)
    assert chance_p(predictions, target, group) < 0.02


def test_repeats_of_an_input_hand_their_target_on_together():
    rng = np.random.default_rng(42)
    group = np.repeat(np.arange(5), 4)
    predictions, target = rng.integers(0, 3, (20, 3)), rng.integers(0, 3, 5)
    found = oracle_by_loops(predictions, target[group].tolist())
    as_good = [
        oracle_by_loops(predictions, np.repeat(permuted, 4).tolist()) >= found
        for permuted in itertools.permutations(target.tolist())
    ]
    assert chance_p(predictions, target[group], group) == pytest.approx(np.mean(as_good), abs=0.08)


def test_what_only_large_groups_share_is_no_luck_of_a_constant_answer():
    group = np.repeat(np.arange(40), np.where(np.arange(40) < 20, 7, 4))
    target = (group < 20).astype(np.int64)
    assert chance_p(np.ones((len(group), 3), dtype=np.int64), target, group) == 1.0


def test_a_single_group_tells_nothing():
    target = np.random.default_rng(43).integers(0, 4, 50)
    assert chance_p(target[:, None], target, np.zeros(50, dtype=np.int64)) == 1.0
