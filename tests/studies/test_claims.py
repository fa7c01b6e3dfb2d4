"""The words for a claim follow from the numbers."""

import re

import numpy as np
import pytest
from scipy import stats
from studies.claims import (
    AGREES,
    DISAGREES,
    NOTHING,
    OPEN,
    Told,
    Weighed,
    close,
    compared,
    counted,
    differing,
    weigh,
)
from studies.ledger import Ledger, Number
from studies.seed_tests import difference_p, within_p

from tests.studies.planted import drawn, study
from trajdiag.metrics.significance import holm


def number(*seeds: float | None) -> Number:
    return Number(metric="depth@95", value=1.0, low=None, high=None, seeds=seeds)


UNIFORM = "fixed uniform: confidence needs fewer loops to 95% than a fixed depth"
MISSED = number(None, None, None)
ONE, TWO = number(1.0, 1.1, 0.9), number(2.0, 2.2, 1.9)


def word(weighed: Weighed) -> str:
    """Of a claim that is the only one."""
    return Told(claim="", numbers="", weighed=weighed, p=weighed.p).verdict


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    ("less", "more", "verdict"),
    [
        (ONE, TWO, AGREES),
        (TWO, ONE, DISAGREES),
        (ONE, number(1.3, 0.8, 1.1), OPEN),
        (ONE, MISSED, OPEN),
        (ONE, number(2.0, 2.1, None), OPEN),
        (number(1.0), number(2.0), OPEN),
        (MISSED, MISSED, NOTHING),
        (None, MISSED, NOTHING),
    ],
)
def test_seeds_that_are_told_apart_decide_and_one_that_misses_does_not(less, more, verdict, paired):
    assert word(compared(less, more, -1, paired=paired)) == verdict
    assert word(compared(more, less, 1, paired=paired)) == verdict


def test_differences_within_models_are_told_where_models_differ_more():
    first, second = number(1.0, 2.0, 3.0), number(1.2, 2.21, 3.19)
    assert word(compared(first, second, -1, paired=True)) == AGREES
    assert word(compared(first, second, -1, paired=False)) == OPEN


@pytest.mark.parametrize(
    ("seeds", "verdict"),
    [
        ((0.001, 0.002, 0.0), AGREES),
        ((0.021, 0.022, 0.02), DISAGREES),
        ((-0.021, -0.022, -0.02), DISAGREES),
        ((0.0, 0.03, 0.01), OPEN),
        ((0.0, 0.008, -0.008), OPEN),
        ((None, 0.0, 0.0), OPEN),
    ],
)
def test_a_difference_is_none_only_where_it_surely_stays_within_the_margin(seeds, verdict):
    assert word(close(number(*seeds), margin=0.01)) == verdict


def test_the_tests_are_those_of_the_textbook():
    a, b = np.array([1.0, 1.2, 1.1, 0.9]), np.array([1.3, 1.1, 1.4, 1.2])
    d = b - a
    t = d.mean() / (d.std(ddof=1) / 2)
    assert difference_p(a, b, paired=True) == pytest.approx(2 * stats.t.sf(abs(t), 3))
    va, vb = a.var(ddof=1) / 4, b.var(ddof=1) / 4
    freedom = (va + vb) ** 2 / (va**2 / 3 + vb**2 / 3)
    t = (b.mean() - a.mean()) / np.sqrt(va + vb)
    assert difference_p(a, b, paired=False) == pytest.approx(2 * stats.t.sf(t, freedom))
    low, high = stats.t.interval(0.9, 3, loc=d.mean(), scale=stats.sem(d))
    margin = max(abs(low), abs(high))
    # at the margin that the 90% interval just touches
    assert within_p(d, margin) == (pytest.approx(0.05), True)


@pytest.mark.parametrize("paired", [True, False])
def test_what_does_not_vary_is_told_by_the_number_of_seeds(paired):
    three, ten = [2.0] * 3, [2.0] * 10
    assert difference_p(three, three, paired=paired) == 1
    assert difference_p(three, [3.0] * 3, paired=paired) == pytest.approx(0.25 if paired else 0.1)
    assert difference_p(ten, [3.0] * 10, paired=paired) < 0.01


@pytest.mark.parametrize("paired", [True, False])
def test_where_nothing_differs_one_test_in_twenty_says_so(paired):
    rng = np.random.default_rng(0)
    p = [difference_p(*rng.normal(size=(2, 3)), paired=paired) for _ in range(2000)]
    assert np.mean(np.array(p) < 0.05) < 0.06


def test_many_claims_are_corrected_for():
    told = weigh(Ledger(study()))
    raw = [each.weighed.p for each in told]
    assert [each.p for each in told] == holm(raw)
    assert sum(p is not None for p in raw) > 5


def test_a_finding_in_some_seeds_only_decides_nothing():
    assert [word(counted(found, 3)) for found in (3, 0, 1)] == [AGREES, DISAGREES, OPEN]
    assert word(counted(0, 0)) == NOTHING


def verdicts(planted) -> dict[str, str]:
    return {told.claim: told.verdict for told in weigh(Ledger(planted))}


def test_planted_numbers_are_judged_as_they_were_planted():
    told = verdicts(study())
    assert told[UNIFORM] == AGREES
    joint = "trained jointly, MLP gate, uniform, β 0.1: the gate has the smaller area"
    assert [v for claim, v in told.items() if claim.startswith(joint)] == [AGREES]
    entropy = "fixed uniform: entropy orders inputs by difficulty better than hidden displacement"
    assert told[entropy] == OPEN
    tracks = [v for claim, v in told.items() if "(MLP, uniform, β 0.1) a fresh gate only" in claim]
    assert tracks == [AGREES]


def test_turned_numbers_turn_the_judgement():
    planted = study()
    planted["numbers"]["mano/fixed-uniform"]["fixed"]["depth@95"] = drawn(1.5, 1.4, 1.6)
    told = verdicts(planted)
    assert (
        told["fixed uniform: confidence needs fewer loops to 95% than a fixed depth"] == DISAGREES
    )


def test_models_at_chance_say_nothing():
    planted = study()
    planted["findings"]["chance"]["mano/fixed-uniform"] = 1
    told = weigh(Ledger(planted))
    found = next(each for each in told if each.claim == UNIFORM)
    assert found.verdict == NOTHING and found.numbers.endswith("not learned")


@pytest.mark.parametrize(
    ("claim", "numbers"),
    [
        (UNIFORM, r"2\.00 .* against 4\.00 "),
        ("uniform, β 0.1: the gate needs more loops to 95%", r"not reached.* against 2\.00 "),
        ("uniform, β 0.1: the gate has the smaller area", r"8\d\.\d .* against 9\d\.\d "),
        ("fixed uniform: entropy orders inputs by difficulty", r"0\.60 .* against 0\.40 "),
    ],
)
def test_the_number_that_is_named_first_stands_first(claim, numbers):
    found = [each.numbers for each in weigh(Ledger(study())) if claim in each.claim]
    assert found
    assert all(re.match(numbers, text) for text in found), found


def test_a_difference_of_another_size_than_the_papers_is_told():
    planted = study()
    signal = planted["numbers"]["mano/fixed-uniform"]["entropy"]
    told = next(each for each in weigh(Ledger(planted)) if each.claim == UNIFORM)
    assert told.paper == pytest.approx(2.19 - 4.50)
    # Planted are 2 loops against 4.
    assert told.weighed.difference is not None
    assert told.weighed.difference[0] == pytest.approx(-2.0, abs=0.02)
    assert told.other_size
    sizes = [text for text in differing(Ledger(planted), [told]) if "Of another size" in text]
    assert len(sizes) == 1 and "in the paper −2.31" in sizes[0]
    signal["depth@95"] = drawn(1.69, 1.6, 1.8)
    told = next(each for each in weigh(Ledger(planted)) if each.claim == UNIFORM)
    assert not told.other_size


def test_orderings_at_the_ceiling_are_said_not_to_tell():
    planted = study()
    for signal in ("entropy", "hidden_displacement"):
        ceiling = [1.0, 1.0, 1.0, "range", [1.0, 1.0, 1.0]]
        planted["numbers"]["mano/fixed-uniform"][signal]["ordering"] = ceiling
    ledger = Ledger(planted)
    told = weigh(ledger)
    found = [text for text in differing(ledger, told) if text.startswith("Cannot be seen here")]
    assert len(found) == 1 and "fixed uniform: entropy orders" in found[0]


def test_claims_in_the_papers_own_measures_come_first():
    ours = [each.ours for each in weigh(Ledger(study()))]
    assert ours == sorted(ours) and set(ours) == {True, False}


def test_a_reference_that_is_jointly_trained_is_told():
    planted = study()
    assert not [t for t in differing(Ledger(planted), []) if "jointly trained" in t]
    planted["references"]["mano"] = "mano-linear-uniform-b0.1-s2"
    (text,) = differing(Ledger(planted), [])
    assert "linear gate, uniform, β 0.1, seed 2" in text
