"""Signal quality as rows, against scikit-learn, scipy and trajectories written out by hand."""

import weakref
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from trajdiag.diagnosis.quality import Reading, quality
from trajdiag.metrics.luck import null_first_right
from trajdiag.metrics.modal_exit import at_modal_exit, exits_by_probability

LOOP_METRICS = {
    "auroc/right",
    "auprc/right",
    "auroc/settled",
    "auprc/settled",
    "aurc",
    "risk@coverage=0.5",
    "risk@coverage=0.8",
    "risk@coverage=0.9",
}
DIFFICULTY_METRICS = {"spearman/difficulty", "spearman-bins/difficulty", "partial/difficulty"}


def spearman(a, b):
    found: Any = stats.spearmanr(a, b)
    return found.statistic


def planted(seed=0, examples=400, loops=4):
    """Trajectories that solve the easy early, and a logit that knows how they stand."""
    rng = np.random.default_rng(seed)
    difficulty = rng.integers(1, 6, examples).astype(float)
    target = rng.integers(0, 5, examples)
    chance = 1 / (1 + np.exp(difficulty[:, None] - 1.5 * np.arange(1, loops + 1)))
    correct = rng.random((examples, loops)) < chance
    others = (target[:, None] + rng.integers(1, 5, correct.shape)) % 5
    return {
        "correct": correct,
        "predictions": np.where(correct, target[:, None], others),
        "target": target,
        "difficulty": difficulty,
        "group": np.arange(examples),
    }, np.log(chance / (1 - chance)) + rng.normal(size=correct.shape)


def reading(values, **options):
    given = {"name": "r", "direction": "high", "first_loop": 1, "scale": "signal"}
    given |= {"exits": np.ones(len(values), int)} | options
    return Reading(values=values, **given)


def table(readings, data, **options):
    rows, bins = quality("s", iter(readings), **data, n_resamples=50, **options)
    found = {(row.readout, row.metric, row.loop): row for row in rows}
    assert len(found) == len(rows)
    return found, bins


def test_every_metric_has_a_row_at_every_loop_and_one_for_their_mean():
    data, values = planted()
    found, _ = table([reading(values, scale="logit")], data)
    at_loops = LOOP_METRICS | DIFFICULTY_METRICS | {"ece", "brier"}
    expected = {("r", m, t) for m in at_loops for t in (1, 2, 3, 4, None)}
    expected |= {("r", m, None) for m in ("exit/difficulty", "exit/stays-depth")}
    changes = ("wasteful", "flips", "flips/gained", "flips/lost")
    expected |= {(None, m, t) for m in changes for t in (2, 3, 4, None)}
    expected |= {(None, m, None) for m in ("overthinking", "overthinking/beyond-luck")}
    assert set(found) == expected
    assert {row.store for row in found.values()} == {"s"}


def test_of_a_gate_the_share_at_its_commonest_exit_loop_is_told():
    data, values = planted()
    hazards = np.cumsum(np.log1p(np.exp(values)), axis=1)
    found, _ = table([reading(hazards, scale="hazard")], data)
    there = at_modal_exit(exits_by_probability(hazards, "high"))
    assert found["r", "modal-exit", None].value == pytest.approx(there.mean())
    row = found["r", "modal-exit@0.5", None]
    assert row.value == pytest.approx(there[:, 9].mean())
    assert row.low < row.value < row.high
    late, _ = table([reading(hazards, scale="hazard", first_loop=2)], data)
    assert ("r", "modal-exit", None) not in late


@pytest.mark.parametrize("direction", ["high", "low"])
def test_readiness_is_judged_as_scikit_learn_does_in_the_readouts_direction(direction):
    data, values = planted()
    signed = values if direction == "high" else -values
    found, _ = table([reading(signed, direction=direction)], data)
    correct = data["correct"]
    for t in (1, 3):
        settled = correct[:, t - 1] | ~correct[:, t:].any(axis=1)
        for name, label in (("right", correct[:, t - 1]), ("settled", settled)):
            score = values[:, t - 1]
            roc = roc_auc_score(label, score)
            precision = average_precision_score(label, score)
            assert found["r", f"auroc/{name}", t].value == pytest.approx(roc, abs=1e-12)
            assert found["r", f"auprc/{name}", t].value == pytest.approx(precision, abs=1e-12)
    order = np.argsort(-values[:, 1])
    wrong = np.cumsum(~correct[order, 1])
    assert found["r", "aurc", 2].value == pytest.approx(np.mean(wrong / np.arange(1, 401)))
    assert found["r", "risk@coverage=0.9", 2].value == pytest.approx(wrong[359] / 360)


def test_the_mean_over_loops_is_over_those_at_which_it_is_defined():
    data, values = planted()
    values[:, 0] = np.nan
    found, _ = table([reading(values, first_loop=2)], data)
    by_loop = [found["r", "auroc/settled", t].value for t in (1, 2, 3, 4)]
    assert by_loop[0] is None
    assert by_loop[3] is None  # at loop T all are settled: one class
    assert found["r", "auroc/settled", None].value == pytest.approx(np.mean(by_loop[1:3]))
    row = found["r", "auroc/settled", None]
    assert row.low < row.value < row.high


def test_a_cumulative_hazard_says_nothing_at_the_last_loop():
    data, values = planted()
    hazard = np.cumsum(np.exp(values), axis=1)
    hazard[:, -1] = np.inf
    found, _ = table([reading(hazard, scale="hazard")], data)
    assert found["r", "auroc/right", 4].value is None
    assert found["r", "auroc/right", 3].value is not None


def test_harder_that_looks_less_ready_is_positive_on_examples_on_bins_and_given_correctness():
    data, values = planted(examples=2000)
    exits = np.clip(data["difficulty"].astype(int), 1, 4)
    found, _ = table([reading(values, exits=exits)], data)
    expected = spearman(-values[:, 1], data["difficulty"])
    assert found["r", "spearman/difficulty", 2].value == pytest.approx(expected, abs=1e-12)
    assert expected > 0.3
    assert found["r", "spearman-bins/difficulty", 2].value == pytest.approx(1.0)
    assert 0.1 < found["r", "partial/difficulty", 2].value < expected
    assert found["r", "exit/difficulty", None].value == pytest.approx(
        spearman(exits, data["difficulty"])
    )


def test_what_only_shows_correctness_has_no_partial_correlation_with_difficulty():
    data, _ = planted(examples=5000)
    noise = np.random.default_rng(1).normal(size=data["correct"].shape)
    found, _ = table([reading(data["correct"] + noise)], data)
    assert found["r", "spearman/difficulty", 2].low > 0.05
    row = found["r", "partial/difficulty", 2]
    assert row.value == pytest.approx(0, abs=0.04)
    assert row.low < 0.02


def test_exits_are_held_against_the_loop_from_which_it_stays_right():
    data, values = planted()
    correct = data["correct"]
    stays = np.array([next((t for t in range(4) if row[t:].all()), 4) for row in correct])
    exits = np.random.default_rng(2).integers(1, 5, 400)
    found, _ = table([reading(values, exits=exits)], data)
    of = stays < 4
    expected = spearman(exits[of], stays[of])
    assert found["r", "exit/stays-depth", None].value == pytest.approx(expected, abs=1e-12)


def test_examples_of_unknown_difficulty_count_for_readiness_alone():
    data, values = planted()
    known = data["difficulty"] > 1
    data["difficulty"] = np.where(known, data["difficulty"], np.nan)
    found, _ = table([reading(values)], data)
    expected = spearman(-values[known, 0], data["difficulty"][known])
    assert found["r", "spearman/difficulty", 1].value == pytest.approx(expected, abs=1e-12)
    roc = roc_auc_score(data["correct"][:, 0], values[:, 0])
    assert found["r", "auroc/right", 1].value == pytest.approx(roc, abs=1e-12)


def test_no_known_difficulty_gives_no_rows_about_it():
    data, values = planted()
    data["difficulty"] = np.full(400, np.nan)
    found, _ = table([reading(values)], data)
    assert not [key for key in found if key[1].endswith("difficulty")]
    assert found["r", "auroc/right", 1].value is not None


def test_values_that_are_not_numbers_are_left_out_at_their_loop():
    data, values = planted()
    values[::7, 1] = np.nan
    found, bins = table([reading(values, scale="logit")], data)
    of = np.arange(400) % 7 > 0
    right, score = data["correct"][of, 1], values[of, 1]
    assert found["r", "auroc/right", 2].value == pytest.approx(roc_auc_score(right, score))
    p = 1 / (1 + np.exp(-score))
    assert found["r", "brier", 2].value == pytest.approx(brier_score_loss(right, p))
    hard = spearman(-score, data["difficulty"][of])
    assert found["r", "spearman/difficulty", 2].value == pytest.approx(hard)
    assert sum(b.n for b in bins if b.loop == 2) == of.sum()


def test_probabilities_are_held_against_their_own_label():
    data, values = planted()
    agrees = data["predictions"] == data["predictions"][:, -1:]
    found, bins = table(
        [
            reading(values, name="now", scale="logit"),
            reading(values, name="agrees", scale="logit", label=agrees),
            reading(-np.log1p(-1 / (1 + np.exp(-values))), name="top1"),
            reading(values, name="entropy"),
        ],
        data,
    )
    p = 1 / (1 + np.exp(-values[:, 0]))
    expected = brier_score_loss(data["correct"][:, 0], p)
    assert found["now", "brier", 1].value == pytest.approx(expected)
    assert found["top1", "brier", 1].value == pytest.approx(expected)
    assert found["agrees", "brier", 1].value == pytest.approx(brier_score_loss(agrees[:, 0], p))
    assert ("entropy", "brier", 1) not in found
    now = [b for b in bins if b.readout == "now" and b.loop == 1]
    assert [b.bin for b in now] == list(range(1, 16))
    assert sum(b.n for b in now) == 400
    gap = sum(b.n * abs(b.accuracy - b.confidence) for b in now) / 400
    assert found["now", "ece", 1].value == pytest.approx(gap)
    assert {b.readout for b in bins} == {"now", "agrees", "top1"}


def test_saturated_confidence_is_ranked_above_all_else():
    data, values = planted()
    sure = np.where(values > 1, np.inf, np.exp(values)).astype(np.float32)
    found, bins = table([reading(sure, name="top1")], data)
    score = np.where(values > 1, 1e9, np.exp(values))[:, 2]
    roc = roc_auc_score(data["correct"][:, 2], score.astype(np.float32))
    assert found["top1", "auroc/right", 3].value == pytest.approx(roc)
    assert max(b.confidence for b in bins) == 1.0


def test_a_constant_score_is_a_coin_and_has_no_order():
    data, _ = planted()
    found, _ = table([reading(np.zeros((400, 4)))], data)
    assert found["r", "auroc/right", 1].value == 0.5
    wrong = 1 - data["correct"][:, 0].mean()
    assert found["r", "aurc", 1].value == pytest.approx(wrong)
    for metric in DIFFICULTY_METRICS:
        assert found["r", metric, 1].value is None
    assert found["r", "exit/difficulty", None].value is None


def test_of_the_predictions_alone_every_number_is_a_share_of_all_examples():
    predictions = np.array([[1, 1, 0], [0, 1, 1], [2, 3, 2], [1, 0, 2]])
    target = np.array([1, 1, 1, 1])
    data = {
        "correct": predictions == 1,
        "predictions": predictions,
        "target": target,
        "difficulty": np.ones(4),
        "group": np.arange(4),
    }
    found, _ = table([], data)
    value = {(metric, loop): row.value for (_, metric, loop), row in found.items()}
    assert value["overthinking", None] == 0.5
    assert [value["flips", t] for t in (2, 3, None)] == [0.75, 0.75, 0.75]
    assert [value["flips/gained", t] for t in (2, 3, None)] == [0.25, 0, 0.125]
    assert [value["flips/lost", t] for t in (2, 3, None)] == [0.25, 0.25, 0.25]
    assert [value["wasteful", t] for t in (2, 3, None)] == [0.25, 0.25, 0.25]
    # Luck: of the two that end in 2, the targets are 1 and 1; one passes 1. The one that ends in 0
    # is alone with its own target.
    assert value["overthinking/beyond-luck", None] == pytest.approx(0.0)


def test_overthinking_beyond_luck_is_nothing_for_guesses_and_all_for_what_forgets():
    rng = np.random.default_rng(3)
    target = rng.integers(0, 5, 3000)
    guesses = rng.integers(0, 5, (3000, 4))
    forgets = np.stack([target, target, (target + rng.integers(1, 5, 3000)) % 5], axis=1)
    for predictions, expected in ((guesses, 0.0), (forgets, 0.75)):
        data = {
            "correct": predictions == target[:, None],
            "predictions": predictions,
            "target": target,
            "difficulty": np.full(3000, np.nan),
            "group": np.arange(3000),
        }
        row = table([], data)[0][None, "overthinking/beyond-luck", None]
        by_luck = null_first_right(predictions, target).sum(axis=1)[~data["correct"][:, -1]].sum()
        share = (data["correct"].any(axis=1) & ~data["correct"][:, -1]).mean()
        assert row.value == pytest.approx(share - by_luck / 3000, abs=1e-12)
        assert row.low < expected + 0.01
        assert row.high > expected - 0.01
        assert row.value == pytest.approx(expected, abs=0.03)


def test_two_loops_and_two_examples_are_enough():
    data = {
        "correct": np.array([[True, False], [False, True]]),
        "predictions": np.array([[1, 0], [0, 1]]),
        "target": np.array([1, 1]),
        "difficulty": np.array([1.0, 2.0]),
        "group": np.array([0, 1]),
    }
    found, _ = table([reading(np.array([[2.0, 0.0], [1.0, 0.0]]), scale="logit")], data)
    assert found["r", "auroc/right", 1].value == 1.0
    assert found["r", "spearman-bins/difficulty", 1].value == pytest.approx(1.0)
    assert found["r", "exit/stays-depth", None].value is None


def test_one_group_has_values_without_intervals():
    data, values = planted()
    data["group"] = np.zeros(400, int)
    found, _ = table([reading(values, scale="logit")], data)
    for row in found.values():
        assert row.low is None
        assert row.high is None
    assert found["r", "ece", 1].value is not None


def test_one_example_is_enough():
    data, values = planted(examples=1)
    found, _ = table([reading(values, scale="logit")], data)
    p = 1 / (1 + np.exp(-values[0, 0]))
    expected = (p - data["correct"][0, 0]) ** 2
    assert found["r", "brier", 1].value == pytest.approx(expected)
    assert found["r", "auroc/right", 1].value is None


def test_readings_are_taken_one_at_a_time():
    data, values = planted()
    taken = []

    def readings():
        for i in range(4):
            assert not [ref for ref in taken if ref() is not None]
            one = reading(values + 1.0, name=str(i))
            taken.append(weakref.ref(one.values))
            yield one
            del one

    table(readings(), data)
    assert len(taken) == 4


def test_the_same_seed_gives_the_same_rows_and_another_only_other_intervals():
    data, values = planted()
    one, again, other = (table([reading(values)], data, seed=seed)[0] for seed in (1, 1, 2))
    assert one == again
    for key, row in one.items():
        assert other[key].value == (None if row.value is None else pytest.approx(row.value))
    assert one["r", "aurc", 2].low != other["r", "aurc", 2].low


def test_what_cannot_be_judged_is_refused():
    data, values = planted()
    with pytest.raises(ValueError, match="direction"):
        table([reading(values, direction="up")], data)
    with pytest.raises(ValueError, match="predictions are the target"):
        table([], data | {"target": (data["target"] + 1) % 5})
    with pytest.raises(ValueError, match="at least one example"):
        table([], {key: x[:0] for key, x in data.items()})


def test_intervals_hold_the_truth_as_often_as_they_say():
    big, values = planted(99, examples=200_000)
    keys = [("r", "auprc/right", 2), ("r", "aurc", 2), ("r", "partial/difficulty", None)]
    keys += [(None, "flips", None), ("r", "risk@coverage=0.5", 2)]
    population, _ = table([reading(values)], big)
    truth = {key: population[key].value for key in keys}
    held = dict.fromkeys(keys, 0)
    for seed in range(200):
        data, values = planted(seed, examples=300)
        rows, _ = quality("s", [reading(values)], **data, n_resamples=300)
        found = {(row.readout, row.metric, row.loop): row for row in rows}
        for key in keys:
            held[key] += found[key].low <= truth[key] <= found[key].high
    for key, count in held.items():
        assert 0.90 <= count / 200 <= 0.99, key
