"""What the numbers of a store allow to be said of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trajdiag.readout import RELEASED, ReleasedRule
from trajdiag.results import Finding

TRAJECTORY, READOUT, UNCLEAR = "trajectory-bound", "readout-misfit", "no-clear-cause"
RELEASED_RULE = "released-rule"

_MATERIAL = {"area": 0.005, "depth@matched": 0.1}
"""Shortfalls below these, half a point and a tenth of a loop, do not matter."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """A value with its interval; the bounds are None where there is none."""

    value: float
    low: float | None
    high: float | None

    @property
    def positive(self) -> bool:
        """Whether the whole interval is above 0."""
        return self.low is not None and self.low > 0

    @property
    def negative(self) -> bool:
        """Whether the whole interval is below 0."""
        return self.high is not None and self.high < 0

    def text(self, scale: float = 1.0, digits: int = 2, unit: str = "") -> str:
        """Such as `1.75 [1.71, 1.80]`, with the unit after the value."""
        shown = f"{_number(self.value * scale, digits)}{unit}"
        if self.low is None or self.high is None:
            return f"{shown} [no interval]"
        low, high = (_number(bound * scale, digits) for bound in (self.low, self.high))
        return f"{shown} [{low}, {high}]"


@dataclass(frozen=True, kw_only=True)
class Shortfall:
    """How far a store falls short, in one metric; positive is worse."""

    metric: str
    """`area` or `depth@matched`."""
    own: str
    """The best readout of the store's own trajectory."""
    theirs: str | None
    """The best readout of the reference's trajectory."""
    total: Span | None
    """Own gate against `theirs`."""
    readout: Span | None
    """Own gate against `own`: same trajectory."""
    trajectory: Span | None
    """`own` against `theirs`."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """All that is weighed about one store."""

    store: str
    reference: str | None
    loops: int
    readout: str
    """The readout under diagnosis: the model's own gate where it has one, else the best."""
    shares: Mapping[str, Span]
    """Its parts: ok, trajectory, early, late."""
    lost: Span
    """early + late: some loop was right."""
    excess: Span
    """trajectory - lost."""
    shortfalls: Sequence[Shortfall]
    best: str
    """The readout that val prefers by area."""
    depth: Span
    """Its mean exit depth at its operating point."""
    accuracy: Span
    """Its accuracy there."""
    final: float
    """Accuracy of the last loop."""
    tied: Sequence[str]
    """Readouts whose area cannot be told from the best one's."""


def find(case: Case) -> list[Finding]:
    """The findings about a store, at least one."""
    found = [
        Finding(
            code=code,
            store=case.store,
            readout=case.readout,
            severity=_severity(case, part),
            message=_shortfall_message(case, part),
        )
        for code, part in ((TRAJECTORY, "trajectory"), (READOUT, "readout"))
        if shown(case, part)
    ]
    if found:
        return found
    if compared(case):
        code, severity, message = UNCLEAR, "info", no_shortfall(case)
    else:
        code, severity, message = _by_shares(case)
    return [
        Finding(
            code=code, store=case.store, readout=case.readout, severity=severity, message=message
        )
    ]


def released_finding(store: str, rule: ReleasedRule) -> Finding:
    """How far the released exit rule is from the exact one at the released threshold."""
    return Finding(
        code=RELEASED_RULE,
        store=store,
        readout=RELEASED,
        severity="info",
        message=f"At its released threshold {rule.threshold:g}, computed in {rule.dtype}, the "
        f"model's own exit rule leaves {rule.differing:,} of {rule.examples:,} test examples at "
        "another loop than the same rule without rounding.",
    )


def compared(case: Case) -> bool:
    """Whether the store has a gate of its own and a reference."""
    return any(shortfall.total is not None for shortfall in case.shortfalls)


def none_matters(case: Case) -> bool:
    """Whether the intervals rule out that any shortfall matters."""
    totals = [(s.total, _MATERIAL[s.metric]) for s in case.shortfalls if s.total is not None]
    return all(total.high is not None and total.high < size for total, size in totals)


def part_of(shortfall: Shortfall, part: str) -> Span | None:
    """The shortfall's `trajectory` or `readout`."""
    return shortfall.trajectory if part == "trajectory" else shortfall.readout


def matters(shortfall: Shortfall, part: str) -> bool:
    """Whether a part is clear of 0 and of a size that matters, in this metric."""
    span = part_of(shortfall, part)
    return span is not None and span.positive and span.value >= _MATERIAL[shortfall.metric]


def shown(case: Case, part: str) -> bool:
    """Whether a part of the shortfall matters in some metric, and is contradicted by none."""
    spans = [span for s in case.shortfalls if (span := part_of(s, part)) is not None]
    return any(matters(s, part) for s in case.shortfalls) and not any(s.negative for s in spans)


def _severity(case: Case, part: str) -> str:
    """`high` for at least half of the shortfall."""
    for shortfall in case.shortfalls:
        span, total = part_of(shortfall, part), shortfall.total
        if span is None or not matters(shortfall, part):
            continue
        if total is None or 2 * span.value >= total.value:
            return "high"
    return "medium"


def _shortfall_message(case: Case, part: str) -> str:
    if part == "trajectory":
        against = [f"{s.own} against {s.theirs} on {case.reference}" for s in case.shortfalls]
        what = "even the best readout of its own frozen states falls short"
        close = "; one training run each, so the intervals leave out the seeds"
    else:
        against = [f"{case.readout} against {s.own}" for s in case.shortfalls]
        what = "on the same frozen states another readout does better"
        close = ""
    amounts = [
        f"{amount(s.metric, span)} ({pair})"
        for s, pair in zip(case.shortfalls, against, strict=True)
        if (span := part_of(s, part)) is not None
    ]
    return f"{what}: by {' and '.join(amounts)}{close}"


def no_shortfall(case: Case) -> str:
    """That no part of a shortfall matters, with the numbers."""
    amounts = [
        f"{amount(s.metric, s.total)} against {s.theirs} on {case.reference}"
        f" (trajectory {short(s.metric, s.trajectory)}, readout {short(s.metric, s.readout)})"
        for s in case.shortfalls
        if s.total is not None
    ]
    gate = f"the own gate of {case.store}"
    if none_matters(case):
        what = f"{gate} does not fall short by an amount that matters"
    else:
        what = f"no part of the shortfall of {gate} is clear of 0 and of an amount that matters"
    sizes = f"{_MATERIAL['depth@matched']:g} loops, {100 * _MATERIAL['area']:g} points"
    return f"{what} ({sizes}): {' and '.join(amounts)}"


def _by_shares(case: Case) -> tuple[str, str, str]:
    """Code, severity and message where there is nothing to compare with."""
    if case.excess.positive:
        code, severity = TRAJECTORY, "medium"
    elif case.excess.negative:
        code, severity = READOUT, "medium"
    else:
        code, severity = UNCLEAR, "info"
    if 1 - case.shares["ok"].value < 2 * _MATERIAL["area"]:
        severity = "info"
    return code, severity, attribution(case)


def attribution(case: Case) -> str:
    """Where the wrong exits of the readout under diagnosis come from."""
    trajectory, lost = (span.text(100, 1, "%") for span in (case.shares["trajectory"], case.lost))
    early, late = (f"{100 * case.shares[part].value:.1f}%" for part in ("early", "late"))
    return (
        f"with {case.readout} on {case.store}, {trajectory} of test examples are right at no loop "
        f"(trajectory) and {lost} are right at some loop but not at the exit (readout: {early} "
        f"left early, {late} late)"
    )


def amount(metric: str, span: Span | None) -> str:
    """A shortfall with its unit."""
    unit = (
        "loops at matched accuracy"
        if metric == "depth@matched"
        else "accuracy points, mean over budgets"
    )
    return f"{short(metric, span)} {unit}"


def short(metric: str, span: Span | None) -> str:
    """A shortfall in loops or accuracy points, without its unit."""
    if span is None:
        return "unknown"
    return span.text() if metric == "depth@matched" else span.text(100, 2)


def _number(value: float, digits: int) -> str:
    """Rounded, without a negative zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "\N{MINUS SIGN}")
