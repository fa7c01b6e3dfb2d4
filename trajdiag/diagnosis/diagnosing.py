"""Scores to causes: who loses which examples, and whose a shortfall is."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from trajdiag.bound.rules import REGRESSORS, Rule, fit_rules, require_regressors
from trajdiag.cachedir import complete_stores
from trajdiag.diagnosis.comparison import comparisons
from trajdiag.diagnosis.evidence import gather
from trajdiag.diagnosis.examples import example_rows
from trajdiag.diagnosis.findings import find
from trajdiag.diagnosis.quality import Reading, quality
from trajdiag.diagnosis.regret import earned_area, regrets, under_diagnosis
from trajdiag.diagnosis.replicas import replica_groups, replica_rows
from trajdiag.diagnosis.verdict import verdict
from trajdiag.errors import ConfigError, TrajdiagError, UnknownNameError
from trajdiag.metrics.attribution import PARTS
from trajdiag.names import checked_options, require_type
from trajdiag.progress import Progress
from trajdiag.readout import list_readouts
from trajdiag.results import DiagnosisRow, QualityRow, ReliabilityRow, Results
from trajdiag.scoring.evaluation import Scored
from trajdiag.scoring.selection import THRESHOLD
from trajdiag.scoring.stores import (
    EvaluationConfig,
    StoreLike,
    comparable,
    kindred,
    open_stores,
    score_stores,
    tables,
)
from trajdiag.spans import Spans
from trajdiag.store.reader import Store, open_store

_SHARES = {
    **{part: [column] for column, part in enumerate(PARTS)},
    "readout": [PARTS.index("early"), PARTS.index("late")],
}
"""The columns that each share of a readout's examples sums."""
SEVERITIES = ("high", "medium", "info")


@dataclass(frozen=True, kw_only=True)
class DiagnoseConfig(EvaluationConfig):
    """What to diagnose, and how."""

    bound: tuple[str, ...] = REGRESSORS
    """Regressors of the learned bound: ridge, mlp, boosted."""
    swap: tuple[str, str] | None = None
    """The two readouts of the swap between a store and its reference, both fitted on both; a fitted
    gate and the best signal when absent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_regressors(self.bound)


def diagnose(
    stores: StoreLike | Iterable[StoreLike] | None = None,
    reference: StoreLike | None = None,
    *,
    command: str | None = None,
    progress: Progress = lambda line: None,
    **options: Any,
) -> Results:
    """Everything `score` gives, and the learned bound, regrets, comparisons, signal quality,
    findings and verdict.

    Each store is compared with the reference of its task: `reference` where that is of the same
    task, else, of several stores, the one whose oracle, luck taken off, has the largest area on
    val. Differences are paired where both hold the same test examples. Options are those of
    DiagnoseConfig, errors those of `score`; ConfigError where the reference shares its task with no
    other store.
    """
    options = checked_options(
        "diagnose", DiagnoseConfig, options, "reference", "command", "progress"
    )
    config = DiagnoseConfig(**options)
    command = require_type("command", command, str | None)
    opened = open_stores(stores, config.cache_dir)
    wanted = None
    if reference is not None:
        store = open_store(reference, config.cache_dir)
        opened = open_stores([*opened, store], config.cache_dir)
        wanted = store.name
        if len(opened) == 1:
            raise ConfigError(f"reference {wanted} is the only store; name the stores to compare")
        _require_task_shared(opened, store, config.cache_dir)
    alike = comparable if reference is None else kindred
    config = with_swap(opened, config)

    def fit(store: Store) -> Sequence[Rule]:
        progress(f"fitting the learned bound of {store.name}: {', '.join(config.bound)}")
        return fit_rules(
            store, regressors=config.bound, min_depth=config.min_depth, seed=config.seed
        )

    scored = score_stores(opened, config, fit, alike)
    progress("scored; now regret, comparisons, signal quality and findings")
    references = _references(scored, wanted, alike)
    pairs = [(s, references.get(s.name)) for s in scored]
    spans = config.spans
    evidence = [gather(s, r, spans, config.seed) for s, r in pairs]
    told = [_quality(s, config) for s in scored]
    scores = tables(scored, config, command)
    return Results(
        stores=[
            dataclasses.replace(row, diagnosed=under_diagnosis(s).readout.name)
            for row, s in zip(scores.stores, scored, strict=True)
        ],
        readouts=scores.readouts,
        scores=scores.scores,
        frontier=scores.frontier,
        profile=scores.profile,
        diagnosis=[row for s, r in pairs for row in _diagnosis(s, r, spans)],
        comparisons=[row for s, r in pairs for row in comparisons(s, r, spans, config.swap)],
        quality=[row for rows, _ in told for row in rows],
        reliability=[row for _, rows in told for row in rows],
        replicas=[
            row
            for group in replica_groups(scored)
            for row in replica_rows(group, config.targets, spans, references)
        ],
        examples=[row for s in scored for row in example_rows(s, len(scored), config.seed)],
        findings=sorted(
            (finding for e in evidence for finding in find(e)),
            key=lambda finding: SEVERITIES.index(finding.severity),
        ),
        verdict=verdict(evidence),
        config={**scores.config, "references": {s.name: r.name for s, r in pairs if r is not None}},
    )


def with_swap(stores: Sequence[Store], config: DiagnoseConfig) -> DiagnoseConfig:
    """The options with the swap's two readouts among those scored. Raises where they are one, or
    where fewer than two stores have both."""
    if config.swap is None:
        return config
    of_store = [
        {r.name for r in list_readouts(store, gates=config.gates, cache_dir=config.cache_dir)}
        for store in stores
    ]
    for name in config.swap:
        if not any(name in names for names in of_store):
            raise UnknownNameError("readout", name, set().union(*of_store))
    if len(set(config.swap)) < 2:
        raise ConfigError(
            f"a swap is between two readouts, and both are {config.swap[0]}; give two that differ"
        )
    if len(stores) < 2:
        raise ConfigError(
            f"a swap is between two stores, and {stores[0].name} is the only one; name another, as "
            "by --reference"
        )
    both = [s.name for s, names in zip(stores, of_store, strict=True) if names >= set(config.swap)]
    if len(both) < 2:
        raise ConfigError(
            f"a swap needs two stores that have {' and '.join(config.swap)}, and "
            f"{both[0] if both else 'none'} has both; give two readouts that both stores have: "
            f"{', '.join(sorted(set.intersection(*of_store)))}"
        )
    if config.readouts is None:
        return config
    return dataclasses.replace(config, readouts=(*config.readouts, *config.swap))


def _require_task_shared(stores: Sequence[Store], reference: Store, cache_dir: str | None) -> None:
    """Raise ConfigError where the reference shares its task with none of the other stores."""
    others = [store for store in stores if store.name != reference.name]
    tasks = {kindred(store) for store in others}
    if kindred(reference) in tasks:
        return
    fitting = []
    for path in complete_stores(cache_dir):
        with suppress(TrajdiagError):  # one that cannot be read is not to be named
            if kindred(found := open_store(path)) in tasks:
                fitting.append(found.name)
    names = sorted({*fitting} - {store.name for store in others})
    raise ConfigError(
        f"reference {reference.name} shares its task with none of the other stores: it is of "
        f"{_task_in_words(reference, others[0])}, and {others[0].name} of "
        f"{_task_in_words(others[0], reference)}; "
        + (f"stores of that task are {', '.join(names)}" if names else "extract one of that task")
    )


def _task_in_words(store: Store, other: Store) -> str:
    """The task of `store`, with what tells it from that of `other` where the two bear one name."""
    task, against = store.record.task, other.record.task
    mine, theirs = (each.get("parameters") or {} for each in (task, against))
    differing = [f"{key} {value}" for key, value in mine.items() if value != theirs.get(key)]
    if task.get("name") != against.get("name") or not differing:
        return f"task {task.get('name')}"
    return f"task {task.get('name')} with {', '.join(differing)[:200]}"


def _references(
    scored: Sequence[Scored], wanted: str | None, alike: Callable[[Store], str]
) -> dict[str, Scored]:
    """The reference of each store that has one; a reference has none itself."""
    tasks: dict[str, list[Scored]] = {}
    for s in scored:
        tasks.setdefault(alike(s.outcomes.store), []).append(s)
    found = {}
    for group in tasks.values():
        named = next((s for s in group if s.name == wanted), None)
        reference = named or max(group, key=earned_area)
        found |= {s.name: reference for s in group if s is not reference}
    return found


def _diagnosis(s: Scored, r: Scored | None, spans: Spans) -> list[DiagnosisRow]:
    """Shares of test examples by part, for every rule; then the regret of the readout under
    diagnosis and of every fitted gate."""
    rows = [
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
        if e.shares is not None
        for part, columns in _SHARES.items()
        if (span := spans.of(e.shares[:, columns].sum(axis=1))) is not None
    ]
    under = under_diagnosis(s)
    gates = [e for e in s.evaluations if e.readout.kind == "gate" and e is not under]
    return rows + [
        row for e in (under, *gates) for x in regrets(s, r, e) for row in x.rows(s.name, spans)
    ]


def _quality(s: Scored, config: DiagnoseConfig) -> tuple[list[QualityRow], list[ReliabilityRow]]:
    test = s.outcomes.test
    agrees = test.predictions == test.predictions[:, -1:]
    readings = (
        Reading(
            name=e.readout.name,
            direction=e.readout.direction,
            first_loop=e.readout.first_loop,
            scale=e.readout.scale,
            values=e.exits.values,
            exits=e.exits.leaves,
            label=agrees if e.readout.gate and e.readout.gate.objective == "agreement" else None,
        )
        for e in s.evaluations
        if e.exits is not None and e.readout.kind != "fixed"
    )
    return quality(
        s.name,
        readings,
        correct=test.correct,
        predictions=test.predictions,
        target=test.target,
        difficulty=s.outcomes.difficulty,
        group=test.group,
        confidence=config.confidence,
        n_resamples=config.n_resamples,
        seed=config.seed,
    )
