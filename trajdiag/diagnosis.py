"""Scores to causes: who loses which examples, and whose a shortfall against a reference is."""

from collections.abc import Iterable, Sequence
from typing import Any

from trajdiag import scoring
from trajdiag.comparison import METRICS, comparisons, difference, gap
from trajdiag.errors import ConfigError
from trajdiag.evaluation import Scored, best
from trajdiag.findings import Case, Shortfall, Span, find, released_finding
from trajdiag.metrics.attribution import PARTS
from trajdiag.metrics.bootstrap import Estimate, interval
from trajdiag.names import require_options
from trajdiag.readout import NATIVE, released_rule
from trajdiag.results import DiagnosisRow, Finding, Results
from trajdiag.scoring import ScoreConfig, StoreLike
from trajdiag.selection import THRESHOLD
from trajdiag.store.reader import open_store
from trajdiag.verdict import verdict


def diagnose(
    stores: StoreLike | Iterable[StoreLike] | None = None,
    reference: StoreLike | None = None,
    *,
    command: str | None = None,
    **options: Any,
) -> Results:
    """Everything `score` gives, and the attribution, comparisons, findings and verdict.

    Each store is compared with the reference of its task: `reference` where that is of the same
    task, else, of several stores, the one whose best readout has the largest area on val.
    Differences are paired where both hold the same test examples. Arguments and errors are those of
    `score`; ConfigError where the reference shares its task with no other store.
    """
    require_options("diagnose", ScoreConfig, options, "reference", "command")
    config = ScoreConfig(**options)
    opened = scoring.open_stores(stores, config.cache_dir)
    wanted = None
    if reference is not None:
        store = open_store(reference, config.cache_dir)
        opened = scoring.open_stores([*opened, store], config.cache_dir)
        wanted = store.name
    scored = scoring.score_stores(opened, config)
    references = _references(scored, wanted)
    pairs = [(s, references.get(s.name)) for s in scored]
    cases = [_case(s, r, config) for s, r in pairs]
    tables = scoring.tables(scored, config, command)
    return Results(
        stores=tables.stores,
        readouts=tables.readouts,
        scores=tables.scores,
        frontier=tables.frontier,
        profile=tables.profile,
        diagnosis=[row for s, r in pairs for row in _attribution(s, r, config)],
        comparisons=[row for s, r in pairs for row in comparisons(s, r, config)],
        findings=[finding for case in cases for finding in find(case)]
        + [finding for s in scored for finding in _released(s)],
        verdict=verdict(cases),
        config={**tables.config, "references": {s.name: r.name for s, r in pairs if r is not None}},
    )


def _references(scored: Sequence[Scored], wanted: str | None) -> dict[str, Scored]:
    """The reference of each store that has one; a reference has none itself."""
    tasks: dict[str, list[Scored]] = {}
    for s in scored:
        tasks.setdefault(scoring.comparable(s.outcomes.store), []).append(s)
    found = {}
    for group in tasks.values():
        named = next((s for s in group if s.name == wanted), None)
        if named is not None and len(group) == 1 < len(scored):
            raise ConfigError(
                f"reference {wanted} shares its task with none of the other stores; "
                "name one that does"
            )
        reference = named or max(group, key=lambda s: best(s.evaluations, "area").val_area)
        found |= {s.name: reference for s in group if s is not reference}
    return found


def _released(s: Scored) -> list[Finding]:
    """How far the released exit rule is from the exact one, where the model has it."""
    rule = released_rule(s.outcomes.store, "test")
    return [] if rule is None else [released_finding(s.name, rule)]


def _attribution(s: Scored, r: Scored | None, config: ScoreConfig) -> list[DiagnosisRow]:
    """Shares of test examples by part, for every readout but hindsight."""
    return [
        DiagnosisRow(
            store=s.name,
            reference=None if r is None else r.name,
            readout=e.readout.name,
            at="threshold" if e.at == THRESHOLD else "point",
            depth=float(e.estimates[f"depth@{e.at}"][0]),
            part=part,
            value=span.value,
            low=span.low,
            high=span.high,
        )
        for e in s.evaluations
        if e.readout.kind != "oracle"
        for column, part in enumerate(PARTS)
        if (span := _span(e.shares[:, column], config)) is not None
    ]


def _case(s: Scored, r: Scored | None, config: ScoreConfig) -> Case:
    """The numbers that findings and verdict weigh."""
    top = best(s.evaluations, "area")
    under = s.get(NATIVE) or top
    parts = {part: under.shares[:, column] for column, part in enumerate(PARTS)}
    lost = parts["early"] + parts["late"]
    differences = {
        e.readout.name: _sure(difference(s, top, s, e, "area"), config)
        for e in s.evaluations
        if e is not top and e.readout.kind not in ("oracle", "variant", "fixed")
    }
    return Case(
        store=s.name,
        reference=None if r is None else r.name,
        loops=s.outcomes.store.loops,
        readout=under.readout.name,
        shares={part: _sure(estimate, config) for part, estimate in parts.items()},
        lost=_sure(lost, config),
        excess=_sure(parts["trajectory"] - lost, config),
        shortfalls=[_shortfall(s, r, metric, config) for metric in METRICS],
        best=top.readout.name,
        depth=_sure(top.estimates[f"depth@{top.at}"], config),
        accuracy=_sure(top.estimates[f"accuracy@{top.at}"], config),
        final=float(s.final[0, -1]),
        tied=[name for name, span in differences.items() if not span.positive],
    )


def _shortfall(s: Scored, r: Scored | None, metric: str, config: ScoreConfig) -> Shortfall:
    g = gap(s, r, metric)
    total, readout, trajectory = (_span(x, config) for x in (g.total, g.readout, g.trajectory))
    return Shortfall(
        metric=metric,
        own=g.own.readout.name,
        theirs=None if g.theirs is None else g.theirs.readout.name,
        total=total,
        readout=readout,
        trajectory=trajectory,
    )


def _span(estimate: Estimate | None, config: ScoreConfig) -> Span | None:
    """None where the estimate is undefined."""
    if estimate is None:
        return None
    value, low, high = interval(estimate, config.confidence)
    return None if value is None else Span(value=value, low=low, high=high)


def _sure(estimate: Estimate, config: ScoreConfig) -> Span:
    """The span of an estimate that is always defined, such as a share."""
    span = _span(estimate, config)
    if span is None:
        raise ValueError("a share, an area or a depth of an operating point is always defined")
    return span
