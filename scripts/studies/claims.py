"""What the paper claims, and whether the study's numbers say so: the words follow from tests.

A claim sets two numbers of the study against each other, seed by seed. Below 5%, by Holm's
correction over all claims, the study agrees or disagrees; else, or where a seed misses a target, or
a finding holds in some seeds only, it cannot tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from studies.ledger import Ledger, Number, table
from studies.paper import GEOMETRIC, ORDERING, UNIFORM
from studies.seed_tests import difference_p, within_p
from studies.tables import best_signal

from trajdiag.metrics.significance import holm
from trajdiag.reporting.numerals import MISSING, p_value

AGREES, DISAGREES, OPEN, NOTHING = "agrees", "disagrees", "cannot tell", "no numbers"
VERDICTS = (AGREES, DISAGREES, OPEN, NOTHING)
Place = tuple[str | None, str, str]
"""Setting, readout and metric of a number."""
MARGIN = 0.01
"""Areas that differ by less than this are as good as the same."""
LEVEL = 0.05
"""Of p, below which a claim is decided."""


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """What speaks for a claim or against it: a p value, or a word where nothing is tested."""

    p: float | None = None
    as_claimed: bool = True
    """Whether the numbers lie as was claimed, if they can be told apart at all."""
    word: str | None = None


@dataclass(frozen=True, kw_only=True)
class Told:
    """A claim of the paper, the numbers that weigh it, and the word for it."""

    claim: str
    numbers: str
    weighed: Weighed
    p: float | None = None
    """After Holm's correction over all claims."""

    @property
    def verdict(self) -> str:
        if self.weighed.word is not None:
            return self.weighed.word
        if self.p is None or self.p >= LEVEL:
            return OPEN
        return AGREES if self.weighed.as_claimed else DISAGREES


def compared(less: Number | None, more: Number | None, *, paired: bool) -> Weighed:
    """Whether the first number is below the second, as was claimed; `paired`: they are of the same
    models."""
    if less is None or more is None or not (less.reached or more.reached):
        return Weighed(word=NOTHING)
    first, second = known(less), known(more)
    if first is None or second is None:
        return Weighed(word=OPEN)
    p = difference_p(first, second, paired=paired)
    return Weighed(p=p, as_claimed=sum(first) / len(first) < sum(second) / len(second))


def close(difference: Number | None, margin: float = MARGIN) -> Weighed:
    """Whether a difference that is claimed to be none stays within the margin."""
    if difference is None or not difference.reached:
        return Weighed(word=NOTHING)
    seeds = known(difference)
    if seeds is None:
        return Weighed(word=OPEN)
    p, within = within_p(seeds, margin)
    return Weighed(p=p, as_claimed=within)


def known(number: Number) -> list[float] | None:
    """What the seeds have; None where one of them has nothing, or there is but one."""
    seeds = [seed for seed in number.seeds if seed is not None]
    return seeds if number.n == len(seeds) > 1 else None


def counted(found: int, n: int) -> Weighed:
    """Of a finding that was claimed: in all seeds, in none, or in some."""
    if n == 0:
        return Weighed(word=NOTHING)
    return Weighed(word=AGREES if found == n else DISAGREES if found == 0 else OPEN)


def weigh(ledger: Ledger) -> list[Told]:
    """All claims."""
    told = [
        *_of_depth(ledger),
        *_of_joint(ledger),
        *_of_ordering(ledger),
        *_of_states(ledger),
        *_of_frozen(ledger),
        *_of_parity(ledger),
    ]
    corrected = holm([each.weighed.p for each in told])
    return [replace(each, p=p) for each, p in zip(told, corrected, strict=True)]


def claims_table(told: Sequence[Told]) -> str:
    """A line a claim."""
    return table(
        ("the paper says", "here", "p", "the study"),
        [
            (
                each.claim,
                each.numbers,
                MISSING if each.p is None else p_value(each.p),
                f"**{each.verdict}**",
            )
            for each in told
        ],
    )


def _p_text(p: float | None) -> str:
    return MISSING if p is None else p_value(p)


def _below(ledger: Ledger, claim: str, first: Place, second: Place) -> Told:
    """That the number named first is below the second."""
    return _against(ledger, claim, first, second, first, second)


def _above(ledger: Ledger, claim: str, first: Place, second: Place) -> Told:
    """That the number named first is above the second."""
    return _against(ledger, claim, first, second, second, first)


def _against(
    ledger: Ledger, claim: str, first: Place, second: Place, less: Place, more: Place
) -> Told:
    counted = [ledger.text(*place, counted=_missed(ledger, place)) for place in (first, second)]
    weighed = compared(ledger.number(*less), ledger.number(*more), paired=less[0] == more[0])
    return _told(ledger, claim, " against ".join(counted), weighed, first[0], second[0])


def _missed(ledger: Ledger, place: Place) -> bool:
    number = ledger.number(*place)
    return number is not None and number.reached < number.n


def _told(ledger: Ledger, claim: str, numbers: str, weighed: Weighed, *keys: str | None) -> Told:
    """Models that have not learned their task say nothing."""
    if any(key is not None and ledger.finding("chance", key) for key in keys):
        numbers, weighed = f"{numbers}; not learned", Weighed(word=NOTHING)
    return Told(claim=claim, numbers=numbers, weighed=weighed)


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
            _told(
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
                _told(
                    ledger,
                    f"on the frozen joint trajectory ({name}, {prior}) a fresh gate only tracks "
                    f"the native one: within {100 * MARGIN:g} point of area",
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
