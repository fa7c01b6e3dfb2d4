"""The verdict of a diagnosis: three plain sentences at most."""

from collections.abc import Sequence

from trajdiag.diagnosis.causes import (
    MATERIAL,
    NOT_EXPOSED,
    NOTHING_FINDS,
    READOUT_MISFIT,
    TRAJECTORY_BOUND,
    Cause,
    amount,
    blamed,
    matters,
    parts_of,
    short,
    undecided,
)
from trajdiag.diagnosis.evidence import Evidence
from trajdiag.diagnosis.regret import ACCURACY, INTEGRATED, LEARNABLE, MISFIT, TRAJECTORY, UNEXPOSED
from trajdiag.spans import Span

_OWNERS = {
    TRAJECTORY_BOUND: "the trajectory's",
    READOUT_MISFIT: "the readout's",
    NOT_EXPOSED: "the readout's, where only a learned rule does better",
    NOTHING_FINDS: "no readout's, since nothing in these states finds it",
}
_NAMES = {
    TRAJECTORY: "trajectory",
    UNEXPOSED: "unexposed",
    LEARNABLE: "learnable",
    MISFIT: "misfit",
}


def verdict(stores: Sequence[Evidence]) -> list[str]:
    """At most three sentences: whose the shortfalls are, which readout to use, what stays open."""
    told = [e for e in stores if not e.chance.only]
    references = {e.reference for e in told}
    caused = [e for e in told if blamed(e)]
    caused.sort(key=lambda e: (e.store in references, not e.native, e.reference is None))
    # What a reference lacks itself is told only where it is all there is to tell.
    caused = [e for e in caused if e.store not in references] or caused
    clauses = [_at_chance(e) for e in stores if e.chance.only] + [_cause(e) for e in caused]
    quiet = [e for e in told if e not in caused and e.store not in references]
    clauses += [_nothing(e) for e in quiet if not undecided(e)]
    sentences = [_joined(clauses), _joined([_use(e) for e in told])]
    unclear = [e for e in quiet if undecided(e)]
    if unclear:
        sentences.append(
            _joined([f"the data cannot tell: {_open(unclear[0])}", *map(_open, unclear[1:])])
        )
    elif any(e.reference for e in told):
        sentences.append(
            "Intervals are over inputs, one training run a model: another seed may differ."
        )
    return [sentence for sentence in sentences if sentence]


def _at_chance(e: Evidence) -> str:
    return (
        f"{e.store} is at chance: its oracle is no better with all targets permuted "
        f"(p {e.chance.p:.2f}), and nothing beats the commonest class "
        f"({100 * e.chance.majority:.1f}%)"
    )


def _cause(e: Evidence) -> str:
    """Whose a store's shortfall is, with every part that is not nought."""
    found = blamed(e)
    if e.reference is None and found[0].code == TRAJECTORY_BOUND:
        return _never_right(e, found)
    at = _telling(e, found)
    owners = " and ".join(_OWNERS[cause.code] for cause in found)
    against = f"hindsight on {e.reference}" if e.reference else "hindsight on its own states"
    who = f"the own gate of {e.store}" if e.native else f"{e.readout} on {e.store}"
    return (
        f"{who} falls short of {against} by {amount(at, e.regret.get(at))}, and that is mostly "
        f"{owners} ({_split(e, at)})"
    )


def _never_right(e: Evidence, found: Sequence[Cause]) -> str:
    rest = [_OWNERS[cause.code] for cause in found[1:]]
    return (
        f"with {e.readout} on {e.store}, {e.shares['trajectory'].text(100, 1, '%')} of test "
        f"examples are right at no loop, and that is the trajectory's; {e.lost.text(100, 1, '%')} "
        "are right at some loop but not at the exit"
        + (f", and that is {' and '.join(rest)}" if rest else "")
    )


def _telling(e: Evidence, found: Sequence[Cause]) -> str:
    """The unit to speak in: loops where the first cause matters there, else accuracy."""
    units = [part.at for part in parts_of(e, found[0].code) if matters(part)]
    return ACCURACY if e.reference and ACCURACY in units and ACCURACY in e.regret else INTEGRATED


def _split(e: Evidence, at: str) -> str:
    """The parts of the regret in one unit, those that would print as nought left out."""
    said = []
    for name, label in _NAMES.items():
        for part in e.parts.get(name, ()):
            nought = part.span.value * (1 if at == ACCURACY else 100)
            if part.at == at and abs(nought) >= 0.005:
                said.append(f"{label} {short(at, part.span)}")
    return ", ".join(said)


def _nothing(e: Evidence) -> str:
    who = f"the own gate of {e.store}" if e.native else f"{e.readout} on {e.store}"
    span = e.regret.get(INTEGRATED)
    close = f": {amount(INTEGRATED, span)} behind hindsight" if span else ""
    return f"nothing that matters stands against {who}{close}"


def _open(e: Evidence) -> str:
    name, part, needed = undecided(e)[0]
    return (
        f"whether {_NAMES.get(name, 'what the readout leaves')} is a cause on {e.store} "
        f"({amount(part.at, part.span)}; about {needed:,} test inputs would decide)"
    )


def _use(e: Evidence) -> str:
    tied = _names([name for name in e.tied if name != "native"])
    instead = " instead of its own gate" if e.native and e.best != "native" else ""
    behind = e.bound
    learned = (
        f", where the learned bound is {behind.text(100, 2)} points over all budgets ahead"
        if behind is not None and _clear(behind)
        else ""
    )
    use = "keep its own gate" if e.best == "native" else f"use {e.best}{instead}"
    return (
        f"on {e.store} {use}: {e.accuracy.text(100, 1, '%')} right at {e.depth.text()} of "
        f"{e.loops} loops, against {100 * e.final:.1f}% at full depth"
        + (f" ({tied} cannot be told apart from it)" if tied else "")
        + learned
    )


def _clear(span: Span) -> bool:
    return span.positive and span.value >= MATERIAL[INTEGRATED]


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
