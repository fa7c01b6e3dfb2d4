"""What was scored, as tidy rows."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.bin_intervals import BinIntervals, Bounds
from trajdiag.metrics.bootstrap import Estimate
from trajdiag.readout import released_rule
from trajdiag.readout_registry import ORACLE, RELEASED
from trajdiag.results import (
    FrontierRow,
    ProfileRow,
    ReadoutRow,
    Results,
    ScoreRow,
    StoreRow,
)
from trajdiag.scoring.evaluation import Evaluation, Scored
from trajdiag.spans import Spans


def rows(
    scored: Sequence[Scored], *, spans: Spans, config: dict[str, Any], command: str | None
) -> Results:
    """The tables of what was scored; `config` and `command` are recorded as they are, and which
    stores were read part by part."""
    streamed = [s.name for s in scored if s.outcomes.streamed]
    return Results(
        stores=[_store_row(s, command) for s in scored],
        readouts=[_readout_row(s, e) for s in scored for e in s.evaluations],
        scores=[row for s in scored for row in _score_rows(s, spans)],
        frontier=[row for s in scored for e in s.evaluations for row in _frontier_rows(s, e)],
        profile=[row for s in scored for row in _profile_rows(s, spans)],
        config={
            "at": "point",
            **config,
            "matched": {s.name: float(s.targets.matched[0]) for s in scored},
            **({"streamed": streamed} if streamed else {}),
        },
    )


def _store_row(scored: Scored, command: str | None) -> StoreRow:
    store = scored.outcomes.store
    gates = [e.readout.gate for e in scored.evaluations if e.readout.gate is not None]
    commands = [*store.record.commands, *(c for gate in gates for c in gate.commands)]
    return StoreRow(
        store=store.name,
        fingerprint=store.fingerprint,
        model=store.record.model,
        task=store.record.task,
        loops=store.loops,
        classes=store.classes,
        d_model=store.d_model,
        examples={split: len(store.rows(split)) for split in store.splits},
        commands=[*commands, *([command] if command else [])],
        versions=store.record.versions,
        created=store.record.created,
    )


def _readout_row(scored: Scored, evaluation: Evaluation) -> ReadoutRow:
    readout = evaluation.readout
    return ReadoutRow(
        store=scored.name,
        readout=readout.name,
        kind=readout.kind,
        direction=readout.direction,
        first_loop=readout.first_loop,
        unit=readout.unit,
    )


def _score_rows(scored: Scored, spans: Spans) -> list[ScoreRow]:
    found, store = [], scored.name

    def add(
        readout: str, metric: str, estimate: Estimate, n: int | None = None, split: str = "test"
    ) -> None:
        value, low, high = spans.interval(estimate)
        found.append(
            ScoreRow(
                store=store,
                readout=readout,
                metric=metric,
                split=split,
                value=value,
                low=low,
                high=high,
                n=len(scored.outcomes.test) if n is None else n,
            )
        )

    for evaluation in scored.evaluations:
        name = evaluation.readout.name
        for metric, estimate in evaluation.estimates.items():
            add(name, metric, estimate)
        for point, depth in evaluation.test_chosen.items():
            add(name, f"depth@{point}/test-chosen", np.array([depth]))
        add(name, "area", np.array([evaluation.val_area]), len(scored.outcomes.val), "val")
        for point, reached in evaluation.reached.items():
            add(name, f"n_reached@{point}", np.array([float(reached)]), n=1)
        if evaluation.error is not None:
            for metric, value in dataclasses.asdict(evaluation.error).items():
                error = np.array([value])
                add(name, f"{metric}/grid-error", error, len(scored.outcomes.val), "val")
        if evaluation.threshold is not None:
            add(name, f"threshold@{evaluation.at}", np.array([evaluation.threshold]))
    if scored.null is not None:
        add(ORACLE, "area/by-luck", scored.null.area(scored.loops))
    if scored.get(RELEASED) is not None:
        parts = (released_rule(part.store, "test") for part in scored.outcomes.test.parts())
        told = [rule for rule in parts if rule is not None]
        differing = float(sum(rule.differing for rule in told))
        add(RELEASED, f"n_differ@{told[0].threshold:g}", np.array([differing]))
    best_loop = int(scored.val_final[0].argmax())
    add("fixed", "final_accuracy", scored.final[:, -1])
    add("fixed", "best_depth", np.array([best_loop + 1.0]))
    add("fixed", "accuracy@best_depth", scored.final[:, best_loop])
    for loop in range(scored.final.shape[1]):
        add("fixed", f"accuracy@loop={loop + 1}", scored.final[:, loop])
    for metric, by_loop in scored.by_score.items():
        for loop in range(by_loop.shape[1]):
            add("fixed", f"{metric}@loop={loop + 1}", by_loop[:, loop])
    return found


def _frontier_rows(scored: Scored, evaluation: Evaluation) -> list[FrontierRow]:
    """The operating points from shallow to deep, with the anchors leave at loop 1 and run to T."""
    store, curve = scored.name, evaluation.frontier
    points = [
        (
            None if np.isnan(t) else float(t),
            float(d),
            float(a),
        )
        for t, d, a in zip(curve.threshold, curve.depth, curve.accuracy, strict=True)
    ][::-1]
    loops = scored.loops
    if points[0][1] > 1:
        points.insert(0, (None, 1.0, float(scored.final[0, 0])))
    if points[-1][1] < loops:
        points.append((None, float(loops), points[-1][2]))
    return [
        FrontierRow(
            store=store,
            readout=evaluation.readout.name,
            threshold=threshold,
            depth=depth,
            accuracy=accuracy,
        )
        for threshold, depth, accuracy in points
    ]


def _profile_rows(scored: Scored, spans: Spans) -> list[ProfileRow]:
    bins = scored.outcomes.bins
    counts = np.bincount(bins.code[bins.code >= 0], minlength=len(bins.centre))
    return [
        ProfileRow(
            store=scored.name,
            readout=table.readout,
            quantity=table.quantity,
            loop=None if table.quantity == "depth" else loop + 1,
            difficulty=float(bins.centre[level]),
            value=float(table.means[level, loop]),
            n=int(counts[level]),
            low=_bound(table.low, level, loop),
            high=_bound(table.high, level, loop),
        )
        for table in _profile_tables(scored, spans.confidence)
        for level, loop in np.ndindex(table.means.shape)
        if np.isfinite(table.means[level, loop])
    ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Table:
    """Means by bin of difficulty, [bin, loop], and their bounds, where they are known."""

    readout: str | None
    quantity: str
    means: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None

    def within(self, bounds: Bounds) -> "_Table":
        """The same with its bounds."""
        return dataclasses.replace(self, low=bounds[0], high=bounds[1])


def _profile_tables(scored: Scored, confidence: float) -> Iterator[_Table]:
    """Accuracy, then each readout's signal, exits and mean exit loop."""
    test, streamed = scored.outcomes.test, scored.outcomes.streamed
    intervals = None if streamed else BinIntervals(scored.outcomes.bins, test.group, confidence)
    table = _Table(readout=None, quantity="accuracy", means=scored.by_bin)
    yield table.within(intervals.of_shares(test.correct)) if intervals else table
    loops = np.arange(1, scored.loops + 1)
    for evaluation in scored.evaluations:
        name, exits = evaluation.readout.name, evaluation.exits
        known = intervals if exits is not None else None
        if evaluation.signal is not None:
            table = _Table(readout=name, quantity="signal", means=evaluation.signal)
            yield table.within(known.of_means(exits.values)) if known and exits else table
        if evaluation.by_bin is not None and evaluation.readout.kind != "fixed":
            shares = _Table(readout=name, quantity="exits", means=evaluation.by_bin)
            depth = (evaluation.by_bin @ loops)[:, None]
            means = _Table(readout=name, quantity="depth", means=depth)
            if known and exits:
                leaves = exits.leaves[:, None]
                shares = shares.within(known.of_shares(leaves == loops))
                means = means.within(known.of_means(leaves))
            yield from (shares, means)


def _bound(bounds: NDArray[np.float64] | None, level: int, loop: int) -> float | None:
    found = None if bounds is None else float(bounds[level, loop])
    return None if found is None or np.isnan(found) else found
