"""Two readouts, of one store or of two, side by side: paired differences with adjusted p values."""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from trajdiag.diagnosis.regret import simple_signal
from trajdiag.metrics.attribution import PARTS
from trajdiag.metrics.bootstrap import Estimate
from trajdiag.metrics.frontier import right_at
from trajdiag.metrics.shapley import swap
from trajdiag.metrics.significance import holm, mcnemar_exact
from trajdiag.readout_registry import NATIVE
from trajdiag.results import ComparisonRow
from trajdiag.scoring.evaluation import REAL, Evaluation, Scored, best
from trajdiag.spans import Spans

METRICS = ("area", "depth@matched", "accuracy@matched")
EQUAL_DEPTH = "accuracy@equal-depth"
"""Right answers at one mean depth: the second readout's val-selected operating point."""


def comparisons(
    s: Scored, r: Scored | None, spans: Spans, kinds: tuple[str, str] | None
) -> list[ComparisonRow]:
    """Every readout against the best one of its own trajectory; against the reference `r`: the
    native gate and the best readout with the reference's best, then every readout with its
    namesake, the frozen-fit test and the swap of trajectories and readouts (`kinds`: the two
    readouts that both stores have; chosen when None)."""
    own = best(s.evaluations)
    real = [e for e in s.evaluations if e.readout.kind in REAL and e is not own]
    found = [row for e in real for row in _differences(s, e, s, own, spans)]
    if r is not None:
        theirs = best(r.evaluations)
        firsts = [e for e in (s.get(NATIVE), own) if e is not None]
        namesakes = [(e, f) for e in s.evaluations if (f := r.get(e.readout.name)) is not None]
        pairs = [*((e, theirs) for e in firsts), *namesakes]
        unique = {(e.readout.name, f.readout.name): (e, f) for e, f in pairs}
        found += [row for e, f in unique.values() for row in _differences(s, e, r, f, spans)]
        found += [row for e, f in namesakes for row in _frozen_fit(s, e, r, f, spans)]
        found += _swap(s, r, spans, kinds)
    return _adjusted(found)


def difference(s: Scored, e: Evaluation, r: Scored, f: Evaluation, metric: str) -> Estimate:
    """Readout `e` of `s` less readout `f` of `r`; NaN for areas over unequal numbers of loops,
    which are means over unequal budgets, and where an accuracy is not reached."""
    one, other = e.estimates[metric], f.estimates[metric]
    with np.errstate(invalid="ignore"):
        found = one - other
    comparable = metric != "area" or s.loops == r.loops
    return found if comparable else np.full_like(found, np.nan)


def paired(s: Scored, r: Scored) -> bool:
    """Whether both hold the same test decisions, in the same order and the same groups."""
    a, b = s.outcomes, r.outcomes
    if len(a.test) != len(b.test) or not np.array_equal(a.test.group, b.test.group):
        return False
    rows_a, rows_b = a.store.rows("test"), b.store.rows("test")
    return np.array_equal(a.store.ids[rows_a], b.store.ids[rows_b]) and np.array_equal(
        a.store.target[rows_a], b.store.target[rows_b]
    )


def _differences(
    s: Scored, e: Evaluation, r: Scored, f: Evaluation, spans: Spans
) -> list[ComparisonRow]:
    estimates = {metric: difference(s, e, r, f, metric) for metric in METRICS}
    if s is not r and e.shares is not None and f.shares is not None:
        for column, part in enumerate(PARTS):
            estimates[f"share/{part}"] = e.shares[:, column] - f.shares[:, column]
    together = s is r or paired(s, r)
    rows = [_row(s, e, r, f, m, x, spans, together) for m, x in estimates.items()]
    return rows + (_equal_depth(s, e, r, f, spans) if together else [])


def _equal_depth(
    s: Scored, e: Evaluation, r: Scored, f: Evaluation, spans: Spans
) -> list[ComparisonRow]:
    """Both at the deepest points within one val depth, that of `f`'s operating point."""
    if e.exits is None or f.exits is None:
        return []
    one, other = (
        right_at(x.outcomes.test.correct, exits.within(f.exits.budget))
        for x, exits in ((s, e.exits), (r, f.exits))
    )
    net = one.astype(np.int8) - other.astype(np.int8)
    row = _row(s, e, r, f, EQUAL_DEPTH, s.resamples.test.means(net[:, None])[:, 0], spans, True)
    return [dataclasses.replace(row, p=_mcnemar(net, s.outcomes.test.group))]


def _mcnemar(net: NDArray[np.int8], group: NDArray[np.int64]) -> float:
    """Exact McNemar; repeats of one group are one vote, their net one."""
    _, unit = np.unique(group, return_inverse=True)
    votes = np.bincount(unit, weights=net)
    return mcnemar_exact(int((votes > 0).sum()), int((votes < 0).sum()))


def _frozen_fit(
    s: Scored, e: Evaluation, r: Scored, f: Evaluation, spans: Spans
) -> list[ComparisonRow]:
    """The paper's test: a fresh gate on this frozen trajectory against the same on the
    reference's."""
    if not _same_fit(e, f):
        return []
    together = paired(s, r)
    return [
        _row(s, e, r, f, f"frozen-fit/{m}", difference(s, e, r, f, m), spans, together)
        for m in ("area", "depth@matched")
    ]


def _same_fit(e: Evaluation, f: Evaluation) -> bool:
    """Whether both are gates that were fitted with the same options."""
    gates = e.readout.gate, f.readout.gate
    if gates[0] is None or gates[1] is None:
        return False
    return gates[0].config.identity() == gates[1].config.identity()


def _swap(s: Scored, r: Scored, spans: Spans, kinds: tuple[str, str] | None) -> list[ComparisonRow]:
    """The gap in area, one readout on `s` less another on `r`, over the table of both."""
    first, second = kinds or _kinds(s, r)
    table = [[x.get(name) for name in (second, first)] for x in (r, s)]
    cells = [e for row in table for e in row if e is not None]
    if first == second or len(cells) < 4 or s.loops != r.loops:
        return []
    value = np.stack([e.estimates["area"] for e in cells], axis=1).reshape(-1, 2, 2)
    parts = swap(value)
    estimates = {
        "total": parts.total,
        "trajectory": parts.trajectory,
        "readout": parts.readout,
        "interaction": parts.interaction,
    }
    together = paired(s, r)
    return [
        _row(s, cells[3], r, cells[0], f"swap/{name}", estimate, spans, together)
        for name, estimate in estimates.items()
    ]


def _kinds(s: Scored, r: Scored) -> tuple[str, str]:
    """The gate that both stores have, the best on `s`, and the reference's best simple signal."""
    namesakes = [(e, r.get(e.readout.name)) for e in s.evaluations]
    gates = [e for e, f in namesakes if f is not None and _same_fit(e, f)]
    signal = simple_signal(r).readout.name
    if not gates:
        return simple_signal(s).readout.name, signal
    return max(gates, key=lambda e: e.val_area).readout.name, signal


def _row(
    s: Scored,
    e: Evaluation,
    r: Scored,
    f: Evaluation,
    metric: str,
    estimate: Estimate,
    spans: Spans,
    together: bool,
) -> ComparisonRow:
    value, low, high = spans.interval(estimate)
    return ComparisonRow(
        store=s.name,
        readout=e.readout.name,
        reference=r.name,
        reference_readout=f.readout.name,
        metric=metric,
        value=value,
        low=low,
        high=high,
        paired=together,
        p=spans.p(estimate),
    )


def _adjusted(rows: Iterable[ComparisonRow]) -> list[ComparisonRow]:
    """Holm over the readouts that are compared with one reference in one metric."""
    rows = list(rows)
    families: dict[tuple[str, str], list[int]] = {}
    for index, row in enumerate(rows):
        families.setdefault((row.reference, row.metric), []).append(index)
    adjusted: Mapping[int, float | None] = {
        index: p
        for family in families.values()
        for index, p in zip(family, holm([rows[i].p for i in family]), strict=True)
    }
    return [dataclasses.replace(row, p_adjusted=adjusted[i]) for i, row in enumerate(rows)]
