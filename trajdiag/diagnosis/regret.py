"""What a readout loses against hindsight, split by whose it is.

In accuracy at a budget of mean depth, with R the readout, S the best simple signal, B the best that
can be learned from the frozen states, O the earliest-right oracle of the trajectory and O* that of
the reference, both less what luck explains:

    O* - R = (O* - O) trajectory_regret + (O - B) unexposed + (B - S) learnable + (S - R) misfit

Parts are signed and never clipped, and sum exactly, in every resample too. In loops at one accuracy
the same holds with the signs turned, so that positive is always worse.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trajdiag.metrics.bootstrap import Estimate
from trajdiag.metrics.points import Path
from trajdiag.readout_registry import BOUND, NATIVE, ORACLE, ORACLE_STAYS
from trajdiag.results import DiagnosisRow
from trajdiag.scoring.evaluation import Evaluation, Scored, best
from trajdiag.spans import Spans

INTEGRATED, MATCHED, ACCURACY = "integrated", "matched", "accuracy"
TRAJECTORY, UNEXPOSED, LEARNABLE, MISFIT = "trajectory_regret", "unexposed", "learnable", "misfit"
REGRET, LUCKY = "regret", "lucky"


@dataclass(frozen=True, kw_only=True)
class Regret:
    """A readout's regret in one unit; every estimate is [row], positive is worse, and what is not
    reached is infinitely deep, so that a difference of two such is NaN."""

    at: str
    """`integrated`, `matched` or `accuracy`."""
    depth: float | None
    """The budget of `matched`, loops."""
    readout: str
    simple: str
    """The best simple signal, S."""
    reference: str | None
    parts: Mapping[str, Estimate]
    """By name, in order; without a reference there is no trajectory_regret."""
    lucky: Estimate
    """What luck explains of the oracle; taken off."""

    @property
    def regret(self) -> Estimate:
        """The parts' sum."""
        with np.errstate(invalid="ignore"):
            return np.sum(list(self.parts.values()), axis=0)

    @property
    def left(self) -> Estimate:
        """B - R: all that the readout leaves on the table."""
        with np.errstate(invalid="ignore"):
            return self.parts[LEARNABLE] + self.parts[MISFIT]

    def rows(self, store: str, spans: Spans) -> list[DiagnosisRow]:
        """The parts, their sum and luck as rows."""
        found = []
        for part, estimate in {**self.parts, REGRET: self.regret, LUCKY: self.lucky}.items():
            value, low, high = spans.interval(estimate)
            if value is not None:
                found.append(
                    DiagnosisRow(
                        store=store,
                        reference=self.reference,
                        readout=self.readout,
                        at=self.at,
                        depth=self.depth,
                        part=part,
                        value=value,
                        low=low,
                        high=high,
                    )
                )
        return found


@dataclass(frozen=True, kw_only=True)
class Oracle:
    """Hindsight on one trajectory in one unit, each [row]."""

    oracle: Estimate
    bound: Estimate
    lucky: Estimate

    @property
    def earned(self) -> Estimate:
        """The oracle less what luck explains."""
        return self.oracle - self.lucky


def under_diagnosis(s: Scored) -> Evaluation:
    """The model's own gate where it has one, else the rule that val prefers."""
    return s.get(NATIVE) or best(s.evaluations)


def simple_signal(s: Scored) -> Evaluation:
    """The best of the signals and of fixed depth, by area on val."""
    simple = [e for e in s.evaluations if e.readout.kind in ("signal", "fixed")]
    return max(simple, key=lambda e: e.val_area)


def regrets(s: Scored, r: Scored | None, e: Evaluation) -> list[Regret]:
    """The regret of readout `e` of `s` against the reference `r`, in each unit. [] where no bound
    was fitted.

    Budgets mean nothing between different numbers of loops: there the trajectory's part is told in
    loops alone.
    """
    if s.get(BOUND) is None:
        return []
    depth = float(e.estimates[f"depth@{e.at}"][0])
    with np.errstate(invalid="ignore"):
        return [_regret(s, r, e, at, depth) for at in (INTEGRATED, MATCHED, ACCURACY)]


def _regret(s: Scored, r: Scored | None, e: Evaluation, at: str, depth: float) -> Regret:
    def read(path: Path, scored: Scored) -> Estimate:
        return _read(path, scored, at, depth)

    simple = simple_signal(s)
    own, worse = _oracle(s, at, depth), -1.0 if at == ACCURACY else 1.0
    parts = {
        UNEXPOSED: worse * (own.earned - own.bound),
        LEARNABLE: worse * (own.bound - read(simple.path, s)),
        MISFIT: worse * (read(simple.path, s) - read(e.path, s)),
    }
    comparable = r is not None and (at == ACCURACY or r.loops == s.loops)
    if r is not None and comparable:
        parts = {TRAJECTORY: worse * (_oracle(r, at, depth).earned - own.earned), **parts}
    return Regret(
        at=at,
        depth=depth if at == MATCHED else None,
        readout=e.readout.name,
        simple=simple.readout.name,
        reference=r.name if r is not None and comparable else None,
        parts=parts,
        lucky=worse * own.lucky,
    )


def earned_area(s: Scored) -> float:
    """The oracle's area on val less what luck explains, by which a reference is chosen."""
    oracle, bound, null, stays = (path.val_area(s.loops) for path in _paths(s))
    return oracle - min(oracle - bound, max(0.0, null - stays))


def _paths(s: Scored) -> tuple[Path, Path, Path, Path]:
    """Oracle, bound, luck's null, stays-right oracle."""
    found = [s.get(name) for name in (ORACLE, BOUND, ORACLE_STAYS)]
    oracle, bound, stays = (e.path for e in found if e is not None)
    assert s.null is not None
    return oracle, bound, s.null, stays


def _oracle(s: Scored, at: str, depth: float) -> Oracle:
    oracle, bound, null, stays = (_read(path, s, at, depth) for path in _paths(s))
    worse = -1.0 if at == ACCURACY else 1.0
    by_luck = np.maximum(0.0, worse * (null - stays))
    lucky = np.minimum(worse * (oracle - bound), by_luck)
    return Oracle(oracle=oracle, bound=bound, lucky=worse * lucky)


def _read(path: Path, s: Scored, at: str, depth: float) -> Estimate:
    """Accuracy over all budgets, accuracy at a budget, or loops at the matched accuracy."""
    if at == INTEGRATED:
        return path.area(s.loops)
    if at == MATCHED:
        return path.accuracy_at(np.array([depth]))[:, 0]
    return path.reaching(s.targets.matched).depth
