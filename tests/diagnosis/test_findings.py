"""Every finding on a store that was made to have it, and on one that was not."""

import numpy as np
import pytest

from tests.diagnosis.planted_evidence import evidence, span
from tests.planted_worlds import (
    EXAMPLES,
    LOOPS,
    good_trajectory_bad_gate,
    hidden_signal,
    pure_luck,
    solved_from,
    world,
)
from trajdiag import diagnose, from_arrays
from trajdiag.diagnosis.as_trained import AsTrained
from trajdiag.diagnosis.findings import find

QUICK = {"n_resamples": 200, "bound": ("ridge",)}


def solved(path, needed=None, gate=None, seed=0, shift=0.0, **options):
    """Confidence, states and, unless it is given, the gate show when an example is solved."""
    rng = np.random.default_rng(seed)
    if needed is None:
        needed = rng.integers(1, 5, EXAMPLES)
    right = solved_from(needed)
    if gate is None:
        gate = np.where(right, 6.0, -6.0)
    return world(
        path,
        right,
        margin=np.where(right, 6.0, 1.0) + rng.normal(0, 0.5, right.shape) + shift,
        shown=np.where(right, 2.0, -2.0),
        gate_logit=gate + rng.normal(0, 0.3, right.shape),
        difficulty=np.minimum(needed, LOOPS).astype(float),
        seed=seed,
        **options,
    )


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A store in which nothing is wrong."""
    return solved(tmp_path_factory.mktemp("good") / "good.zarr")


@pytest.fixture(scope="module")
def good_findings(good):
    return found(diagnose(good, **QUICK), "good")


def found(results, store):
    """The findings about a store by code."""
    return {finding.code: finding for finding in results.findings if finding.store == store}


def of(path, make, **options):
    store = make(path / "store.zarr", **options)
    return found(diagnose(store, **QUICK), "store")


def test_a_store_in_which_nothing_is_wrong_has_nothing_blamed(good_findings):
    assert {f.severity for f in good_findings.values()} == {"info"}
    assert "no-clear-cause" in good_findings


def test_the_verdict_says_that_nothing_matters(good):
    results = diagnose(good, **QUICK)
    assert results.verdict[0].startswith("Nothing that matters stands against the own gate of good")
    assert results.verdict[1].startswith("On good ")


def test_every_finding_has_numbers_and_a_line_of_advice(tmp_path):
    for finding in of(tmp_path, good_trajectory_bad_gate).values():
        assert finding.numbers
        assert finding.advice.endswith(".") and "\n" not in finding.advice
        assert "nan" not in finding.message and "None" not in finding.message


def test_trajectory_bound_where_another_training_solves_it_a_loop_earlier(tmp_path, good):
    needed = np.random.default_rng(0).integers(1, 5, EXAMPLES)
    slower = solved(tmp_path / "slower.zarr", needed + 1)
    results = diagnose([slower, good], reference=good, **QUICK)
    codes = found(results, "slower")
    assert codes["trajectory-bound"].severity == "high"
    assert codes["trajectory-bound"].numbers["trajectory_regret_accuracy"] == pytest.approx(
        1, abs=0.1
    )
    assert "readout-behind" not in codes
    twin = solved(tmp_path / "twin.zarr", needed)
    assert "trajectory-bound" not in found(diagnose([twin, good], reference=good, **QUICK), "twin")


def test_trajectory_bound_without_a_reference_where_many_are_never_right(tmp_path, good_findings):
    rng = np.random.default_rng(1)
    needed = np.where(rng.random(EXAMPLES) < 0.4, 99, rng.integers(1, 5, EXAMPLES))
    codes = of(tmp_path, solved, needed=needed)
    assert codes["trajectory-bound"].severity == "high"
    assert codes["trajectory-bound"].numbers["never_right"] == pytest.approx(0.4, abs=0.05)
    assert "trajectory-bound" not in good_findings


def test_trajectory_bound_names_the_difficulty_that_is_never_right(tmp_path):
    level = np.random.default_rng(9).integers(1, 7, EXAMPLES)
    never = np.where(level > 4, 99, np.minimum(level, 4))
    right = solved_from(never)
    told = of(
        tmp_path,
        world,
        right=right,
        margin=np.where(right, 6.0, 1.0),
        shown=np.where(right, 2.0, -2.0),
        difficulty=level.astype(float),
    )["trajectory-bound"]
    assert "nearly all of them of difficulty 5 and 6 (100% and 100% there)" in told.message
    assert told.numbers["never_right@difficulty=6"] == 1
    even = np.where(np.random.default_rng(10).random(EXAMPLES) < 0.4, 99, 2)
    right = solved_from(even)
    told = of(
        tmp_path / "even",
        world,
        right=right,
        margin=np.where(right, 6.0, 1.0),
        shown=np.where(right, 2.0, -2.0),
        difficulty=level.astype(float),
    )["trajectory-bound"]
    assert "difficulty" not in told.message


def test_readout_behind_where_the_gate_is_noise(tmp_path, good_findings):
    codes = of(tmp_path, good_trajectory_bad_gate)
    assert codes["readout-behind"].severity == "high"
    assert codes["readout-behind"].numbers["left_integrated_low"] > 0.05
    assert "readout-behind" not in good_findings


def test_signal_not_exposed_where_only_the_states_show_it(tmp_path, good_findings):
    codes = of(tmp_path, hidden_signal)
    assert codes["signal-not-exposed"].severity == "high"
    assert codes["signal-not-exposed"].numbers["learnable_integrated_low"] > 0.2
    assert "readout-behind" not in codes, "no gate of the model's own is to blame"
    assert "signal-not-exposed" not in good_findings


def test_nothing_finds_where_the_states_do_not_show_who_will_be_solved(tmp_path, good_findings):
    needed = np.random.default_rng(2).choice([2, 6], EXAMPLES)
    codes = of(tmp_path, solved, needed=needed)
    assert codes["nothing-finds"].severity == "medium"
    assert codes["nothing-finds"].numbers["unexposed_integrated_low"] > 0.02
    early = np.random.default_rng(2).choice([1, 2], EXAMPLES)
    assert "nothing-finds" not in of(tmp_path / "early", solved, needed=early)


def test_overthinking_where_right_answers_are_lost_at_the_end(tmp_path, good_findings):
    rng = np.random.default_rng(3)
    needed = rng.integers(1, 4, EXAMPLES)
    right = solved_from(needed)
    right[rng.random(EXAMPLES) < 0.15, -1] = False
    codes = of(
        tmp_path,
        world,
        right=right,
        margin=np.where(right, 6.0, 1.0) + rng.normal(0, 0.5, right.shape),
        shown=np.where(right, 2.0, -2.0),
    )
    assert codes["overthinking"].numbers["peak_low"] > 0.1
    assert codes["overthinking"].numbers["overthinking_low"] > 0.05
    assert "overthinking" not in good_findings


def test_gate_collapsed_where_all_leave_at_one_loop(tmp_path, good_findings):
    gate = np.where(np.arange(LOOPS) == 2, 8.0, -8.0) * np.ones((EXAMPLES, 1))
    codes = of(tmp_path, solved, gate=gate)
    assert codes["gate-collapsed"].numbers["modal_share"] > 0.99
    assert "loop 3" in codes["gate-collapsed"].message
    assert "gate-collapsed" not in good_findings


def test_a_gate_at_the_one_depth_that_all_need_has_not_collapsed(tmp_path):
    gate = np.where(np.arange(LOOPS) == 2, 8.0, -8.0) * np.ones((EXAMPLES, 1))
    assert "gate-collapsed" not in of(tmp_path, solved, needed=np.full(EXAMPLES, 3), gate=gate)


def test_no_better_than_fixed_where_the_gate_is_noise(tmp_path, good_findings):
    codes = of(tmp_path, good_trajectory_bad_gate)
    assert codes["no-better-than-fixed"].numbers["over_fixed_high"] < 0.005
    assert "no-better-than-fixed" not in good_findings


def seeing(path, sight, seed):
    """The gate looks at the loop, and by `sight` at how far the example is solved."""
    rng = np.random.default_rng(seed)
    needed = rng.integers(1, 6, EXAMPLES)
    loop = np.arange(1, LOOPS + 1)
    gate = 1.5 * (loop - 2.5) + sight * (loop - needed[:, None] + 0.5)
    gate = gate + rng.normal(0, 0.5, gate.shape)
    return solved(path, needed=needed, gate=gate, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_no_better_than_fixed_where_the_gate_sees_the_loop_alone(tmp_path, seed):
    blind = of(tmp_path, seeing, sight=0.0, seed=seed)
    numbers = blind["no-better-than-fixed"].numbers
    assert numbers["over_fixed_low"] < 0 < numbers["over_fixed_high"]
    assert numbers["over_fixed_high"] < 0.1 * min(numbers["to_gain"], numbers["found_gain"])
    for sight in (0.2, 0.5):
        codes = of(tmp_path / f"{sight}", seeing, sight=sight, seed=seed)
        assert "no-better-than-fixed" not in codes


@pytest.mark.parametrize(
    ("over", "found_gain", "said"),
    [
        ((0.000, 0.010), 0.2, True),
        ((0.000, 0.010), 0.05, False),  # a fifth of what can be found is not ruled out
        ((0.008, 0.005), 0.2, False),  # little, but shown
        ((0.003, 0.001), 0.2, True),
        ((-0.030, 0.010), 0.2, True),
    ],
)
def test_a_gain_on_a_fixed_depth_is_weighed_against_what_can_be_found(over, found_gain, said):
    one = evidence({}, {}, None, over_fixed=span(*over), to_gain=0.3, found_gain=found_gain)
    assert ("no-better-than-fixed" in {f.code for f in find(one)}) is said


def test_misordered_where_the_hard_leave_first(tmp_path, good_findings):
    needed = np.random.default_rng(4).integers(1, 5, EXAMPLES)
    gate = np.where(np.arange(1, LOOPS + 1) >= 6 - needed[:, None], 6.0, -6.0)
    codes = of(tmp_path, solved, needed=needed, gate=gate)
    assert codes["misordered"].numbers["order_high"] < 0
    assert "misordered" not in good_findings


def test_leaving_the_hopeless_at_once_is_no_disorder(tmp_path):
    rng = np.random.default_rng(5)
    needed = np.where(rng.random(EXAMPLES) < 0.4, 99, rng.integers(1, 5, EXAMPLES))
    leave = solved_from(needed) | (needed[:, None] > LOOPS)
    assert "misordered" not in of(tmp_path, solved, needed=needed, gate=np.where(leave, 6.0, -6.0))


def at_half(store, min_depth=1):
    """Mean depth and accuracy on test where the running product of what stays falls to 1/2."""
    depths, rights = [], []
    for logits, right in zip(
        store.numpy("gate_logit", split="test"), store.correct("test"), strict=True
    ):
        stays, loop = 1.0, 0
        for loop in range(1, LOOPS + 1):
            stays *= 1 - 1 / (1 + np.exp(-float(logits[loop - 1])))
            if loop >= min_depth and stays <= 0.5:
                break
        depths.append(loop)
        rights.append(right[loop - 1])
    return np.mean(depths), np.mean(rights)


@pytest.mark.parametrize("min_depth", [1, 2])
def test_gate_miscalibrated_where_its_order_is_right_and_it_leaves_at_once(tmp_path, min_depth):
    needed = np.random.default_rng(8).integers(1, 6, EXAMPLES)
    gate = np.where(solved_from(needed), 8.0, -8.0)
    gate[:, 0] = np.where(needed == 1, 8.0, 2.0)  # all are past 1/2 at once
    store = solved(tmp_path / "store.zarr", needed=needed, gate=gate)
    codes = found(diagnose(store, min_depth=min_depth, **QUICK), "store")
    early = codes["gate-miscalibrated"]
    depth, accuracy = at_half(store, min_depth)
    assert depth == min_depth
    assert early.numbers["depth_at_half"] == pytest.approx(depth)
    assert early.numbers["accuracy_at_half"] == pytest.approx(accuracy)
    assert early.numbers["accuracy_over_chosen_high"] < -0.5
    assert early.severity == "medium"
    assert "too early: at the threshold chosen on val it takes " in early.message
    assert not {"readout-behind", "trajectory-bound"} & set(codes), "its order is right"


def test_gate_miscalibrated_where_it_hardly_ever_leaves(tmp_path, good_findings):
    needed = np.random.default_rng(8).integers(1, 5, EXAMPLES)
    gate = np.where(solved_from(needed), -3.0, -9.0)
    late = of(tmp_path, solved, needed=needed, gate=gate)["gate-miscalibrated"]
    assert late.numbers["depth_at_half"] == pytest.approx(LOOPS)
    assert late.numbers["depth_over_chosen_low"] > 2
    assert "too late" in late.message
    assert "gate-miscalibrated" not in good_findings


@pytest.mark.parametrize(
    ("deeper", "better", "said"),
    [
        ((-1.0, 0.1), (-0.030, 0.010), "too early"),
        ((-1.0, 0.1), (-0.019, 0.010), None),
        ((-1.0, 0.1), (-0.030, 0.040), None),
        ((0.2, 0.1), (0.000, 0.010), "too late"),
        ((0.2, 0.3), (0.000, 0.010), None),
        ((0.05, 0.01), (0.000, 0.010), None),
        ((0.2, 0.1), (0.004, 0.002), "too late"),
        ((0.2, 0.1), (0.015, 0.010), None),  # it may bring two points
    ],
)
def test_a_gate_as_trained_is_weighed_against_its_chosen_threshold(deeper, better, said):
    trained = AsTrained(
        depth=span(3.0 + deeper[0]),
        accuracy=span(0.9 + better[0]),
        chosen=(3.0, 0.9),
        deeper=span(*deeper),
        better=span(*better),
    )
    codes = {f.code: f for f in find(evidence({}, {}, None, trained=trained))}
    assert ("gate-miscalibrated" in codes) is (said is not None)
    if said:
        assert said in codes["gate-miscalibrated"].message


def test_threshold_drift_where_test_is_less_confident_than_val(tmp_path, good_findings):
    split = np.repeat(["fit", "val", "test"], [800, 600, 600])
    shift = np.where(split == "test", -1.5, 0.0)[:, None]
    gate = np.where(solved_from(np.random.default_rng(0).integers(1, 5, EXAMPLES)), 6.0, -6.0)
    gate = gate - np.where(split == "test", 12.0, 0.0)[:, None]
    codes = of(tmp_path, solved, gate=gate, shift=shift, split=split)
    assert codes["threshold-drift"].numbers["depth_low"] > 0.5
    assert "val is too small to place it (600 " in codes["threshold-drift"].advice
    assert "threshold-drift" not in good_findings


def test_bound_beaten_where_val_shows_what_test_does_not(tmp_path, good_findings):
    split = np.repeat(["fit", "val", "test"], [800, 600, 600])
    rng = np.random.default_rng(6)
    needed = rng.integers(1, 5, EXAMPLES)
    right, test = solved_from(needed), (split == "test")[:, None]
    coin = rng.random(right.shape) < 0.5
    codes = of(
        tmp_path,
        world,
        right=right,
        margin=np.where(np.where(test, coin, right), 6.0, 1.0) + rng.normal(0, 0.5, right.shape),
        shown=np.where(np.where(test, coin, right), 2.0, -2.0),
        gate_logit=np.where(np.where(test, right, coin), 6.0, -6.0)
        + rng.normal(0, 0.3, right.shape),
        split=split,
    )
    assert codes["bound-beaten"].numbers["left_high"] < 0
    assert "bound-beaten" not in good_findings


def test_chance_where_answers_have_nothing_to_do_with_questions(tmp_path, good_findings):
    codes = of(tmp_path, pure_luck)
    assert list(codes) == ["chance"]
    assert codes["chance"].numbers["p"] > 0.05
    assert "chance" not in good_findings


def test_a_task_of_one_class_is_not_said_to_be_at_chance(tmp_path):
    store = pure_luck(tmp_path / "luck.zarr")
    logits, hidden = (store.numpy(name) for name in ("logits", "hidden"))
    one = from_arrays(tmp_path / "store.zarr", hidden, logits, np.zeros(EXAMPLES, int))
    assert "chance" not in found(diagnose(one, **QUICK), "store")


def test_few_inputs_are_not_said_to_be_at_chance(tmp_path):
    split = np.repeat(["fit", "val", "test"], [1000, 980, 20])
    assert "chance" not in of(tmp_path, pure_luck, split=split)


def test_the_gate_is_kept_where_the_best_cannot_be_told_from_it(tmp_path, good):
    verdict = diagnose(good, **QUICK).verdict
    assert "keep its own gate" in verdict[1]
    assert "instead of its own gate" not in verdict[1]


def test_drift_is_told_by_its_direction(tmp_path):
    split = np.repeat(["fit", "val", "test"], [800, 600, 600])
    gate = np.where(solved_from(np.random.default_rng(0).integers(1, 5, EXAMPLES)), 6.0, -6.0)
    gate = gate + np.where(split == "test", 4.0, 0.0)[:, None]
    codes = of(tmp_path, solved, gate=gate, split=split)
    assert "loops shallower" in codes["threshold-drift"].message


def test_too_few_examples_where_the_interval_holds_more_than_it_tells(tmp_path):
    rng = np.random.default_rng(7)
    needed = rng.integers(1, 5, EXAMPLES)
    right = solved_from(needed)
    sees = np.where(rng.random(right.shape) < 0.9, right, rng.random(right.shape) < 0.5)
    split = np.repeat(["fit", "val", "test"], [EXAMPLES - 80, 40, 40])
    few = of(tmp_path, solved, needed=needed, gate=np.where(sees, 6.0, -6.0), split=split)
    assert "too-few-examples" in few
    assert " test inputs would decide it" in few["too-few-examples"].message
    many = of(tmp_path / "many", solved, needed=needed, gate=np.where(sees, 6.0, -6.0))
    assert "too-few-examples" not in many
