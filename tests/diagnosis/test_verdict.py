"""What the verdict says of parts of regret that are chosen here."""

import math
import re

import pytest

from trajdiag.diagnosis.causes import READOUT_MISFIT, causes
from trajdiag.diagnosis.evidence import Chance, Evidence, Part
from trajdiag.diagnosis.regret import ACCURACY, INTEGRATED, LEARNABLE, MISFIT, TRAJECTORY, UNEXPOSED
from trajdiag.diagnosis.verdict import verdict
from trajdiag.spans import Span


def span(value: float, half: float = 0.02) -> Span:
    return Span(value=value, low=value - half, high=value + half)


def evidence(
    loops: dict[str, Span], points: dict[str, Span], reference: str | None, store: str = "mine"
) -> Evidence:
    """A model with a gate of its own, by its parts of regret in loops and in accuracy."""
    none = span(0.0, 0.001)
    units = {ACCURACY: loops, INTEGRATED: points}

    def left(parts: dict[str, Span]) -> Span:
        values = [parts.get(name, none) for name in (LEARNABLE, MISFIT)]
        return Span(
            value=sum(v.value for v in values),
            low=sum(v.low or 0.0 for v in values),
            high=sum(v.high or 0.0 for v in values),
        )

    names = [UNEXPOSED, LEARNABLE, MISFIT, *([TRAJECTORY] if reference else [])]
    parts = {n: [Part(at=at, span=of.get(n, none)) for at, of in units.items()] for n in names}
    parts["left"] = [Part(at=at, span=left(of)) for at, of in units.items()]
    whole = {at: span(sum(s.value for s in of.values())) for at, of in units.items()}
    return Evidence(
        store=store,
        reference=reference,
        paired=True,
        loops=6,
        n=500,
        fewest=500,
        fewest_of="test",
        n_val=500,
        readout="native",
        native=True,
        simple="entropy",
        parts=parts,
        regret=whole,
        shares={"trajectory": none},
        lost=none,
        matched=0.9,
        best="entropy",
        fitted=False,
        depth=span(2.0),
        accuracy=span(0.93),
        own=(4.0, 0.9),
        gain=None,
        bound=None,
        final=0.95,
        tied=(),
        chance=Chance(p=0.0, majority=0.5, best=0.9, beaten=True, tellable=True),
        overthinking=none,
        peak=none,
        peak_loop=6,
        modal_share=None,
        modal_depth=None,
        needed_share=0.5,
        over_fixed=span(0.1),
        to_gain=0.1,
        order=None,
        needed_order=math.nan,
        released=None,
        drift_depth=none,
        drift_accuracy=none,
    )


def test_a_cause_that_matters_in_loops_alone_is_told_in_loops_without_a_reference_too():
    alone = evidence({MISFIT: span(0.6)}, {MISFIT: span(0.004, 0.01)}, None)
    first = verdict([alone])[0]
    assert "falls short of hindsight on its own states by 0.60 [0.58, 0.62] loops" in first
    assert "mostly the readout's (misfit 0.60 [0.58, 0.62])" in first


def test_a_model_on_better_states_than_the_reference_is_ahead_of_its_hindsight():
    parts = {TRAJECTORY: span(-1.3), UNEXPOSED: span(0.2), MISFIT: span(0.15)}
    ahead = evidence(parts, {}, "worse")
    found = {cause.code: cause for cause in causes(ahead)}
    assert found[READOUT_MISFIT].severity == "medium"
    assert found[READOUT_MISFIT].share == pytest.approx(0.15 / 0.35), "of its own states' regret"
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
