"""What the verdict says of parts of regret that are chosen here."""

import re

import pytest

from tests.diagnosis.planted_evidence import evidence, span
from trajdiag.diagnosis.as_trained import AsTrained
from trajdiag.diagnosis.causes import NOT_EXPOSED, READOUT_BEHIND, causes
from trajdiag.diagnosis.findings import find
from trajdiag.diagnosis.regret import LEARNABLE, MISFIT, TRAJECTORY, UNEXPOSED
from trajdiag.diagnosis.verdict import verdict


def test_a_cause_that_matters_in_loops_alone_is_told_in_loops_without_a_reference_too():
    alone = evidence({MISFIT: span(0.6)}, {MISFIT: span(0.004, 0.01)}, None)
    first = verdict([alone])[0]
    assert "falls short of hindsight on its own states by 0.60 [0.58, 0.62] loops" in first
    assert "mostly the readout's (misfit 0.60 [0.58, 0.62])" in first


def test_a_model_on_better_states_than_the_reference_is_ahead_of_its_hindsight():
    parts = {TRAJECTORY: span(-1.3), UNEXPOSED: span(0.2), MISFIT: span(0.15)}
    ahead = evidence(parts, {}, "worse")
    found = {cause.code: cause for cause in causes(ahead)}
    assert found[READOUT_BEHIND].severity == "medium"
    assert found[READOUT_BEHIND].share == pytest.approx(0.15 / 0.35), "of its own states' regret"
    first = verdict([ahead])[0]
    assert "is ahead of hindsight on worse by 0.95 [0.93, 0.97] loops at 90.0% accuracy" in first
    assert "what it leaves is mostly the readout's (trajectory \N{MINUS SIGN}1.30" in first
    assert not re.search("short|mostly  ", first)


def test_stores_that_share_no_examples_are_said_to_stand_alone():
    some = {MISFIT: span(0.02)}
    stores = [evidence({}, some, None, name) for name in ("one", "two")]
    told = verdict(stores)
    assert told[2] == (
        "Having no examples in common with the rest, one and two are weighed on their own states "
        "(--reference compares stores of one task all the same)."
    )
    assert told[3].startswith("The data cannot tell: whether ")
    assert len(told) == 4
    assert "--reference" not in " ".join(verdict(stores[:1]))
    paired = [evidence({}, some, None, "one"), evidence({}, some, "one", "two")]
    assert "--reference" not in " ".join(verdict(paired))
    told = verdict([*paired, evidence({}, some, None, "three")])
    assert told[3].startswith(
        "Having no examples in common with the rest, three is weighed on its own states "
    )
    # what is sure needs no more data, so that only the usual limit follows
    sure = {MISFIT: span(0.02, 0.001)}
    told = verdict([evidence({}, sure, of, name) for name, of in (("a", None), ("b", "a"))])
    assert told[-1] == (
        "Intervals are over inputs, one training run a model: another seed may differ."
    )


def test_of_many_stores_four_are_told_and_the_rest_counted():
    stores = [evidence({}, {MISFIT: span(0.2)}, None, f"s{i}") for i in range(7)]
    told = verdict(stores)
    assert [line.split(" falls short")[0] for line in told[:4]] == [
        f"The own gate of s{i}" for i in range(4)
    ]
    assert told[4] == told[9] == "3 more are in the findings."
    assert [line.split(" use ")[0] for line in told[5:9]] == [f"On s{i}" for i in range(4)]
    assert len(told) == 11, "and that they share no examples"


def test_what_would_decide_is_counted_in_test_inputs():
    told = verdict([evidence({}, {MISFIT: span(0.01)}, None)])
    assert re.search(r"; about [0-9,]+ test inputs would decide it\)", told[-1])


def test_a_finding_of_little_does_not_advise_against_a_verdict_that_keeps_the_gate():
    little = {MISFIT: span(0.03, 0.001), LEARNABLE: span(0.03, 0.001), UNEXPOSED: span(0.4, 0.001)}
    kept = evidence({}, little, None, best="native")
    assert "keep its own gate" in verdict([kept])[1]
    found = {f.code: f for f in find(kept)}
    for code in (READOUT_BEHIND, NOT_EXPOSED):
        assert found[code].severity == "info"
        assert found[code].advice.startswith("Keep its own gate")
    other = {f.code: f for f in find(evidence({}, little, None, best="entropy"))}
    assert other[NOT_EXPOSED].advice.startswith("Fit a gate: `trajdiag fit-gate mine ")


EARLY = AsTrained(
    depth=span(2.0), accuracy=span(0.2), chosen=(4.0, 0.9), deeper=span(-2.0), better=span(-0.7)
)


def test_a_verdict_names_the_signs_of_the_models_own_gate_in_its_stores_sentence():
    lost = {MISFIT: span(0.2)}
    told = verdict([evidence({}, lost, None, trained=EARLY)])
    assert len(told) <= 3
    assert told[0].endswith("; its gate leaves 2.00 loops too early at an exit probability of 1/2.")
    signs = {"modal_share": 1.0, "modal_depth": 3, "over_fixed": span(0.0, 0.001)}
    told = verdict([evidence({}, lost, None, order=span(-0.5), needed_order=0.9, **signs)])
    assert told[0].endswith(
        "; its gate sends nearly everything to loop 3, is no better than a fixed depth and lets "
        "harder inputs leave earlier."
    )
    assert "its gate " not in verdict([evidence({}, lost, None)])[0]
    assert "its gate " not in verdict([evidence({}, lost, None, trained=EARLY, native=False)])[0]


def test_signs_of_a_gate_are_told_where_its_store_has_no_cause_or_no_sentence():
    level = verdict([evidence({}, {}, None, trained=EARLY)])
    assert level[0].startswith(
        "The own gate of mine is level with hindsight; its gate leaves 2.00 "
    )
    unclear = verdict([evidence({}, {MISFIT: span(0.01)}, None, trained=EARLY)])
    assert unclear[0].startswith("The own gate of mine leaves 2.00 loops too early")
    assert len(unclear) == 3
