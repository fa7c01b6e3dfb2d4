"""What the paper claims, and whether the study's numbers say so: the words follow from intervals.

A claim sets two numbers of the study against each other. Where both are reached and their intervals
do not touch, the study agrees or disagrees; where they touch, or a finding holds in some seeds
only, it cannot tell.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from studies.ledger import Ledger, Number, table
from studies.paper import GEOMETRIC, ORDERING, UNIFORM
from studies.tables import best_signal

AGREES, DISAGREES, OPEN, NOTHING = "agrees", "disagrees", "cannot tell", "no numbers"
VERDICTS = (AGREES, DISAGREES, OPEN, NOTHING)
Place = tuple[str | None, str, str]
"""Setting, readout and metric of a number."""
MARGIN = 0.01
"""Areas that differ by less than this are as good as the same."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """A claim of the paper, the numbers that weigh it, and the word for it."""

    claim: str
    numbers: str
    verdict: str


def compared(less: Number | None, more: Number | None) -> str:
    """Whether the first number is below the second, as was claimed."""
    if less is None or more is None or less.ends is None or more.ends is None:
        return NOTHING
    (low, high), (other_low, other_high) = less.ends, more.ends
    if math.isinf(low) and math.isinf(other_low):
        return NOTHING
    if high < other_low:
        return AGREES
    return DISAGREES if other_high < low else OPEN


def close(difference: Number | None, margin: float = MARGIN) -> str:
    """Whether a difference that is claimed to be none stays within the margin in every seed, or
    beyond it, on one side, in every seed."""
    if difference is None or difference.ends is None:
        return NOTHING
    low, high = difference.ends
    if -margin <= low and high <= margin:
        return AGREES
    return DISAGREES if low > margin or high < -margin else OPEN


def counted(found: int, n: int) -> str:
    """Of a finding that was claimed: in all seeds, in none, or in some."""
    if n == 0:
        return NOTHING
    return AGREES if found == n else DISAGREES if found == 0 else OPEN


def weigh(ledger: Ledger) -> list[Told]:
    """All claims."""
    return [
        *_of_depth(ledger),
        *_of_joint(ledger),
        *_of_ordering(ledger),
        *_of_states(ledger),
        *_of_frozen(ledger),
        *_of_parity(ledger),
    ]


def claims_table(told: Sequence[Told]) -> str:
    """A line a claim."""
    return table(
        ("the paper says", "here", "the study"),
        [(each.claim, each.numbers, f"**{each.verdict}**") for each in told],
    )


def _below(ledger: Ledger, claim: str, first: Place, second: Place) -> Told:
    """That the number named first is below the second."""
    verdict = compared(ledger.number(*first), ledger.number(*second))
    return _against(ledger, claim, first, second, verdict)


def _above(ledger: Ledger, claim: str, first: Place, second: Place) -> Told:
    """That the number named first is above the second."""
    verdict = compared(ledger.number(*second), ledger.number(*first))
    return _against(ledger, claim, first, second, verdict)


def _against(ledger: Ledger, claim: str, first: Place, second: Place, verdict: str) -> Told:
    numbers = f"{ledger.text(*first)} against {ledger.text(*second)}"
    return _weighed(ledger, claim, numbers, verdict, first[0], second[0])


def _weighed(ledger: Ledger, claim: str, numbers: str, verdict: str, *keys: str | None) -> Told:
    """Models that have not learned their task say nothing."""
    if any(key is not None and ledger.finding("chance", key) for key in keys):
        return Told(claim=claim, numbers=f"{numbers}; not learned", verdict=NOTHING)
    return Told(claim=claim, numbers=numbers, verdict=verdict)


def _of_depth(ledger: Ledger) -> list[Told]:
    uniform, geometric = f"mano/{UNIFORM}", f"mano/{GEOMETRIC}"
    signal, other = best_signal(ledger, uniform) or "", best_signal(ledger, geometric) or ""
    found = []
    for target in (95, 98):
        at = f"depth@{target}"
        found.append(
            _below(
                ledger,
                f"fixed uniform: confidence needs fewer loops to {target}% than a fixed depth",
                (uniform, signal, at),
                (uniform, "fixed", at),
            )
        )
    found.append(
        _below(
            ledger,
            "confidence needs fewer loops to 95% on fixed geometric 0.3 than on fixed uniform",
            (geometric, other, "depth@95"),
            (uniform, signal, "depth@95"),
        )
    )
    return found


def _of_joint(ledger: Ledger) -> list[Told]:
    found = []
    for prior, fixed in (("uniform", UNIFORM), ("geometric", GEOMETRIC)):
        key = f"mano/{fixed}"
        signal = best_signal(ledger, key) or ""
        for gate, name in (("linear", "linear"), ("mlp", "MLP")):
            own = ledger.best_beta("mano", gate, prior)
            what = f"the {name} gate trained jointly ({prior})"
            found.append(
                _above(
                    ledger,
                    f"{what} needs more loops to 95% than confidence on the fixed prior",
                    (own, "native", "depth@95"),
                    (key, signal, "depth@95"),
                )
            )
            found.append(
                _below(
                    ledger,
                    f"{what} has the smaller area than confidence on the fixed prior",
                    (own, "native", "area"),
                    (key, signal, "area"),
                )
            )
    return found


def _of_ordering(ledger: Ledger) -> list[Told]:
    found = []
    for training in ORDERING:
        key = f"mano/{training}"
        found.append(
            _above(
                ledger,
                f"{ledger.label(key)}: entropy orders inputs by difficulty better than hidden "
                "displacement"
                if key in ledger.study["settings"]
                else training,
                (key, "entropy", "ordering"),
                (key, "hidden_displacement", "ordering"),
            )
        )
    return found


def _of_states(ledger: Ledger) -> list[Told]:
    found = []
    last = f"accuracy@loop={ledger.loops('mano')}"
    for lam in (0.5, 0.7):
        found.append(
            _below(
                ledger,
                f"fixed geometric {lam:g}: later states are worse than with 0.3 (last loop, %)",
                (f"mano/fixed-geometric-{lam:g}", "fixed", last),
                (f"mano/{GEOMETRIC}", "fixed", last),
            )
        )
    for gate, name in (("linear", "linear"), ("mlp", "MLP")):
        key = ledger.largest_beta("mano", gate, "uniform")
        if key is None:
            continue
        n, times = ledger.study["settings"][key]["finished"], ledger.finding("gate-collapsed", key)
        beta = ledger.study["settings"][key]["beta"]
        found.append(
            _weighed(
                ledger,
                f"{name} gate, uniform, largest beta ({beta:g}): it collapses to one depth",
                f"found in {times}/{n} seeds; at the commonest loop "
                f"{ledger.text(key, 'native', 'commonest-exit')}%",
                counted(times, n),
                key,
            )
        )
    return found


def _of_frozen(ledger: Ledger) -> list[Told]:
    found = []
    for gate, name in (("linear", "linear"), ("mlp", "MLP")):
        for prior, fixed in (("uniform", UNIFORM), ("geometric", GEOMETRIC)):
            own, fresh = f"mano/{gate}-{prior}-b0.1", f"{gate}-ponder"
            found.append(
                _above(
                    ledger,
                    f"a fresh {name} gate does better on the frozen fixed {prior} trajectory than "
                    "the gate trained along does on its own (area, %)",
                    (f"mano/{fixed}", fresh, "area"),
                    (own, "native", "area"),
                )
            )
            found.append(
                _weighed(
                    ledger,
                    f"on the frozen joint trajectory ({name}, {prior}) a fresh gate only tracks "
                    f"the native one: in every seed within {100 * MARGIN:g} point of area",
                    f"fresh less native {ledger.text(own, fresh, 'area/less-native', 2)}",
                    close(ledger.number(own, fresh, "area/less-native")),
                    own,
                )
            )
    for gate in ("linear", "mlp"):
        key = f"mano/{UNIFORM}"
        found.append(
            _above(
                ledger,
                f"PonderNet's objective beats marginal utility ({gate}, frozen fixed uniform, "
                "area, %)",
                (key, f"{gate}-ponder", "area"),
                (key, f"{gate}-next", "area"),
            )
        )
    return found


def _of_parity(ledger: Ledger) -> list[Told]:
    base = ("parity/fixed-uniform", "top1", "depth@final")
    return [
        _above(
            ledger,
            f"parity: the {name} gate trained jointly (uniform) needs more loops than top-1 "
            "confidence on fixed uniform",
            (f"parity/{gate}-uniform-b0.1", "native", "depth@final"),
            base,
        )
        for gate, name in (("linear", "linear"), ("mlp", "MLP"))
    ]
