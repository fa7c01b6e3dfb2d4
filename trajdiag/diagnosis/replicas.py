"""Stores that differ in nothing but the seed of their training: means and medians over seeds."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trajdiag.diagnosis.regret import INTEGRATED, REGRET, regrets, under_diagnosis
from trajdiag.metrics.bootstrap import Estimate
from trajdiag.metrics.over_seeds import mean_over_seeds, median_over_seeds
from trajdiag.results import ReplicaRow
from trajdiag.scoring.evaluation import Scored
from trajdiag.scoring.selection import accuracy_name
from trajdiag.scoring.stores import comparable
from trajdiag.spans import Spans

MEANS = ("area", "depth@final", "accuracy@final", "depth@matched", "spearman")


def replica_groups(scored: Sequence[Scored]) -> list[list[Scored]]:
    """The stores of one task and one configuration but for the seed, where there are several; of
    stores with one seed, which hold one model, the first."""
    groups: dict[str, dict[Any, Scored]] = {}
    for s in scored:
        training = _training(s)
        if training is not None:
            same = {key: value for key, value in training.items() if key != "seed"}
            shared = [comparable(s.outcomes.store), s.loops, same]
            key = json.dumps(shared, sort_keys=True, default=str)
            groups.setdefault(key, {}).setdefault(training.get("seed"), s)
    return [list(group.values()) for group in groups.values() if len(group) > 1]


def replica_rows(
    group: Sequence[Scored],
    accuracies: Sequence[float],
    spans: Spans,
    references: Mapping[str, Scored] | None = None,
) -> list[ReplicaRow]:
    """What every readout that all of them have reaches, over the group's seeds, and the parts of
    regret over all budgets, against the stores' `references` where all have one."""
    shared = [
        e.readout.name for e in group[0].evaluations if all(s.get(e.readout.name) for s in group)
    ]
    rows = []
    for name in shared:
        evaluations = [e for s in group if (e := s.get(name)) is not None]
        for metric in MEANS:
            estimates = [e.estimates[metric] for e in evaluations if metric in e.estimates]
            if len(estimates) == len(group):
                rows.append(_row(group, name, metric, estimates, spans))
        for accuracy in map(accuracy_name, accuracies):
            depths = [e.estimates[f"depth@{accuracy}"] for e in evaluations]
            rows.append(_row(group, name, f"depth@{accuracy}", depths, spans, median=True))
            if all(np.isfinite(depth[0]) for depth in depths):
                rows.append(_row(group, name, f"mean-depth@{accuracy}", depths, spans))
    return rows + _regret_rows(group, spans, references or {})


def _regret_rows(
    group: Sequence[Scored], spans: Spans, references: Mapping[str, Scored]
) -> list[ReplicaRow]:
    readouts = [under_diagnosis(s) for s in group]
    if len({e.readout.name for e in readouts}) > 1:
        return []
    found = []
    against = references if all(s.name in references for s in group) else {}
    for s, e in zip(group, readouts, strict=True):
        of_store = [x for x in regrets(s, against.get(s.name), e) if x.at == INTEGRATED]
        found += [{**x.parts, REGRET: x.regret} for x in of_store]
    if len(found) < len(group):
        return []
    name = readouts[0].readout.name
    return [
        _row(group, name, f"{part}/{INTEGRATED}", [parts[part] for parts in found], spans)
        for part in found[0]
    ]


def _bounds(metric: str, loops: int) -> tuple[float, float]:
    """What a number can be."""
    if "depth@" in metric:
        return 1.0, float(loops)
    if metric == "spearman":
        return -1.0, 1.0
    return (0.0, 1.0) if metric == "area" or metric.startswith("accuracy@") else (-np.inf, np.inf)


def _row(
    group: Sequence[Scored],
    readout: str,
    metric: str,
    estimates: Sequence[Estimate],
    spans: Spans,
    *,
    median: bool = False,
) -> ReplicaRow:
    own = np.array([estimate[0] for estimate in estimates])
    if median:
        value, low, high = median_over_seeds(own, spans.confidence)
    else:
        drawn = [spans.drawn(estimate) for estimate in estimates]
        bounds = _bounds(metric, group[0].loops)
        value, low, high = mean_over_seeds(drawn, spans.confidence, bounds)
    return ReplicaRow(
        replicas=" + ".join(s.name for s in group),
        readout=readout,
        metric=metric,
        value=value,
        low=low,
        high=high,
        n_reached=int(np.isfinite(own).sum()),
        n=len(group),
    )


def _training(s: Scored) -> dict[str, Any] | None:
    """The options that a model was trained with; None where nothing is known of them."""
    config = s.outcomes.store.record.model.get("config") or {}
    training = ((config.get("trajdiag") or {}).get("training") or {}).get("config")
    return training if isinstance(training, dict) else None
