"""Whose a store's shortfall is: the parts of regret that are clear of 0 and large enough."""

import math
from dataclasses import dataclass

from trajdiag.diagnosis.evidence import Evidence, Part
from trajdiag.diagnosis.regret import (
    ACCURACY,
    INTEGRATED,
    LEARNABLE,
    MISFIT,
    TRAJECTORY,
    UNEXPOSED,
)
from trajdiag.readout_registry import NATIVE
from trajdiag.spans import Span

TRAJECTORY_BOUND, READOUT_BEHIND = "trajectory-bound", "readout-behind"
NOT_EXPOSED, NOTHING_FINDS = "signal-not-exposed", "nothing-finds"

CAUSES = {
    TRAJECTORY_BOUND: TRAJECTORY,
    READOUT_BEHIND: "left",
    NOT_EXPOSED: LEARNABLE,
    NOTHING_FINDS: UNEXPOSED,
}
"""The part of regret behind each cause; `left` is B - R."""

MATERIAL = {INTEGRATED: 0.005, ACCURACY: 0.1}
"""Parts below these, half a point and a tenth of a loop, do not matter."""
NEVER = 0.1
"""Share of examples right at no loop from which a trajectory is blamed without a reference."""
LIMIT = 0.05
"""Accuracy over all budgets from which what nothing finds is blamed."""
HIGH, MEDIUM = 0.5, 0.25
"""Shares of the whole from which a cause is high, or medium; causes below are not blamed."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A part of the regret that is clear of 0 and of a size that matters."""

    code: str
    share: float
    """Of the whole that the store falls short by."""
    severity: str


def causes(evidence: Evidence) -> list[Cause]:
    """Whose the shortfall is, the largest part first."""
    found = []
    for code in CAUSES:
        if code == READOUT_BEHIND and not evidence.native:
            continue  # the best rule of a store without a gate of its own was nobody's choice
        if code == TRAJECTORY_BOUND and evidence.reference is None:
            found += _never_right(evidence)
        elif is_shown(evidence, code):
            share = _share(evidence, code)
            severity = _severity(share)
            if code == NOTHING_FINDS:
                severity = _severity_of_limits(evidence, share)
            found.append(Cause(code=code, share=share, severity=severity))
    return sorted(found, key=lambda cause: -cause.share)


def blamed(evidence: Evidence) -> list[Cause]:
    """The causes that the verdict names, each loss once: what a gate leaves is told as misfit where
    a simple signal finds it, as not exposed where only a learned rule does; what simple signals do
    not show is no fault of a gate that sees it."""
    if evidence.chance.only or evidence.too_few:
        return []
    found = [cause for cause in causes(evidence) if cause.severity in ("high", "medium")]
    left = is_shown(evidence, READOUT_BEHIND)
    simple = any(map(matters, evidence.parts.get(MISFIT, ())))
    learned = is_shown(evidence, NOT_EXPOSED)
    kept = {
        READOUT_BEHIND: simple or not learned,
        NOT_EXPOSED: left or not evidence.native,
    }
    return [cause for cause in found if kept.get(cause.code, True)]


def keeps_own_gate(evidence: Evidence) -> bool:
    """Whether the model's own gate is the rule to use, and nothing of the readout's is blamed."""
    codes = {cause.code for cause in blamed(evidence)}
    return evidence.best == NATIVE and not {READOUT_BEHIND, NOT_EXPOSED} & codes


def parts_of(evidence: Evidence, code: str) -> list[Part]:
    """The cause's part of regret, in each unit that has it."""
    return list(evidence.parts.get(CAUSES[code], ()))


def matters(part: Part) -> bool:
    """Whether it is clear of 0 and of a size that matters."""
    return part.span.positive and part.span.value >= MATERIAL[part.at]


def is_shown(evidence: Evidence, code: str) -> bool:
    """Whether a cause matters in some unit, and is contradicted by none."""
    parts = parts_of(evidence, code)
    against = (p.span.negative or p.span.value <= -MATERIAL[p.at] for p in parts)
    return any(map(matters, parts)) and not any(against)


def undecided(evidence: Evidence) -> list[tuple[str, Part, int | None]]:
    """Parts of a size that matters whose interval holds 0 or is missing, with the test inputs that
    would decide; None where there is nothing to reckon from."""
    found = []
    for name, parts in evidence.parts.items():
        for part in parts:
            span = part.span
            if span.value < MATERIAL[part.at]:
                continue
            if span.low is None or span.high is None:
                found.append((name, part, None))
            elif span.low <= 0:
                ratio = max(1.2, ((span.value - span.low) / span.value) ** 2)
                found.append((name, part, math.ceil(ratio * evidence.n)))
    return found


def independent(groups: int, sample: str = "test") -> str:
    """How many inputs there are of a sample, those of one group counted once."""
    return f"{groups:,} independent {sample} {'input' if groups == 1 else 'inputs'}"


def decides(needed: int | None) -> str:
    """How many test inputs would decide."""
    if needed is None:
        return "with no interval nobody can tell how many would decide it"
    return f"about {needed:,} test inputs would decide it"


def amount(evidence: Evidence, at: str, span: Span | None) -> str:
    """A part of regret with its unit."""
    if span is None:
        return "an unknown amount"
    unit = (
        f"loops at {100 * evidence.matched:.1f}% accuracy"
        if at == ACCURACY
        else "accuracy points over all budgets"
    )
    return f"{short(at, span)} {unit}"


def short(at: str, span: Span) -> str:
    """A part of regret in loops or accuracy points, without its unit."""
    return span.text() if at == ACCURACY else span.text(100, 2)


def _never_right(evidence: Evidence) -> list[Cause]:
    """Without a reference: examples that no loop has right, where they are much of all that is
    lost against being right at once."""
    never = evidence.shares["trajectory"]
    share = _share(evidence, TRAJECTORY_BOUND)
    severity = _severity(share) if never.value >= NEVER else "info"
    if not never.positive or never.value < 2 * MATERIAL[INTEGRATED] or share < MEDIUM:
        return []
    return [Cause(code=TRAJECTORY_BOUND, share=share, severity=severity)]


def _share(evidence: Evidence, code: str) -> float:
    """The largest share of the whole over the units in which a cause matters. Without a reference
    the whole holds what no loop has right, too; beside a worse reference it is what the model lacks
    on its own, better states."""
    never = evidence.shares["trajectory"].value if evidence.reference is None else 0.0
    if code == TRAJECTORY_BOUND and evidence.reference is None:
        regret = evidence.regret.get(INTEGRATED)
        whole = never + max(0.0, regret.value if regret else 0.0)
        return never / whole if whole > 0 else 0.0
    mattering = [part for part in parts_of(evidence, code) if matters(part)]
    # Alone, a store is weighed in accuracy where the cause matters there.
    in_accuracy = [part for part in mattering if part.at == INTEGRATED]
    if evidence.reference is None and in_accuracy:
        mattering = in_accuracy
    shares = []
    for part in mattering:
        whole = evidence.regret[part.at].value + (never if part.at == INTEGRATED else 0.0)
        whole -= min(0.0, _value(evidence, TRAJECTORY, part.at))
        shares.append(part.span.value / whole if whole > 0 else 1.0)
    return min(1.0, max(shares))


def _value(evidence: Evidence, name: str, at: str) -> float:
    """A part of regret in one unit; 0 where there is none."""
    return next((p.span.value for p in evidence.parts.get(name, ()) if p.at == at), 0.0)


def _severity(share: float) -> str:
    if share < MEDIUM:
        return "info"
    return "high" if share >= HIGH else "medium"


def _severity_of_limits(evidence: Evidence, share: float) -> str:
    """Of what nothing finds: some of it is there in every model, since who will be solved soon is
    not known beforehand."""
    values = [p.span.value for p in parts_of(evidence, NOTHING_FINDS) if p.at == INTEGRATED]
    return "medium" if share >= HIGH and max(values, default=0.0) >= LIMIT else "info"
