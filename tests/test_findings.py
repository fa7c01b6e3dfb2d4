"""What may be said of given numbers."""

from dataclasses import replace

from trajdiag.findings import Case, Shortfall, Span, find
from trajdiag.verdict import verdict


def span(value, half=0.01):
    return Span(value=value, low=value - half, high=value + half)


CASE = Case(
    store="plain",
    reference=None,
    loops=5,
    readout="entropy",
    shares={"ok": span(0.9), "trajectory": span(0.07), "early": span(0.02), "late": span(0.01)},
    lost=span(0.03),
    excess=span(0.04),
    shortfalls=[],
    best="entropy",
    depth=span(1.8),
    accuracy=span(0.93),
    final=0.935,
    tied=["top1"],
)


def gap(trajectory, readout, metric="depth@matched", half=0.01):
    """A shortfall with these parts."""
    return Shortfall(
        metric=metric,
        own="entropy",
        theirs="top1",
        total=span(trajectory + readout, half),
        readout=span(readout, half),
        trajectory=span(trajectory, half),
    )


def joint(*shortfalls):
    return replace(
        CASE, store="joint", reference="plain", readout="native", shortfalls=list(shortfalls)
    )


def told(case):
    return [(finding.code, finding.severity) for finding in find(case)]


def test_the_larger_part_of_a_shortfall_is_severe_and_the_smaller_is_named_too():
    assert told(joint(gap(0.5, 0.0))) == [("trajectory-bound", "high")]
    assert told(joint(gap(0.0, 0.5))) == [("readout-misfit", "high")]
    both = [("trajectory-bound", "high"), ("readout-misfit", "medium")]
    assert told(joint(gap(0.5, 0.2))) == both


def test_a_part_too_small_to_matter_is_no_cause():
    assert told(joint(gap(0.5, 0.05))) == [("trajectory-bound", "high")]
    assert told(joint(gap(0.05, 0.0))) == [("no-clear-cause", "info")]


def test_metrics_that_contradict_each_other_show_nothing():
    contradicted = joint(gap(0.5, 0.0), gap(-0.05, 0.0, metric="area"))
    assert told(contradicted) == [("no-clear-cause", "info")]


def test_intervals_that_hold_zero_or_are_missing_show_nothing():
    assert told(joint(gap(0.5, 0.5, half=0.6))) == [("no-clear-cause", "info")]
    unknown = Span(value=0.5, low=None, high=None)
    lone = replace(gap(0.5, 0.0), trajectory=unknown, readout=unknown, total=unknown)
    assert told(joint(lone)) == [("no-clear-cause", "info")]
    assert "[no interval]" in find(joint(lone))[0].message


def test_without_a_comparison_the_shares_decide():
    assert told(CASE) == [("trajectory-bound", "medium")]
    assert told(replace(CASE, excess=span(-0.04))) == [("readout-misfit", "medium")]
    assert told(replace(CASE, excess=span(0.0))) == [("no-clear-cause", "info")]
    almost_right = {**CASE.shares, "ok": span(0.995)}
    assert told(replace(CASE, shares=almost_right)) == [("trajectory-bound", "info")]


def test_the_verdict_names_cause_readout_and_caveat():
    first, second, third = verdict([CASE, joint(gap(0.5, 0.15))])
    assert first == (
        "The own gate of joint falls short of top1 on plain by 0.65 [0.64, 0.66] loops at matched "
        "accuracy, and that is the trajectory's and the readout's (trajectory 0.50 [0.49, 0.51], "
        "readout 0.15 [0.14, 0.16])."
    )
    assert second == (
        "Use entropy on plain: 93.0% [92.0, 94.0] right at 1.80 [1.79, 1.81] of 5 loops, against "
        "93.5% at full depth (top1 cannot be told apart from it)."
    )
    assert third.startswith("Intervals are over test inputs")


def test_the_verdict_says_plainly_when_the_data_cannot_tell():
    sentences = verdict([CASE, joint(gap(0.1, 0.1, half=0.3))])
    assert len(sentences) == 2
    assert sentences[1].startswith("The data cannot tell: no part of the shortfall of the own gate")


def test_the_verdict_says_plainly_when_nothing_falls_short():
    first, second, _ = verdict([CASE, joint(gap(0.0, 0.01))])
    assert first.startswith("The own gate of joint does not fall short by an amount that matters")
    assert second.startswith("Use entropy on plain")


def test_a_lone_store_gets_its_attribution():
    first, second = verdict([CASE])
    assert first.startswith(
        "With entropy on plain, 7.0% [6.0, 8.0] of test examples are right at no"
    )
    assert second.startswith("Use entropy")


def test_many_stores_still_make_three_sentences():
    cases = [CASE, *(replace(joint(gap(0.5, 0.0)), store=f"joint-{i}") for i in range(9))]
    sentences = verdict(cases)
    assert len(sentences) == 3
    assert "5 more are in the findings" in sentences[0]
