"""All that is weighed about one store, as numbers."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from trajdiag.diagnosis.as_trained import AsTrained, as_trained
from trajdiag.diagnosis.comparison import difference, paired
from trajdiag.diagnosis.regret import ACCURACY, INTEGRATED, Regret, regrets, under_diagnosis
from trajdiag.metrics.attribution import PARTS
from trajdiag.metrics.bootstrap import Estimate
from trajdiag.metrics.chance import chance_p
from trajdiag.metrics.difficulty import spearman, spearman_of_table
from trajdiag.metrics.modal_exit import PROBABILITIES, at_modal_exit, exits_by_probability
from trajdiag.metrics.oracle import first_right, stays_right
from trajdiag.metrics.overthinking import destructive, destructive_by_luck
from trajdiag.metrics.significance import holm
from trajdiag.readout import ReleasedRule, released_rule
from trajdiag.readout_registry import BOUND, FIXED, NATIVE, ORACLE_STAYS
from trajdiag.scoring.evaluation import REAL, Evaluation, Scored, best, table_cells
from trajdiag.spans import Span, Spans

LEAST_TOLD = 30
"""Groups of test or val below which nothing is told: 95% intervals are then too narrow, and hold no
difference where there is none in 92% of cases at 20 groups, in 86% at 6."""
CONCENTRATED, MOST_LEVELS = 0.8, 3
"""Share of the examples right at no loop that so many levels of difficulty hold, to be named."""
UNITS = (INTEGRATED, ACCURACY)
"""What causes are weighed in: accuracy over all budgets, and loops at equal accuracy."""
"""Exit probabilities at which a gate's commonest depth is looked at."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the regret in one unit."""

    at: str
    """`integrated` (accuracy) or `accuracy` (loops)."""
    span: Span


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Whether the trajectory says anything of its targets."""

    p: float
    """That the oracle is no better than with all targets permuted."""
    majority: float
    """Test share of val's commonest class."""
    best: float
    """Test accuracy of the loop or readout that is furthest above it."""
    beaten: bool
    """Whether any is above it, after Holm's correction."""
    tellable: bool
    """Whether there are inputs enough, of more than one class, to tell."""

    @property
    def only(self) -> bool:
        """Whether it says nothing."""
        return self.tellable and self.p > 0.05 and not self.beaten


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The numbers about one store that findings and verdict weigh."""

    store: str
    reference: str | None
    paired: bool
    """Whether the reference holds the same examples."""
    loops: int
    n: int
    """Test groups."""
    n_val: int
    """Val groups."""
    fewest: int
    """Groups of the smallest sample behind its numbers: its own or the reference's test or val."""
    fewest_of: str
    """Which sample that is."""
    readout: str
    """The readout under diagnosis: the model's own gate where it has one, else the best."""
    native: bool
    """Whether it is the model's own gate."""
    simple: str
    """The best simple signal."""
    parts: Mapping[str, Sequence[Part]]
    """By name (trajectory_regret, unexposed, learnable, misfit; `left`, B - R), in each unit."""
    regret: Mapping[str, Span]
    """Their sum by unit."""
    shares: Mapping[str, Span]
    """Its examples: ok, trajectory, early, late."""
    never_at: Mapping[str, float]
    """Where examples that no loop has right concentrate, the share of them at each level of
    difficulty, easiest first; empty where they do not."""
    never_there: float
    """Share of all such examples that is at these levels."""
    lost: Span
    """early + late: some loop was right."""
    matched: float
    """The accuracy at which loops are compared."""
    best: str
    """The rule to use: the one that val prefers by area, or the model's own gate where the data
    cannot tell them apart."""
    fitted: bool
    """Whether it is a gate fitted on the frozen states."""
    depth: Span
    """Its mean exit depth at its operating point."""
    accuracy: Span
    """Its accuracy there."""
    own: tuple[float, float] | None
    """Depth and accuracy of the model's own gate at its operating point."""
    gain: Span | None
    """Area of `best` less that of the model's own gate."""
    bound: Span | None
    """Area of the learned bound less that of `best`."""
    final: float
    """Accuracy of the last loop."""
    tied: Sequence[str]
    """Other rules whose area cannot be told from the best one's, after Holm's correction."""
    chance: Chance
    overthinking: Span
    """Share of examples right earlier and wrong at the end, less what luck explains."""
    peak: Span
    """Accuracy of the best loop on val less that of the last."""
    peak_loop: int
    modal_share: float | None
    """Share of examples at a gate's commonest exit depth, mean over exit probabilities; None for
    what is no gate."""
    modal_depth: int | None
    trained: AsTrained | None
    """The model's own gate at an exit probability of 1/2; None where it has none."""
    needed_share: float
    """Share of examples at the commonest stays-right depth."""
    over_fixed: Span
    """Area of the readout less that of fixed depth."""
    to_gain: float
    """Area of the stays-right oracle less that of fixed depth."""
    found_gain: float
    """Area of the learned bound, or of `best` where none was fitted, less that of fixed depth."""
    order: Span | None
    """Spearman of its exit depth with difficulty, over examples that some loop settles rightly."""
    needed_order: float
    """Spearman of the stays-right depth with difficulty; NaN where unknown."""
    released: ReleasedRule | None
    drift_depth: Span
    """Mean depth at its threshold, test less val, with a 99% interval."""
    drift_accuracy: Span
    """Accuracy there, test less val, with a 99% interval."""

    @property
    def too_few(self) -> bool:
        """Whether intervals over so few groups are too narrow to tell anything by."""
        return self.fewest < LEAST_TOLD


def gather(s: Scored, r: Scored | None, spans: Spans, seed: int) -> Evidence:
    """The evidence about `s`, against the reference `r`."""
    under, native = under_diagnosis(s), s.get(NATIVE)
    top, tied = _best(s, spans)
    split = {x.at: x for x in regrets(s, r, under)}
    assert under.shares is not None and under.drift is not None
    shares = {part: under.shares[:, column] for column, part in enumerate(PARTS)}
    lost = shares["early"] + shares["late"]
    fixed, bound, stays = s.get(FIXED), s.get(BOUND), s.get(ORACLE_STAYS)
    assert fixed is not None and stays is not None
    wide = dataclasses.replace(spans, confidence=0.99)
    peak_loop = int(s.val_final[0].argmax()) + 1
    needed = _needed(s)
    modal = _modal(under)
    fewest, fewest_of = _fewest(s, r)
    never_at, never_there = _concentrated(s)
    return Evidence(
        store=s.name,
        reference=None if r is None else r.name,
        paired=r is not None and paired(s, r),
        loops=s.loops,
        n=s.resamples.test.n_groups,
        n_val=s.resamples.val.n_groups,
        fewest=fewest,
        fewest_of=fewest_of,
        readout=under.readout.name,
        native=under.readout.kind == "native",
        simple=split[INTEGRATED].simple if split else top.readout.name,
        parts=_parts(split, spans),
        regret={
            at: span
            for at in UNITS
            if at in split and (span := spans.of(split[at].regret)) is not None
        },
        shares={part: spans.sure(estimate) for part, estimate in shares.items()},
        never_at=never_at,
        never_there=never_there,
        lost=spans.sure(lost),
        matched=float(s.targets.matched[0]),
        best=top.readout.name,
        fitted=top.readout.kind == "gate",
        depth=spans.sure(top.estimates[f"depth@{top.at}"]),
        accuracy=spans.sure(top.estimates[f"accuracy@{top.at}"]),
        own=None if native is None else _at(native),
        gain=None if native is None else spans.of(difference(s, top, s, native, "area")),
        bound=None if bound is None else spans.of(difference(s, bound, s, top, "area")),
        final=float(s.final[0, -1]),
        tied=tied,
        chance=_chance(s, spans, seed),
        overthinking=spans.sure(_overthinking(s)),
        peak=spans.sure(s.final[:, peak_loop - 1] - s.final[:, -1]),
        peak_loop=peak_loop,
        modal_share=None if modal is None else modal[0],
        modal_depth=None if modal is None else modal[1],
        trained=as_trained(s, native, spans),
        needed_share=_commonest(needed),
        over_fixed=spans.sure(difference(s, under, s, fixed, "area")),
        to_gain=_ahead(stays, fixed),
        found_gain=_ahead(bound or top, fixed),
        order=spans.of(_order(s, under, needed)),
        needed_order=_needed_order(s, needed),
        released=released_rule(s.outcomes.store, "test"),
        drift_depth=wide.sure(under.drift["depth"]),
        drift_accuracy=wide.sure(under.drift["accuracy"]),
    )


def _concentrated(s: Scored) -> tuple[dict[str, float], float]:
    """The fewest levels of difficulty that hold CONCENTRATED of the examples right at no loop, with
    their share of each, and how much of all such examples they hold. Nothing where more than
    MOST_LEVELS are needed, where fewer than half are never right in one, or where they are not
    twice as frequent there as elsewhere."""
    levels, difficulty = s.outcomes.levels, s.outcomes.difficulty
    known, width = levels.code >= 0, len(levels.centre)
    never = np.logical_not(s.outcomes.test.correct.any(axis=1))
    if not never.any() or not width:
        return {}, 0.0
    size = np.bincount(levels.code[known], minlength=width)
    count = np.bincount(levels.code[known & never], minlength=width)
    order = np.argsort(-count, kind="stable")[:MOST_LEVELS]
    held = np.cumsum(count[order]) / never.sum()
    if held[-1] < CONCENTRATED:
        return {}, 0.0
    named = np.sort(order[: int((held >= CONCENTRATED).argmax()) + 1])
    inside, there = count[named].sum() / size[named].sum(), count[named] / size[named]
    others = never.size - size[named].sum()
    elsewhere = (never.sum() - count[named].sum()) / others if others else 1.0
    if there.min() < 0.5 or inside < 2 * elsewhere:
        return {}, 0.0
    found = {}
    for level, share in zip(named, there, strict=True):
        of = difficulty[levels.code == level]
        low, high = f"{of.min():g}", f"{of.max():g}"
        found[low if low == high else f"{low} to {high}"] = float(share)
    return found, float(count[named].sum() / never.sum())


def _fewest(s: Scored, r: Scored | None) -> tuple[int, str]:
    """Groups and name of the smallest sample, the first of equals."""
    counts = [(s.resamples.test.n_groups, "test"), (s.resamples.val.n_groups, "val")]
    if r is not None:
        counts.append((r.resamples.test.n_groups, f"test ({r.name})"))
        counts.append((r.resamples.val.n_groups, f"val ({r.name})"))
    return min(counts, key=lambda count: count[0])


def _parts(split: Mapping[str, Regret], spans: Spans) -> dict[str, list[Part]]:
    found: dict[str, list[Part]] = {}
    for at in UNITS:
        if at not in split:
            continue
        x = split[at]
        for name, estimate in {**x.parts, "left": x.left}.items():
            span = spans.of(estimate)
            if span is not None:
                found.setdefault(name, []).append(Part(at=at, span=span))
    return found


def _best(s: Scored, spans: Spans) -> tuple[Evaluation, list[str]]:
    """The rule to use, and the others that the data cannot tell from the one that val prefers."""
    top = best(s.evaluations)
    others = [
        e
        for e in s.evaluations
        if e is not top and e.readout.kind in REAL and e.readout.kind != "fixed"
    ]
    behind = [difference(s, top, s, e, "area") for e in others]
    adjusted = holm([spans.p(x) for x in behind])
    level = 1 - spans.confidence
    tied = [
        e
        for e, x, p in zip(others, behind, adjusted, strict=True)
        if not spans.sure(x).positive or (p is not None and p > level)
    ]
    chosen = next((e for e in tied if e.readout.kind == "native"), top)
    return chosen, [e.readout.name for e in (top, *tied) if e is not chosen] if tied else []


def _ahead(e: Evaluation, fixed: Evaluation) -> float:
    return float(e.estimates["area"][0] - fixed.estimates["area"][0])


def _at(e: Evaluation) -> tuple[float, float]:
    depth, accuracy = (float(e.estimates[f"{what}@{e.at}"][0]) for what in ("depth", "accuracy"))
    return depth, accuracy


def _chance(s: Scored, spans: Spans, seed: int) -> Chance:
    test, val = s.outcomes.test, s.outcomes.val
    classes, counts = np.unique(val.target, return_counts=True)
    majority = s.resamples.test.means((test.target == classes[counts.argmax()])[:, None])
    levels = [s.final[:, loop] for loop in range(s.loops)]
    levels += [e.estimates[f"accuracy@{e.at}"] for e in s.evaluations if e.readout.kind in REAL]
    above = [level - majority[:, 0] for level in levels]
    adjusted = holm([_one_sided(spans.drawn(x)) for x in above])
    return Chance(
        p=chance_p(test.predictions, test.target, test.group, seed),
        majority=float(majority[0, 0]),
        best=float(max(level[0] for level in levels)),
        beaten=any(p is not None and p <= 0.05 for p in adjusted),
        tellable=s.resamples.test.n_groups >= LEAST_TOLD and len(np.unique(test.target)) > 1,
    )


def _one_sided(estimate: Estimate) -> float | None:
    """Normal p that an estimate is not above 0; the bootstrap's own share cannot be small enough
    for many comparisons."""
    if not np.isfinite(estimate).all():
        return None
    spread = float(estimate[1:].std())
    if spread == 0:
        return 0.0 if estimate[0] > 0 else 1.0
    return 1 - NormalDist().cdf(float(estimate[0]) / spread)


def _overthinking(s: Scored) -> Estimate:
    test = s.outcomes.test
    by_luck = destructive_by_luck(test.predictions, test.target)
    beyond = destructive(test.correct) - by_luck
    return s.resamples.test.means(beyond[:, None].astype(np.float32))[:, 0]


def _needed(s: Scored) -> NDArray[np.int64]:
    """The stays-right depth of the test examples that have one, 0 elsewhere."""
    depth = first_right(stays_right(s.outcomes.test.correct))
    return np.where(depth <= s.loops, depth, 0)


def _order(s: Scored, e: Evaluation, needed: NDArray[np.int64]) -> Estimate | None:
    """Spearman of the exit depth with difficulty over the examples that have a stays-right depth:
    leaving the hopeless at once is no disorder."""
    bins = s.outcomes.levels
    if e.exits is None or not len(bins.centre):
        return None
    code = np.where(needed > 0, bins.code, -1)
    table = s.resamples.test.means(table_cells(e.exits.leaves, code, len(bins.centre), s.loops))
    return spearman_of_table(table.reshape(len(table), s.loops, -1))


def _needed_order(s: Scored, needed: NDArray[np.int64]) -> float:
    stay = (needed > 0) & np.isfinite(s.outcomes.difficulty)
    if stay.sum() < 2:
        return float("nan")
    return spearman(needed[stay], s.outcomes.difficulty[stay])


def _commonest(depth: NDArray[np.integer]) -> float:
    stay = depth[depth > 0]
    return float(np.bincount(stay).max() / len(stay)) if len(stay) else 1.0


def _modal(e: Evaluation) -> tuple[float, int] | None:
    """Mean share, over exit probabilities, of the commonest exit depth, and that depth at 1/2; None
    for what is no gate or may not leave from loop 1 on."""
    if e.readout.scale != "hazard" or e.exits is None or e.readout.first_loop > 1:
        return None
    exits = exits_by_probability(e.exits.values, e.readout.direction)
    middle = exits[:, len(PROBABILITIES) // 2]
    return float(at_modal_exit(exits).mean()), int(np.bincount(middle).argmax())
