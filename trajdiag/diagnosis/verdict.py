"""The verdict of a diagnosis, in plain sentences: a store's cause, what to use, what limits it."""

from collections.abc import Sequence

from trajdiag.diagnosis.causes import (
    MATERIAL,
    NOT_EXPOSED,
    NOTHING_FINDS,
    READOUT_BEHIND,
    TRAJECTORY_BOUND,
    Cause,
    amount,
    blamed,
    decides,
    independent,
    keeps_own_gate,
    matters,
    parts_of,
    short,
    undecided,
)
from trajdiag.diagnosis.evidence import LEAST_TOLD, Evidence
from trajdiag.diagnosis.regret import ACCURACY, INTEGRATED, LEARNABLE, MISFIT, TRAJECTORY, UNEXPOSED
from trajdiag.diagnosis.symptoms import collapsed, misordered, mistimed, no_better_than_fixed
from trajdiag.readout_registry import NATIVE
from trajdiag.spans import Span

_OWNERS = {
    TRAJECTORY_BOUND: "the trajectory's",
    READOUT_BEHIND: "the readout's",
    NOT_EXPOSED: "the readout's, which misses what a fitted rule finds",
    NOTHING_FINDS: "in what no rule finds in these states",
}
_NAMES = {
    TRAJECTORY: "trajectory",
    UNEXPOSED: "unexposed",
    LEARNABLE: "learnable",
    MISFIT: "misfit",
}


def verdict(stores: Sequence[Evidence]) -> list[str]:
    """Sentences: whose the shortfalls are, then which readout to use on each store, at most four
    and a count of the rest of each; then what stays open or limits them."""
    few = [e for e in stores if e.too_few]
    told = [e for e in stores if not (e.chance.only or e.too_few)]
    references = {e.reference for e in told}
    caused = [e for e in told if blamed(e)]
    caused.sort(key=lambda e: (e.store in references, not e.native, e.reference is None))
    # What a reference lacks itself is told only where it is all there is to tell.
    caused = [e for e in caused if e.store not in references] or caused
    clauses = [_too_few(e) for e in few]
    clauses += [_at_chance(e) for e in stores if e.chance.only and not e.too_few]
    clauses += [_cause(e) + _and_its_gate(e) for e in caused]
    quiet = [e for e in told if e not in caused and e.store not in references]
    settled = [e for e in quiet if not undecided(e)]
    clauses += [_nothing(e) + _and_its_gate(e) for e in settled]
    # what has no sentence of its own
    clauses += [
        f"the own gate of {e.store} {signs}"
        for e in told
        if e not in caused and e not in settled and (signs := _signs(e))
    ]
    limits: list[str] = []
    alone = [e.store for e in told if e.reference is None and e.store not in references]
    if alone and len(told) > 1:
        limits.append(_alone(alone))
    unclear = [e for e in quiet if undecided(e)]
    if unclear:
        limits.append("the data cannot tell: " + "; ".join(_first(list(map(_open, unclear)))))
    elif any(e.reference for e in told):
        limits.append(
            "intervals are over inputs, one training run a model: another seed may differ"
        )
        if unpaired := [e.store for e in told if e.reference and not e.paired]:
            limits.append(
                f"{_names(unpaired)} and the reference hold other examples, so that these are not "
                "paired"
            )
    sentences = [*_first(clauses), *_first([_use(e) for e in told]), *limits]
    return [f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences]


def _too_few(e: Evidence) -> str:
    return (
        f"of {e.store} nothing can be told: {independent(e.fewest, e.fewest_of)}, and intervals "
        f"over fewer than {LEAST_TOLD} are too narrow"
    )


def _at_chance(e: Evidence) -> str:
    return (
        f"the task is not learned by {e.store}, which is at chance: its oracle is no better with "
        f"all targets permuted (p {e.chance.p:.2f}), and nothing beats the commonest class "
        f"({100 * e.chance.majority:.1f}%)"
    )


def _cause(e: Evidence) -> str:
    """Whose a store's shortfall is, with every part that is not nought."""
    found = blamed(e)
    if e.reference is None and found[0].code == TRAJECTORY_BOUND:
        return _never_right(e, found)
    at = _telling(e, found)
    found = [c for c in found if any(p.at == at and matters(p) for p in parts_of(e, c.code))]
    against = f"hindsight on {e.reference}" if e.reference else "hindsight on its own states"
    whole, mostly = e.regret.get(at), f"mostly {_owners(found)} ({_split(e, at)})"
    if whole is not None and whole.value < 0:
        # on better states than the reference's
        return (
            f"{_who(e)} is ahead of {against} by {amount(e, at, whole.negated)}, and what it "
            f"leaves is {mostly}"
        )
    return f"{_who(e)} falls short of {against} by {amount(e, at, whole)}, and that is {mostly}"


def _and_its_gate(e: Evidence) -> str:
    signs = _signs(e)
    return f"; its gate {signs}" if signs else ""


def _signs(e: Evidence) -> str:
    """What the findings of medium severity say of the model's own gate, in few words."""
    if not e.native:
        return ""
    said = []
    if collapsed(e):
        said.append(f"sends nearly everything to loop {e.modal_depth}")
    if no_better_than_fixed(e):
        said.append("is no better than a fixed depth")
    if misordered(e):
        said.append("lets harder inputs leave earlier")
    way = mistimed(e)
    if way is not None and e.trained is not None:
        loops = abs(e.trained.deeper.value)
        said.append(f"leaves {loops:.2f} loops too {way} at an exit probability of 1/2")
    return _names(said, most=len(said))


def _alone(stores: Sequence[str]) -> str:
    return (
        f"having no examples in common with the rest, {_names(stores)} "
        + ("are weighed on their own states" if len(stores) > 1 else "is weighed on its own states")
        + " (--reference compares stores of one task all the same)"
    )


def _who(e: Evidence) -> str:
    return f"the own gate of {e.store}" if e.native else f"reading {e.store} with {e.readout}"


def _owners(found: Sequence[Cause]) -> str:
    """The largest first; what a readout leaves is named once."""
    codes = [cause.code for cause in found]
    if READOUT_BEHIND in codes:
        codes = [code for code in codes if code != NOT_EXPOSED]
    return ", then ".join(_OWNERS[code] for code in codes)


def _never_right(e: Evidence, found: Sequence[Cause]) -> str:
    rest = _owners(found[1:])
    return (
        f"with {e.readout} on {e.store}, {e.shares['trajectory'].text(100, 1, '%')} of test "
        f"examples are right at no loop, and that is the trajectory's; {e.lost.text(100, 1, '%')} "
        "are right at some loop but not at the exit" + (f", and that is {rest}" if rest else "")
    )


def _telling(e: Evidence, found: Sequence[Cause]) -> str:
    """The unit to speak in: the one in which most causes matter; of equals loops, which compare
    models of any accuracy, where there is a reference, else accuracy."""
    units = [ACCURACY, INTEGRATED] if e.reference else [INTEGRATED, ACCURACY]
    telling = {
        at: sum(any(p.at == at and matters(p) for p in parts_of(e, c.code)) for c in found)
        for at in units
        if at in e.regret
    }
    return max(units, key=lambda at: telling[at])


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
    span = e.regret.get(INTEGRATED)
    if span is not None and abs(span.value) < 5e-5:
        return f"{_who(e)} is level with hindsight"
    close = f": {amount(e, INTEGRATED, span)} behind hindsight" if span else ""
    against = _who(e) if e.native else f"{e.readout} on {e.store}"
    return f"nothing that matters stands against {against}{close}"


def _open(e: Evidence) -> str:
    name, part, needed = undecided(e)[0]
    return (
        f"whether {_NAMES.get(name, 'what the readout leaves')} is a cause on {e.store} "
        f"({amount(e, part.at, part.span)}; {decides(needed)})"
    )


def _use(e: Evidence) -> str:
    at = f"{e.accuracy.text(100, 1, '%')} right at {e.depth.text()} of {e.loops} loops"
    full = f"{100 * e.final:.1f}% at full depth"
    if e.own is None:
        said = f"use {e.best}: {at}, against {full}"
    elif e.best == NATIVE:
        said = f"{_keep(e)}: {at}, against {full}"
    else:
        ahead = f", {e.gain.text(100, 2)} points ahead over all budgets" if e.gain else ""
        depth, accuracy = e.own
        said = (
            f"use {e.best} instead of its own gate{ahead}: {at}, against the gate's "
            f"{100 * accuracy:.1f}% at {depth:.2f} and {full}"
        )
    if e.tied:
        said += f" ({_names(e.tied)} cannot be told apart from it)"
    if e.bound is not None and _clear(e.bound):
        said += f"; the learned bound is {e.bound.text(100, 2)} points further"
    return f"on {e.store} {said}"


def _keep(e: Evidence) -> str:
    """What to do where no scored readout is clearly better than the model's own gate."""
    if no_better_than_fixed(e):
        return "run a fixed depth, or keep its own gate"
    if keeps_own_gate(e):
        return "keep its own gate"
    return "no scored readout is clearly better than its own gate"


def _clear(span: Span) -> bool:
    return span.positive and span.value >= MATERIAL[INTEGRATED]


def _names(names: Sequence[str], most: int = 3) -> str:
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return " and ".join(", ".join(shown).rsplit(", ", 1))


def _first(clauses: list[str], most: int = 4) -> list[str]:
    """The first of them, and how many more there are."""
    rest = [f"{len(clauses) - most} more are in the findings"] if len(clauses) > most else []
    return [*clauses[:most], *rest]
