"""What the numbers allow to be said: findings, and a verdict of three sentences at most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trajdiag.results import Finding

TRAJECTORY, READOUT, UNCLEAR = "trajectory-bound", "readout-misfit", "no-clear-cause"

_MATERIAL = {"area": 0.005, "depth@matched": 0.1}
"""Shortfalls below these, half a point and a tenth of a loop, are no cause for concern."""


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
        if _shown(case, part)
    ]
    if found:
        return found
    if any(shortfall.total is not None for shortfall in case.shortfalls):
        code, severity, message = UNCLEAR, "info", _no_shortfall(case)
    else:
        code, severity, message = _by_shares(case)
    return [
        Finding(
            code=code, store=case.store, readout=case.readout, severity=severity, message=message
        )
    ]


def verdict(cases: Sequence[Case]) -> list[str]:
    """At most three sentences: whose the shortfalls are, which readout to use, what stays open."""
    caused = [case for case in cases if _shown(case, "trajectory") or _shown(case, "readout")]
    compared = [case for case in cases if any(s.total is not None for s in case.shortfalls)]
    open_ = [case for case in compared if case not in caused]
    if caused:
        first = _joined([_cause(case) for case in caused])
    elif compared:
        first = ""
    else:
        first = _joined([_attribution(case) for case in cases])
    second = _joined([_use(case) for case in cases if case.reference is None])
    if open_:
        third = _joined(
            ["The data cannot tell: " + _no_shortfall(open_[0])]
            + [_no_shortfall(case) for case in open_[1:]]
        )
    elif any(case.reference is not None for case in cases):
        third = "Intervals are over test inputs, one training run a model: another seed may differ."
    else:
        third = ""
    return [sentence for sentence in (first, second, third) if sentence]


def _part(shortfall: Shortfall, part: str) -> Span | None:
    return shortfall.trajectory if part == "trajectory" else shortfall.readout


def _shown(case: Case, part: str) -> bool:
    """Whether a part of the shortfall is there in some metric, and contradicted by none."""
    spans = [span for s in case.shortfalls if (span := _part(s, part)) is not None]
    return any(span.positive for span in spans) and not any(span.negative for span in spans)


def _severity(case: Case, part: str) -> str:
    worst = "info"
    for shortfall in case.shortfalls:
        span = _part(shortfall, part)
        if span is None or not span.positive or span.value < _MATERIAL[shortfall.metric]:
            continue
        total = shortfall.total
        if total is None or 2 * span.value >= total.value:
            return "high"
        worst = "medium"
    return worst


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
        f"{_amount(s.metric, span)} ({pair})"
        for s, pair in zip(case.shortfalls, against, strict=True)
        if (span := _part(s, part)) is not None
    ]
    return f"{what}: by {' and '.join(amounts)}{close}"


def _no_shortfall(case: Case) -> str:
    amounts = [
        f"{_amount(s.metric, s.total)} against {s.theirs} on {case.reference}"
        f" (trajectory {_short(s.metric, s.trajectory)}, readout {_short(s.metric, s.readout)})"
        for s in case.shortfalls
        if s.total is not None
    ]
    listed = " and ".join(amounts)
    return f"no part of the shortfall of the own gate of {case.store} is clear of 0: {listed}"


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
    return code, severity, _attribution(case)


def _attribution(case: Case) -> str:
    trajectory, lost = (span.text(100, 1, "%") for span in (case.shares["trajectory"], case.lost))
    early, late = (f"{100 * case.shares[part].value:.1f}%" for part in ("early", "late"))
    return (
        f"with {case.readout} on {case.store}, {trajectory} of test examples are right at no loop "
        f"(trajectory) and {lost} are right at some loop but not at the exit (readout: {early} "
        f"left early, {late} late)"
    )


def _cause(case: Case) -> str:
    parts = [part for part in ("trajectory", "readout") if _shown(case, part)]
    shortfall = max(
        (s for s in case.shortfalls if any(_positive(s, part) for part in parts)),
        key=lambda s: max(_weight(s, part) for part in parts),
    )
    owner = " and ".join(f"the {part}'s" for part in parts)
    if shortfall.total is not None:
        against = f"{shortfall.theirs} on {case.reference}"
        return (
            f"the own gate of {case.store} falls short of {against} by "
            f"{_amount(shortfall.metric, shortfall.total)}, and that is {owner}: trajectory "
            f"{_short(shortfall.metric, shortfall.trajectory)}, readout "
            f"{_short(shortfall.metric, shortfall.readout)}"
        )
    span = _part(shortfall, parts[0])
    amount = _amount(shortfall.metric, span)
    if parts == ["readout"]:
        pair = f"the own gate of {case.store} falls short of {shortfall.own} on the same states"
    else:
        pair = (
            f"{shortfall.own}, the best readout of {case.store}, falls short of "
            f"{shortfall.theirs} on {case.reference}"
        )
    return f"{pair} by {amount}, and that is {owner}"


def _weight(shortfall: Shortfall, part: str) -> float:
    """A part's size in units of what is material in its metric, so that metrics can be weighed."""
    span = _part(shortfall, part)
    return 0.0 if span is None else span.value / _MATERIAL[shortfall.metric]


def _positive(shortfall: Shortfall, part: str) -> bool:
    span = _part(shortfall, part)
    return span is not None and span.positive


def _use(case: Case) -> str:
    tied = _names(case.tied)
    return (
        f"use {case.best} on {case.store}: {case.accuracy.text(100, 1, '%')} right at "
        f"{case.depth.text()} of {case.loops} loops, against {100 * case.final:.1f}% at full depth"
        + (f" ({tied} cannot be told apart from it)" if tied else "")
    )


def _amount(metric: str, span: Span | None) -> str:
    """A shortfall with its unit."""
    unit = (
        "loops at matched accuracy"
        if metric == "depth@matched"
        else "accuracy points, mean over budgets"
    )
    return f"{_short(metric, span)} {unit}"


def _short(metric: str, span: Span | None) -> str:
    if span is None:
        return "unknown"
    return span.text() if metric == "depth@matched" else span.text(100, 2)


def _names(names: Sequence[str], most: int = 3) -> str:
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return " and ".join(", ".join(shown).rsplit(", ", 1))


def _joined(clauses: Sequence[str], most: int = 4) -> str:
    """Clauses as one sentence."""
    if not clauses:
        return ""
    rest = [f"{len(clauses) - most} more are in the findings"] if len(clauses) > most else []
    text = "; ".join([*clauses[:most], *rest])
    return f"{text[0].upper()}{text[1:]}."


def _number(value: float, digits: int) -> str:
    """Rounded, without a negative zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "\N{MINUS SIGN}")
