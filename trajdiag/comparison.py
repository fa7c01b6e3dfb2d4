"""Two readouts, of one store or of two, side by side: paired differences and split shortfalls."""

from dataclasses import dataclass

import numpy as np

from trajdiag.evaluation import Evaluation, Scored, best
from trajdiag.metrics.attribution import PARTS
from trajdiag.metrics.bootstrap import Estimate, interval
from trajdiag.readout import NATIVE, ORACLE
from trajdiag.results import ComparisonRow
from trajdiag.scoring import ScoreConfig

METRICS = ("area", "depth@matched")
"""What a shortfall is measured in: accuracy over all budgets, and loops at one accuracy."""


@dataclass(frozen=True, kw_only=True)
class Gap:
    """How far a store falls short, in one metric; positive is worse, and total = readout +
    trajectory."""

    metric: str
    own: Evaluation
    """The best readout of the store's own trajectory, by val."""
    theirs: Evaluation | None
    """The best readout of the reference's trajectory, by val."""
    readout: Estimate | None
    """What the store's own gate loses to `own`; None where it has no gate."""
    trajectory: Estimate | None
    """What `own` loses to `theirs`; None without a reference."""

    @property
    def total(self) -> Estimate | None:
        """What the store's own gate loses to `theirs`."""
        if self.readout is None or self.trajectory is None:
            return None
        return self.readout + self.trajectory


def gap(s: Scored, r: Scored | None, metric: str) -> Gap:
    """The shortfall of `s` against the reference `r`."""
    native, own = s.get(NATIVE), best(s.evaluations, metric)
    theirs = None if r is None else best(r.evaluations, metric)
    return Gap(
        metric=metric,
        own=own,
        theirs=theirs,
        readout=None if native is None else _lost(s, native, s, own, metric),
        trajectory=None if r is None or theirs is None else _lost(s, own, r, theirs, metric),
    )


def _lost(s: Scored, e: Evaluation, r: Scored, f: Evaluation, metric: str) -> Estimate:
    """How much worse readout `e` of `s` is than readout `f` of `r`: less accurate, or deeper."""
    worse_is_more = metric == "depth@matched"
    return difference(s, e, r, f, metric) if worse_is_more else difference(r, f, s, e, metric)


def difference(s: Scored, e: Evaluation, r: Scored, f: Evaluation, metric: str) -> Estimate:
    """Readout `e` of `s` less readout `f` of `r`; NaN for areas over unequal numbers of loops,
    which are means over unequal budgets."""
    found = e.estimates[metric] - f.estimates[metric]
    comparable = metric != "area" or s.outcomes.store.loops == r.outcomes.store.loops
    return found if comparable else np.full_like(found, np.nan)


def comparisons(s: Scored, r: Scored | None, config: ScoreConfig) -> list[ComparisonRow]:
    """The native gate against the best readout of its own trajectory; against the reference `r`:
    the native gate and the store's best readout with the reference's best, then every readout with
    its namesake, and the gaps."""
    native, own = s.get(NATIVE), best(s.evaluations, "area")
    pairs: list[tuple[Evaluation, Scored, Evaluation]] = []
    if native is not None and own is not native:
        pairs.append((native, s, own))
    if r is not None:
        theirs = best(r.evaluations, "area")
        pairs += [(e, r, theirs) for e in (native, own) if e is not None]
        namesakes = ((e, r.get(e.readout.name)) for e in s.evaluations)
        pairs += [(e, r, f) for e, f in namesakes if f is not None]
    unique = {(e.readout.name, o.name, f.readout.name): (e, o, f) for e, o, f in pairs}
    paired = {r.name: _paired(s, r) for r in (s, r) if r is not None}
    found = [
        row
        for e, o, f in unique.values()
        for row in _differences(s, e, o, f, config, paired[o.name])
    ]
    if r is not None and native is not None:
        for metric in METRICS:
            found += _gap_rows(s, native, r, metric, config, paired[r.name])
    return found


def _differences(
    s: Scored, e: Evaluation, r: Scored, f: Evaluation, config: ScoreConfig, paired: bool
) -> list[ComparisonRow]:
    estimates = {m: difference(s, e, r, f, m) for m in (*METRICS, "accuracy@matched")}
    if ORACLE not in (e.readout.name, f.readout.name):
        for column, part in enumerate(PARTS):
            estimates[f"share/{part}"] = e.shares[:, column] - f.shares[:, column]
    return [_row(s, e, r, f, metric, x, config, paired) for metric, x in estimates.items()]


def _gap_rows(
    s: Scored, native: Evaluation, r: Scored, metric: str, config: ScoreConfig, paired: bool
) -> list[ComparisonRow]:
    g = gap(s, r, metric)
    parts = {"gap": g.total, "readout_gap": g.readout, "trajectory_gap": g.trajectory}
    return [
        _row(s, native, r, g.theirs, f"{name}/{metric}", estimate, config, paired)
        for name, estimate in parts.items()
        if g.theirs is not None and estimate is not None
    ]


def _row(
    s: Scored,
    e: Evaluation,
    r: Scored,
    f: Evaluation,
    metric: str,
    estimate: Estimate,
    config: ScoreConfig,
    paired: bool,
) -> ComparisonRow:
    value, low, high = interval(estimate, config.confidence)
    return ComparisonRow(
        store=s.name,
        readout=e.readout.name,
        reference=r.name,
        reference_readout=f.readout.name,
        metric=metric,
        value=value,
        low=low,
        high=high,
        paired=paired,
    )


def _paired(s: Scored, r: Scored) -> bool:
    """Whether both hold the same test decisions, in the same order and the same groups."""
    a, b = s.outcomes, r.outcomes
    if len(a.test) != len(b.test) or not np.array_equal(a.group, b.group):
        return False
    rows_a, rows_b = a.store.rows("test"), b.store.rows("test")
    return np.array_equal(a.store.ids[rows_a], b.store.ids[rows_b]) and np.array_equal(
        a.store.target[rows_a], b.store.target[rows_b]
    )
