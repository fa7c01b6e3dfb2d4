"""What the numbers of a store allow to be said of it, with advice."""

from collections.abc import Callable, Mapping

from trajdiag.diagnosis.causes import (
    CAUSES,
    MATERIAL,
    NOT_EXPOSED,
    NOTHING_FINDS,
    READOUT_MISFIT,
    TRAJECTORY_BOUND,
    Cause,
    amount,
    causes,
    matters,
    parts_of,
    undecided,
)
from trajdiag.diagnosis.evidence import Evidence
from trajdiag.diagnosis.regret import ACCURACY, INTEGRATED
from trajdiag.readouts.readout import RELEASED
from trajdiag.results import Finding
from trajdiag.spans import Span

_FIT = "Fit a gate: `trajdiag fit-gate --kind boosted --objective utility --utility any-later`"
NO_CAUSE, TOO_FEW, CHANCE = "no-clear-cause", "too-few-examples", "chance"

COLLAPSED = 0.95
"""Share of examples at one depth from which a gate has collapsed to it."""
SPREAD = 0.9
"""Share of examples that need one depth below which a gate should not have."""
TO_GAIN = 0.02
"""Area that adaptive depth could add to a fixed one, below which nothing is asked of a readout."""
ORDERED = 0.1
"""Spearman of needed depth with difficulty from which exit depths should follow it."""
DRIFT = {"depth": 0.1, "accuracy": 0.02}
"""Changes from val to test, in loops and in accuracy, that matter."""


def find(evidence: Evidence) -> list[Finding]:
    """The findings about a store, at least one; where it is at chance nothing else is blamed."""
    if evidence.chance.only:
        return [_chance(evidence), *_released(evidence)]
    found = [_CAUSES[cause.code](evidence, cause) for cause in causes(evidence)]
    for one in (
        _bound_beaten,
        _overthinking,
        _collapsed,
        _no_better_than_fixed,
        _misordered,
        _drift,
    ):
        found += one(evidence)
    if not any(f.severity in ("high", "medium") for f in found):
        found.append(_unclear(evidence))
    return found + _released(evidence)


def _trajectory_bound(e: Evidence, cause: Cause) -> Finding:
    if e.reference is None:
        never, lost = (span.text(100, 1, "%") for span in (e.shares["trajectory"], e.lost))
        message = (
            f"{never} of test examples are right at no loop, so no readout could save them; "
            f"{lost} are right at some loop but not where {e.readout} leaves"
        )
        numbers = e.shares["trajectory"].numbers("never_right") | e.lost.numbers("lost")
    else:
        message = (
            f"the oracle of {e.reference} is ahead of this trajectory's own, luck taken off, by "
            f"{_amounts(e, TRAJECTORY_BOUND)}{_unpaired(e)}; one training run each, so the "
            "intervals leave out the seeds"
        )
        numbers = _numbers(e, TRAJECTORY_BOUND)
    advice = "No readout recovers this: train the states otherwise (another prior, a lighter gate)."
    return _finding(e, cause, message, advice, numbers)


def _readout_misfit(e: Evidence, cause: Cause) -> Finding:
    message = (
        f"{e.readout} leaves {_amounts(e, READOUT_MISFIT)} on the table that a causal rule on "
        "the same frozen states reaches"
    )
    advice = (
        f"Keep the model and read it with {e.best} instead."
        if e.best != e.readout
        else f"{_FIT} on the same states."
    )
    return _finding(e, cause, message, advice, _numbers(e, READOUT_MISFIT))


def _not_exposed(e: Evidence, cause: Cause) -> Finding:
    message = (
        f"a learned rule reads {_amounts(e, NOT_EXPOSED)} out of the frozen states that the best "
        f"simple signal, {e.simple}, does not show"
    )
    advice = f"{_FIT}, or --kind mlp; score takes it up by itself."
    return _finding(e, cause, message, advice, _numbers(e, NOT_EXPOSED))


def _nothing_finds(e: Evidence, cause: Cause) -> Finding:
    message = (
        f"hindsight, luck taken off, is ahead of every rule that could be learned by "
        f"{_amounts(e, NOTHING_FINDS)}: the states do not show it in time"
    )
    advice = "Not a readout's fault: more fit examples may find a little of it, other states more."
    return _finding(e, cause, message, advice, _numbers(e, NOTHING_FINDS))


_CAUSES: Mapping[str, Callable[[Evidence, Cause], Finding]] = {
    TRAJECTORY_BOUND: _trajectory_bound,
    READOUT_MISFIT: _readout_misfit,
    NOT_EXPOSED: _not_exposed,
    NOTHING_FINDS: _nothing_finds,
}


def _chance(e: Evidence) -> Finding:
    c = e.chance
    message = (
        f"with all targets permuted the oracle is as good (p {c.p:.2f}), and no loop or readout "
        f"beats the commonest class ({100 * c.majority:.1f}%; the best has {100 * c.best:.1f}%)"
    )
    return Finding(
        code=CHANCE,
        store=e.store,
        readout=None,
        severity="high",
        message=message,
        advice="The task is not learned, so there is no depth to adapt: check task and prompt.",
        numbers={"p": c.p, "majority": c.majority, "best": c.best},
    )


def _bound_beaten(e: Evidence) -> list[Finding]:
    beaten = [
        part
        for part in e.parts.get("left", ())
        if part.span.negative and part.span.value <= -MATERIAL[part.at]
    ]
    if not beaten:
        return []
    part = beaten[0]
    return [
        _plain(
            e,
            "bound-beaten",
            "medium",
            f"{e.readout} beats the learned bound by {amount(part.at, _turned(part.span))}: what "
            "it uses, the bound's fit has not found on val",
            "Extract more fit and val examples: unexposed is too large, learnable too small.",
            part.span.numbers("left"),
        )
    ]


def _overthinking(e: Evidence) -> list[Finding]:
    lost = e.overthinking.positive and e.overthinking.value >= 0.01
    peak = e.peak.positive and e.peak.value >= MATERIAL[INTEGRATED]
    if not lost and not peak:
        return []
    said = []
    if lost:
        said.append(
            f"{e.overthinking.text(100, 1, '%')} of test examples are right earlier and wrong at "
            "the last loop, beyond what luck explains"
        )
    if peak:
        said.append(
            f"loop {e.peak_loop} is {e.peak.text(100, 1)} accuracy points better than loop "
            f"{e.loops}"
        )
    return [
        _plain(
            e,
            "overthinking",
            "medium",
            "; ".join(said),
            "Do not run to the last loop by default; train with weight on the later losses too.",
            e.overthinking.numbers("overthinking") | e.peak.numbers("peak"),
            readout=None,
        )
    ]


def _collapsed(e: Evidence) -> list[Finding]:
    if e.modal_share is None or e.modal_share < COLLAPSED or e.needed_share > SPREAD:
        return []
    return [
        _plain(
            e,
            "gate-collapsed",
            "medium",
            f"whatever its threshold, {e.readout} sends {100 * e.modal_share:.1f}% of examples to "
            f"one depth (loop {e.modal_depth} at an exit probability of 1/2), where at most "
            f"{100 * e.needed_share:.1f}% need the same",
            "Lower beta or change the prior; until then read the states with another rule.",
            {"modal_share": e.modal_share, "needed_share": e.needed_share},
        )
    ]


def _no_better_than_fixed(e: Evidence) -> list[Finding]:
    high = e.over_fixed.high
    if high is None or high >= MATERIAL[INTEGRATED] or e.to_gain < TO_GAIN or e.readout == "fixed":
        return []
    return [
        _plain(
            e,
            "no-better-than-fixed",
            "medium" if e.native else "info",
            f"at equal cost {e.readout} is no better than leaving everywhere at one loop "
            f"({e.over_fixed.text(100, 2)} accuracy points over all budgets), where knowing the "
            f"needed depth would bring {100 * e.to_gain:.1f}",
            f"Run a fixed depth, or read the states with {e.best}."
            if e.best not in ("fixed", e.readout)
            else "Run a fixed depth.",
            {**e.over_fixed.numbers("over_fixed"), "to_gain": e.to_gain},
        )
    ]


def _misordered(e: Evidence) -> list[Finding]:
    if e.order is None or not e.order.negative or not e.needed_order > ORDERED:
        return []
    return [
        _plain(
            e,
            "misordered",
            "medium",
            f"harder inputs leave {e.readout} earlier (Spearman {e.order.text()}), though they "
            f"need more loops (Spearman {e.needed_order:.2f})",
            "It takes giving up for being done: prefer a gate that asks whether going on helps "
            "(--objective utility).",
            {**e.order.numbers("order"), "needed_order": e.needed_order},
        )
    ]


def _drift(e: Evidence) -> list[Finding]:
    depth, accuracy = e.drift_depth, e.drift_accuracy
    deeper = (depth.positive or depth.negative) and abs(depth.value) >= DRIFT["depth"]
    worse = accuracy.negative and accuracy.value <= -DRIFT["accuracy"]
    if not deeper and not worse:
        return []
    return [
        _plain(
            e,
            "threshold-drift",
            "medium",
            f"at the threshold chosen on val, {e.readout} runs {depth.text()} loops deeper on "
            f"test and is {accuracy.text(100, 1)} points more accurate (99% intervals)",
            "Val and test differ: choose the threshold on data like that which it will meet.",
            depth.numbers("depth") | accuracy.numbers("accuracy"),
        )
    ]


def _released(e: Evidence) -> list[Finding]:
    rule = e.released
    if rule is None or rule.differing == 0:
        return []
    return [
        _plain(
            e,
            "released-rule-differs",
            "info",
            f"at its released threshold {rule.threshold:g}, computed in {rule.dtype}, the model's "
            f"own exit rule leaves {rule.differing:,} of {rule.examples:,} test examples at "
            "another loop than the same rule without rounding",
            "Keep gate logits and sum hazards in float64; the released rule is `native-released`.",
            {"differing": float(rule.differing), "examples": float(rule.examples)},
            readout=RELEASED,
        )
    ]


def _unclear(e: Evidence) -> Finding:
    """Nothing is shown: because nothing matters, or because the data cannot tell."""
    open_parts = undecided(e)
    if not open_parts:
        sizes = f"{MATERIAL[ACCURACY]:g} loops, {100 * MATERIAL[INTEGRATED]:g} points"
        message = (
            f"of what {e.readout} loses no part is at once clear of 0, of a size that matters "
            f"({sizes}) and a quarter of the whole: {_regret(e)}"
        )
        return _plain(e, NO_CAUSE, "info", message, "Nothing to mend.", _regret_numbers(e))
    name, part, needed = open_parts[0]
    message = (
        f"the data cannot tell whether {name} is there: {amount(part.at, part.span)} with "
        f"{e.n:,} independent test inputs; about {needed:,} would decide it"
    )
    return _plain(
        e, TOO_FEW, "info", message, "Extract more test examples.", part.span.numbers(name)
    )


def _regret(e: Evidence) -> str:
    return " and ".join(amount(at, span) for at, span in e.regret.items()) or "no bound was fitted"


def _regret_numbers(e: Evidence) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for at, span in e.regret.items():
        found |= span.numbers(f"regret_{at}")
    return found


def _amounts(e: Evidence, code: str) -> str:
    """The part in the units in which it matters."""
    return " and ".join(amount(p.at, p.span) for p in parts_of(e, code) if matters(p))


def _numbers(e: Evidence, code: str) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for part in parts_of(e, code):
        found |= part.span.numbers(f"{CAUSES[code]}_{part.at}")
    return found


def _unpaired(e: Evidence) -> str:
    return "" if e.paired else " (unpaired: it holds other examples)"


def _turned(span: Span) -> Span:
    low = None if span.high is None else -span.high
    high = None if span.low is None else -span.low
    return Span(value=-span.value, low=low, high=high)


def _finding(
    e: Evidence, cause: Cause, message: str, advice: str, numbers: dict[str, float | None]
) -> Finding:
    return _plain(e, cause.code, cause.severity, message, advice, numbers)


def _plain(
    e: Evidence,
    code: str,
    severity: str,
    message: str,
    advice: str,
    numbers: dict[str, float | None],
    *,
    readout: str | None = "",
) -> Finding:
    return Finding(
        code=code,
        store=e.store,
        readout=e.readout if readout == "" else readout,
        severity=severity,
        message=message,
        advice=advice,
        numbers=numbers,
    )
