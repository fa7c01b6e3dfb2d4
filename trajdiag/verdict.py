"""The verdict of a diagnosis: three plain sentences at most."""

from collections.abc import Sequence

from trajdiag.findings import (
    Case,
    amount,
    attribution,
    compared,
    matters,
    no_shortfall,
    none_matters,
    part_of,
    short,
    shown,
)


def verdict(cases: Sequence[Case]) -> list[str]:
    """At most three sentences: whose the shortfalls are, which readout to use, what stays open."""
    caused = [case for case in cases if shown(case, "trajectory") or shown(case, "readout")]
    others = [case for case in cases if compared(case) and case not in caused]
    caused.sort(key=lambda case: not compared(case))
    clauses = [_cause(case) for case in caused]
    clauses += [no_shortfall(case) for case in others if none_matters(case)]
    unclear = [no_shortfall(case) for case in others if not none_matters(case)]
    if not clauses and not unclear:
        clauses = [attribution(case) for case in cases]
    sentences = [_joined(clauses), _joined([_use(case) for case in cases if not case.reference])]
    if unclear:
        sentences.append(_joined([f"the data cannot tell: {unclear[0]}", *unclear[1:]]))
    elif any(case.reference for case in cases):
        sentences.append(
            "Intervals are over test inputs, one training run a model: another seed may differ."
        )
    return [sentence for sentence in sentences if sentence]


def _cause(case: Case) -> str:
    parts = [part for part in ("trajectory", "readout") if shown(case, part)]
    telling = [s for s in case.shortfalls if any(matters(s, part) for part in parts)]
    shortfall = next((s for s in telling if s.metric == "depth@matched"), telling[0])
    metric, owner = shortfall.metric, " and ".join(f"the {part}'s" for part in parts)
    if shortfall.total is not None:
        return (
            f"the own gate of {case.store} falls short of {shortfall.theirs} on {case.reference} "
            f"by {amount(metric, shortfall.total)}, and that is {owner} (trajectory "
            f"{short(metric, shortfall.trajectory)}, readout {short(metric, shortfall.readout)})"
        )
    lost = amount(metric, part_of(shortfall, parts[0]))
    if parts == ["readout"]:
        pair = f"the own gate of {case.store} falls short of {shortfall.own} on the same states"
    else:
        pair = (
            f"the best readout of {case.store}, {shortfall.own}, falls short of "
            f"{shortfall.theirs} on {case.reference}"
        )
    return f"{pair} by {lost}, and that is {owner}"


def _use(case: Case) -> str:
    tied = _names(case.tied)
    return (
        f"use {case.best} on {case.store}: {case.accuracy.text(100, 1, '%')} right at "
        f"{case.depth.text()} of {case.loops} loops, against {100 * case.final:.1f}% at full depth"
        + (f" ({tied} cannot be told apart from it)" if tied else "")
    )


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
