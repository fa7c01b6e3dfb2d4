"""The words for a claim follow from the numbers."""

import re

import pytest
from studies.claims import AGREES, DISAGREES, NOTHING, OPEN, close, compared, counted, weigh
from studies.ledger import Ledger, Number

from tests.studies.planted import drawn, study


def number(value: float | None, low: float | None, high: float | None) -> Number:
    return Number(metric="depth@95", value=value, low=low, high=high, reached=1, n=1, drawn=True)


UNIFORM = "fixed uniform: confidence needs fewer loops to 95% than a fixed depth"
MISSED = number(None, None, None)


@pytest.mark.parametrize(
    ("less", "more", "verdict"),
    [
        (number(1.0, 0.9, 1.1), number(2.0, 1.9, 2.1), AGREES),
        (number(2.0, 1.9, 2.1), number(1.0, 0.9, 1.1), DISAGREES),
        (number(1.0, 0.9, 1.9), number(2.0, 1.9, 2.1), OPEN),
        (number(1.0, 0.9, 1.1), MISSED, AGREES),
        (MISSED, number(1.0, 0.9, 1.1), DISAGREES),
        (number(1.0, 0.9, None), number(2.0, 1.9, 2.1), OPEN),
        (MISSED, MISSED, NOTHING),
        (None, MISSED, NOTHING),
    ],
)
def test_intervals_that_do_not_touch_decide_and_a_miss_is_infinitely_deep(less, more, verdict):
    assert compared(less, more) == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.004, 0.006, AGREES),
        (0.02, 0.03, DISAGREES),
        (-0.03, -0.02, DISAGREES),
        (0.0, 0.03, OPEN),
    ],
)
def test_a_difference_is_none_only_where_every_seed_stays_within_the_margin(low, high, verdict):
    assert close(number(0.0, low, high), margin=0.01) == verdict


def test_a_finding_in_some_seeds_only_decides_nothing():
    assert [counted(found, 3) for found in (3, 0, 1)] == [AGREES, DISAGREES, OPEN]
    assert counted(0, 0) == NOTHING


def verdicts(planted) -> dict[str, str]:
    return {told.claim: told.verdict for told in weigh(Ledger(planted))}


def test_planted_numbers_are_judged_as_they_were_planted():
    told = verdicts(study())
    assert told[UNIFORM] == AGREES
    joint = "the MLP gate trained jointly (uniform) has the smaller area"
    assert [v for claim, v in told.items() if claim.startswith(joint)] == [AGREES]
    entropy = "fixed uniform: entropy orders inputs by difficulty better than hidden displacement"
    assert told[entropy] == OPEN
    tracks = [v for claim, v in told.items() if "(MLP, uniform) a fresh gate only tracks" in claim]
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
        ("(uniform) needs more loops to 95% than confidence", r"not reached.* against 2\.00 "),
        ("(uniform) has the smaller area than confidence", r"8\d\.\d .* against 9\d\.\d "),
        ("fixed uniform: entropy orders inputs by difficulty", r"0\.90 .* against 0\.40 "),
    ],
)
def test_the_number_that_is_named_first_stands_first(claim, numbers):
    found = [each.numbers for each in weigh(Ledger(study())) if claim in each.claim]
    assert found
    assert all(re.match(numbers, text) for text in found), found
