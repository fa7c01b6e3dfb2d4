"""What the paper claims, and whether the study's numbers say so: the words follow from tests.

A claim sets two numbers of the study against each other, seed by seed. Below 5%, by Holm's
correction over all claims, the study agrees or disagrees; else, or where a seed misses a target, or
a finding holds in some seeds only, it cannot tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from studies.ledger import Ledger, Number, printed, table
from studies.paper import GEOMETRIC, ORDERING, PARITY, UNIFORM, paper_depths
from studies.seed_tests import difference_interval, difference_p, within_p
from studies.tables import best_signal

from trajdiag.metrics.significance import holm
from trajdiag.reporting.numerals import MISSING, p_value

AGREES, DISAGREES, OPEN, NOTHING = "agrees", "disagrees", "cannot tell", "no numbers"
VERDICTS = (AGREES, DISAGREES, OPEN, NOTHING)
Place = tuple[str | None, str, str]
"""Setting, readout and metric of a number."""
Depths = tuple[float, float] | None
"""The paper's two numbers, where it has both."""
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
    difference: tuple[float, float, float] | None = None
    """How far the number named first lies beyond the other one, with its 95% interval."""
    word: str | None = None


@dataclass(frozen=True, kw_only=True)
class Told:
    """A claim of the paper, the numbers that weigh it, and the word for it."""

    claim: str
    numbers: str
    weighed: Weighed
    metric: str = ""
    """What the numbers are of."""
    paper: float | None = None
    """The paper's own difference, where it gives both numbers."""
    ours: bool = False
    """Whether the paper claims it in words or a plot, and the measure is the study's."""
    p: float | None = None
    """After Holm's correction over all claims."""

    @property
    def verdict(self) -> str:
        if self.weighed.word is not None:
            return self.weighed.word
        if self.p is None or self.p >= LEVEL:
            return OPEN
        return AGREES if self.weighed.as_claimed else DISAGREES

    @property
    def other_size(self) -> bool:
        """Whether the paper's difference lies outside the interval of the study's."""
        if self.paper is None or self.weighed.difference is None:
            return False
        _, low, high = self.weighed.difference
        return not low <= self.paper <= high


def compared(first: Number | None, second: Number | None, sign: int, *, paired: bool) -> Weighed:
    """Whether the first number is above the second (`sign` 1) or below it (-1), as was claimed;
    `paired`: they are of the same models."""
    if first is None or second is None or not (first.reached or second.reached):
        return Weighed(word=NOTHING)
    one, other = known(first), known(second)
    if one is None or other is None:
        return Weighed(word=OPEN)
    difference = difference_interval(one, other, paired=paired)
    p = difference_p(one, other, paired=paired)
    return Weighed(p=p, as_claimed=sign * difference[0] > 0, difference=difference)


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
    """All claims, those in the paper's own measures first."""
    told = [
        *_of_depth(ledger),
        *_of_joint(ledger),
        *_of_ordering(ledger),
        *_of_states(ledger),
        *_of_frozen(ledger),
        *_of_parity(ledger),
    ]
    corrected = holm([each.weighed.p for each in told])
    told = [replace(each, p=p) for each, p in zip(told, corrected, strict=True)]
    return sorted(told, key=lambda each: each.ours)


def claims_table(told: Sequence[Told]) -> str:
    """A line a claim."""
    rows = [
        [
            each.claim,
            each.numbers,
            _difference(each),
            MISSING if each.paper is None else _amount(each.metric, each.paper),
            MISSING if each.p is None else p_value(each.p),
            f"**{each.verdict}**",
        ]
        for each in told
    ]
    head = ("the paper says", "here", "difference", "the paper's", "p", "the study")
    return table(head, rows)


def _difference(told: Told) -> str:
    if told.weighed.difference is None:
        return MISSING
    value, low, high = (_amount(told.metric, x) for x in told.weighed.difference)
    return f"{value} [{low}, {high}]"


def _amount(metric: str, value: float) -> str:
    return printed(metric, value, 2).replace("-", "\N{MINUS SIGN}")


def differing(ledger: Ledger, told: Sequence[Told]) -> list[str]:
    """What the study sees otherwise than the paper, in whole sentences."""
    found = [f"Not so: {each.claim}; {each.numbers}." for each in told if each.verdict == DISAGREES]
    for each in told:
        if each.other_size and each.paper is not None:
            found.append(
                f"Of another size: {each.claim}; the difference is {_difference(each)}, in the "
                f"paper {_amount(each.metric, each.paper)}."
            )
    found += [
        f"Cannot be seen here: {each.claim}; {each.numbers}."
        for each in told
        if each.numbers.endswith(AT_CEILING)
    ]
    return found + [text for text in (_best_run(ledger),) if text]


def _best_run(ledger: Ledger) -> str:
    """The reference that all others of MANO are held against, where it is a joint training."""
    name = ledger.reference("mano")
    if name is None or ledger.study["settings"][name[0]]["objective"] != "joint":
        return ""
    return (
        f"Of all MANO trajectories the one with the best oracle is jointly trained "
        f"({ledger.label(name[0])}, seed {name[1]}), though the paper finds such trajectories to "
        "be the worse ones; the best of many runs flatters itself."
    )


AT_CEILING = "at the ceiling in every seed"


def _below(
    ledger: Ledger, claim: str, first: Place, second: Place, paper: Depths = None, *,
    ours: bool = False,
) -> Told:  # fmt: skip
    """That the number named first is below the second."""
    return _against(ledger, claim, first, second, -1, paper, ours)


def _above(
    ledger: Ledger, claim: str, first: Place, second: Place, paper: Depths = None, *,
    ours: bool = False,
) -> Told:  # fmt: skip
    """That the number named first is above the second."""
    return _against(ledger, claim, first, second, 1, paper, ours)


def _against(
    ledger: Ledger, claim: str, first: Place, second: Place, sign: int, paper: Depths, ours: bool
) -> Told:
    one, other = ledger.number(*first), ledger.number(*second)
    numbers = f"{ledger.text(*first)} against {ledger.text(*second)}"
    if first[2] == "ordering" and one and other and _at_ceiling(one) and _at_ceiling(other):
        numbers = f"{numbers}: {AT_CEILING}"
    weighed = compared(one, other, sign, paired=first[0] == second[0])
    told = _told(ledger, claim, numbers, weighed, first[0], second[0])
    difference = None if paper is None else paper[0] - paper[1]
    return replace(told, metric=first[2], paper=difference, ours=ours)


def _at_ceiling(number: Number) -> bool:
    seeds = known(number)
    return seeds is not None and min(seeds) > 1 - 1e-6


def _told(ledger: Ledger, claim: str, numbers: str, weighed: Weighed, *keys: str | None) -> Told:
    """Models that have not learned their task say nothing."""
    if any(key is not None and ledger.finding("chance", key) for key in keys):
        numbers, weighed = f"{numbers}; not learned", Weighed(word=NOTHING)
    return Told(claim=claim, numbers=numbers, weighed=weighed)


def _of_depth(ledger: Ledger) -> list[Told]:
    uniform, geometric = f"mano/{UNIFORM}", f"mano/{GEOMETRIC}"
    signal, other = best_signal(ledger, uniform) or "", best_signal(ledger, geometric) or ""
    return [
        *(
            _below(
                ledger,
                f"fixed uniform: confidence needs fewer loops to {target}% than a fixed depth",
                (uniform, signal, f"depth@{target}"),
                (uniform, "fixed", f"depth@{target}"),
                paper_depths((UNIFORM, "entropy"), (UNIFORM, "fixed"), target),
            )
            for target in (95, 98)
        ),
        _below(
            ledger,
            "confidence needs fewer loops to 95% on fixed geometric 0.3 than on fixed uniform",
            (geometric, other, "depth@95"),
            (uniform, signal, "depth@95"),
            paper_depths((GEOMETRIC, "logit_margin"), (UNIFORM, "logit_margin"), 95),
        ),
    ]


def _of_joint(ledger: Ledger) -> list[Told]:
    found = []
    for prior, fixed in (("uniform", UNIFORM), ("geometric", GEOMETRIC)):
        key = f"mano/{fixed}"
        signal = best_signal(ledger, key) or ""
        for gate in ("linear", "mlp"):
            own = ledger.best_beta("mano", gate, prior)
            if own is None:
                continue
            what = f"trained jointly, {ledger.label(own)}: the gate"
            paper = paper_depths((f"{gate}/{prior}", "native"), (fixed, "logit_margin"), 95)
            found.append(
                _above(
                    ledger,
                    f"{what} needs more loops to 95% than confidence on the fixed prior",
                    (own, "native", "depth@95"),
                    (key, signal, "depth@95"),
                    paper,
                )
            )
            found.append(
                _below(
                    ledger,
                    f"{what} has the smaller area, %, than confidence on the fixed prior",
                    (own, "native", "area"),
                    (key, signal, "area"),
                    ours=True,
                )
            )
    return found


def _of_ordering(ledger: Ledger) -> list[Told]:
    found = []
    for training, paper in ORDERING.items():
        key = f"mano/{training}"
        if key not in ledger.study["settings"]:
            continue
        found.append(
            _above(
                ledger,
                f"{ledger.label(key)}: entropy orders inputs by difficulty better than hidden "
                "displacement",
                (key, "entropy", "ordering"),
                (key, "hidden_displacement", "ordering"),
                (paper["entropy"], paper["hidden_displacement"]),
            )
        )
    return found


def _of_states(ledger: Ledger) -> list[Told]:
    found = []
    loops = ledger.loops("mano")
    last = f"accuracy@loop={loops}"
    for lam in (0.5, 0.7):
        key = f"mano/fixed-geometric-{lam:g}"
        found.append(
            _below(
                ledger,
                f"fixed geometric {lam:g}: later states are worse: the last loop, %, than that of "
                "0.3",
                (key, "fixed", last),
                (f"mano/{GEOMETRIC}", "fixed", last),
                ours=True,
            )
        )
        earlier = best_earlier(ledger, key)
        if earlier is not None:
            found.append(
                _below(
                    ledger,
                    f"fixed geometric {lam:g}: later states are worse: the last loop, %, than its "
                    f"own loop {earlier}, the best of the earlier ones",
                    (key, "fixed", last),
                    (key, "fixed", f"accuracy@loop={earlier}"),
                    ours=True,
                )
            )
    for gate, name in (("linear", "linear"), ("mlp", "MLP")):
        key = ledger.largest_beta("mano", gate, "uniform")
        if key is None:
            continue
        n, times = ledger.study["settings"][key]["finished"], ledger.finding("gate-collapsed", key)
        beta = ledger.study["settings"][key]["beta"]
        told = _told(
            ledger,
            f"{name} gate, uniform, largest beta ({beta:g}): it collapses to one depth",
            f"found in {times}/{n} seeds; at the commonest loop, in the mean over exit "
            f"probabilities, {ledger.text(key, 'native', 'modal-exit')}%, where 95% would be it",
            counted(times, n),
            key,
        )
        found.append(replace(told, ours=True))
    return found


def best_earlier(ledger: Ledger, key: str) -> int | None:
    """The loop before the last that has the highest accuracy over seeds."""
    by_loop = {
        loop: found.value
        for loop in range(1, ledger.loops("mano"))
        if (found := ledger.number(key, "fixed", f"accuracy@loop={loop}"))
        and found.value is not None
    }
    return max(by_loop, key=lambda loop: by_loop[loop]) if by_loop else None


def _of_frozen(ledger: Ledger) -> list[Told]:
    found = []
    for gate, name in (("linear", "linear"), ("mlp", "MLP")):
        for prior, fixed in (("uniform", UNIFORM), ("geometric", GEOMETRIC)):
            own, fresh = f"mano/{gate}-{prior}-b0.1", f"{gate}-ponder"
            found.append(
                _above(
                    ledger,
                    f"a fresh {name} gate on the frozen fixed {prior} trajectory has the larger "
                    "area, %, than the gate trained along (β 0.1) on its own",
                    (f"mano/{fixed}", fresh, "area"),
                    (own, "native", "area"),
                    ours=True,
                )
            )
            told = _told(
                ledger,
                f"on the frozen joint trajectory ({name}, {prior}, β 0.1) a fresh gate only "
                f"tracks the native one: its area is within {100 * MARGIN:g} point",
                f"fresh less native {ledger.text(own, fresh, 'area/less-native', 2)}",
                close(ledger.number(own, fresh, "area/less-native")),
                own,
            )
            found.append(replace(told, ours=True))
    for gate in ("linear", "mlp"):
        key = f"mano/{UNIFORM}"
        found.append(
            _above(
                ledger,
                f"PonderNet's objective beats marginal utility ({gate}, frozen fixed uniform, "
                "area, %)",
                (key, f"{gate}-ponder", "area"),
                (key, f"{gate}-next", "area"),
                ours=True,
            )
        )
    return found


def _of_parity(ledger: Ledger) -> list[Told]:
    base = ("parity/fixed-uniform", "top1", "depth@final")
    return [
        _above(
            ledger,
            f"parity: the {name} gate trained jointly (uniform, β 0.1) needs more loops than top-1 "
            "confidence on fixed uniform",
            (f"parity/{gate}-uniform-b0.1", "native", "depth@final"),
            base,
            (PARITY[f"{gate}-uniform-b0.1"][2], PARITY["fixed-uniform"][2]),
        )
        for gate, name in (("linear", "linear"), ("mlp", "MLP"))
    ]
