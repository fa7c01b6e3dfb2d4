"""What the numbers of a store allow to be said of it, with advice."""

import dataclasses
import shlex
from collections.abc import Callable, Mapping

from trajdiag.diagnosis.causes import (
    CAUSES,
    LIMIT,
    MEDIUM,
    NOT_EXPOSED,
    NOTHING_FINDS,
    READOUT_BEHIND,
    TRAJECTORY_BOUND,
    Cause,
    amount,
    causes,
    decides,
    independent,
    keeps_own_gate,
    matters,
    parts_of,
    short,
    undecided,
)
from trajdiag.diagnosis.evidence import LEAST_TOLD, Evidence
from trajdiag.diagnosis.regret import LEARNABLE, MISFIT
from trajdiag.diagnosis.symptoms import finding_of, released, symptoms
from trajdiag.results import Finding

_KEEP = "Keep its own gate: this is a small part of what it loses."
NO_CAUSE, TOO_FEW, CHANCE = "no-clear-cause", "too-few-examples", "chance"


def find(evidence: Evidence) -> list[Finding]:
    """The findings about a store, at least one; where it is at chance, or hardly tested, nothing
    else is blamed."""
    if evidence.too_few:
        return [_too_few(evidence), *released(evidence)]
    if evidence.chance.only:
        return [_chance(evidence), *released(evidence)]
    found = [_CAUSES[cause.code](evidence, cause) for cause in causes(evidence)]
    found += symptoms(evidence)
    if not any(f.severity in ("high", "medium") for f in found):
        found.append(_unclear(evidence))
    return found + released(evidence)


def _trajectory_bound(e: Evidence, cause: Cause) -> Finding:
    if e.reference is None:
        never, lost = (span.text(100, 1, "%") for span in (e.shares["trajectory"], e.lost))
        message = (
            f"{never} of test examples are right at no loop, so no readout could save them"
            f"{_where_never(e)}; "
            f"{lost} are right at some loop but not where {e.readout} leaves"
        )
        numbers = e.shares["trajectory"].numbers("never_right") | e.lost.numbers("lost")
        numbers |= {f"never_right@difficulty={at}": share for at, share in e.never_at.items()}
    else:
        message = (
            f"the oracle of {e.reference} is ahead of this trajectory's own, luck taken off, by "
            f"{_amounts(e, TRAJECTORY_BOUND)}{_unpaired(e)}; one training run each, so the "
            "intervals leave out the seeds"
        )
        numbers = _numbers(e, TRAJECTORY_BOUND)
    advice = "No readout recovers this: train the states otherwise" + (
        " (another prior, less pressure on the gate)." if e.native else "."
    )
    return finding_of(e, cause.code, cause.severity, message, advice, numbers)


def _where_never(e: Evidence) -> str:
    """The levels of difficulty at which nearly all examples are that no loop has right."""
    if not e.never_at:
        return ""
    most = "nearly all" if e.never_there >= 0.95 else "most"
    names = " and ".join(", ".join(e.never_at).rsplit(", ", 1))
    shares = " and ".join(
        ", ".join(f"{100 * share:.0f}%" for share in e.never_at.values()).rsplit(", ", 1)
    )
    return f", {most} of them of difficulty {names} ({shares} there)"


def _readout_behind(e: Evidence, cause: Cause) -> Finding:
    message = (
        f"{e.readout} leaves {_amounts(e, READOUT_BEHIND)} on the table that a causal rule on "
        f"the same frozen states reaches ({_inner(e)})"
    )
    advice = (
        f"Keep the model and read it with {e.best} instead."
        if e.best != e.readout
        else _fit(e, cause, " on the same states.")
    )
    return finding_of(e, cause.code, cause.severity, message, advice, _numbers(e, READOUT_BEHIND))


def _not_exposed(e: Evidence, cause: Cause) -> Finding:
    message = (
        f"a learned rule reads {_amounts(e, NOT_EXPOSED)} out of the frozen states that the best "
        f"simple signal, {e.simple}, does not show"
    )
    advice = (
        f"Read the states with {e.best}, which is fitted on them."
        if e.fitted
        else _fit(e, cause, ", or --kind mlp; score takes it up by itself.")
    )
    return finding_of(e, cause.code, cause.severity, message, advice, _numbers(e, NOT_EXPOSED))


def _nothing_finds(e: Evidence, cause: Cause) -> Finding:
    message = (
        f"hindsight, luck taken off, is ahead of every rule that could be learned by "
        f"{_amounts(e, NOTHING_FINDS)}: the states do not show it in time"
    )
    advice = (
        "No readout's fault; more fit examples, or states trained otherwise, may show some of it."
    )
    return finding_of(e, cause.code, cause.severity, message, advice, _numbers(e, NOTHING_FINDS))


_CAUSES: Mapping[str, Callable[[Evidence, Cause], Finding]] = {
    TRAJECTORY_BOUND: _trajectory_bound,
    READOUT_BEHIND: _readout_behind,
    NOT_EXPOSED: _not_exposed,
    NOTHING_FINDS: _nothing_finds,
}


def _fit(e: Evidence, cause: Cause, rest: str) -> str:
    """To fit a gate, unless that is against the verdict, which keeps the model's own."""
    if cause.severity == "info" and keeps_own_gate(e):
        return _KEEP
    command = f"trajdiag fit-gate {shlex.quote(e.store)} --kind boosted --objective utility"
    return f"Fit a gate: `{command} --utility any-later`{rest}"


def _chance(e: Evidence) -> Finding:
    c = e.chance
    message = (
        f"with all targets permuted the oracle is as good (p {c.p:.2f}), and no loop or readout "
        f"beats the commonest class ({100 * c.majority:.1f}%; the best has {100 * c.best:.1f}%)"
    )
    found = finding_of(
        e,
        CHANCE,
        "high",
        message,
        "The task is not learned, so there is no depth to adapt: check task and prompt.",
        {"p": c.p, "majority": c.majority, "best": c.best},
    )
    return dataclasses.replace(found, readout=None)


def _too_few(e: Evidence) -> Finding:
    message = (
        f"nothing is told of {independent(e.fewest, e.fewest_of)}: intervals over fewer than "
        f"{LEAST_TOLD} are too narrow"
    )
    advice = "Extract more examples; those of one group count once."
    return finding_of(e, TOO_FEW, "info", message, advice, {"n": float(e.fewest)})


def _unclear(e: Evidence) -> Finding:
    """Nothing is shown: because nothing matters, or because the data cannot tell."""
    open_parts = undecided(e)
    if not open_parts:
        message = (
            f"nothing is blamed for what {e.readout} is behind hindsight, {_regret(e)}: no part is "
            f"both clear and large ({100 * MEDIUM:.0f}% of the whole; of what nothing finds, half "
            f"of it and {100 * LIMIT:.0f} points)"
        )
        return finding_of(
            e, NO_CAUSE, "info", message, "No single thing to mend.", _regret_numbers(e)
        )
    name, part, needed = open_parts[0]
    message = (
        f"the data cannot tell whether {name} is there: {amount(e, part.at, part.span)} with "
        f"{independent(e.n)}; {decides(needed)}"
    )
    return finding_of(
        e, TOO_FEW, "info", message, "Extract more test examples.", part.span.numbers(name)
    )


def _regret(e: Evidence) -> str:
    return (
        " and ".join(amount(e, at, span) for at, span in e.regret.items()) or "no bound was fitted"
    )


def _regret_numbers(e: Evidence) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for at, span in e.regret.items():
        found |= span.numbers(f"regret_{at}")
    return found


def _amounts(e: Evidence, code: str) -> str:
    """The part in the units in which it matters."""
    return " and ".join(amount(e, p.at, p.span) for p in parts_of(e, code) if matters(p))


def _inner(e: Evidence) -> str:
    """What a simple signal finds of it, and what only a learned rule does."""
    at = next(part.at for part in parts_of(e, READOUT_BEHIND) if matters(part))
    found = [
        f"{words} {short(part.at, part.span)}"
        for name, words in ((MISFIT, "a simple signal finds"), (LEARNABLE, "only a learned one"))
        for part in e.parts.get(name, ())
        if part.at == at
    ]
    return ", ".join(found)


def _numbers(e: Evidence, code: str) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for part in parts_of(e, code):
        found |= part.span.numbers(f"{CAUSES[code]}_{part.at}")
    return found


def _unpaired(e: Evidence) -> str:
    return "" if e.paired else " (unpaired: it holds other examples)"
