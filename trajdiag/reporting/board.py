"""Results laid out for rendering: looked up by store and readout, best readout first."""

from collections import defaultdict
from dataclasses import dataclass

from trajdiag.reporting.names import FAMILIES
from trajdiag.reporting.palette import PARTS, Role, readout_roles
from trajdiag.results import (
    DiagnosisRow,
    FrontierRow,
    ProfileRow,
    ReadoutRow,
    Results,
    ScoreRow,
    StoreRow,
)


@dataclass(frozen=True, kw_only=True)
class Board:
    """One report's rows, by what they are about."""

    results: Results
    stores: dict[str, StoreRow]
    rows: dict[tuple[str, str], ReadoutRow]
    """What a readout is, by store and readout."""
    scores: dict[tuple[str, str, str], ScoreRow]
    """Test scores by store, readout, metric."""
    shares: dict[tuple[str, str], dict[str, DiagnosisRow]]
    """By store and readout, then by part; only where all four parts are there."""
    frontier: dict[tuple[str, str], list[FrontierRow]]
    """By store and readout, in order of depth."""
    profile: dict[tuple[str, str | None, str], list[ProfileRow]]
    """By store, readout, quantity."""
    roles: dict[str, Role]
    """The colour of each readout."""

    def score(self, store: str, readout: str, metric: str) -> ScoreRow | None:
        """The row of one number on test, if it was computed."""
        return self.scores.get((store, readout, metric))

    def value(self, store: str, readout: str, metric: str) -> float | None:
        """The number alone."""
        row = self.score(store, readout, metric)
        return row.value if row else None

    def kind(self, readout: str) -> str:
        """signal, native, gate, fixed or oracle."""
        return next((row.kind for (_, name), row in self.rows.items() if name == readout), "signal")

    def ranked(self, store: str) -> list[str]:
        """The store's readouts by area under the frontier, best first; the oracle leads."""
        own = [readout for s, readout in self.rows if s == store]
        areas = {name: self.value(store, name, "area") or 0.0 for name in own}
        return sorted(own, key=lambda name: (self.kind(name) != "oracle", -areas[name]))

    def principals(self, store: str) -> list[str]:
        """The readouts that the first screen compares: the native gate, the best fitted gate, the best
        signal and fixed depth, as far as the store has them."""
        ranked = [name for name in self.ranked(store) if (store, name) in self.shares]
        return [
            name
            for kind in ("native", "gate", "signal", "fixed")
            for name in [name for name in ranked if self.kind(name) == kind][:1]
        ]

    def featured(self) -> list[str]:
        """The rules that all of the report's figures draw: the best of each family of signals over all
        stores, and every store's principals; the native gate, which some stores lack, comes last."""
        names = list(dict.fromkeys(readout for _, readout in self.rows))
        best_first = sorted(names, key=lambda name: -self._mean_area(name))
        named = {name for store in self.stores for name in self.principals(store)}
        for family in FAMILIES:
            named.update([name for name in best_first if name in family][:1])
        return [
            name for kind in ("signal", "gate", "native") for name in names if name in named and self.kind(name) == kind
        ]

    def _mean_area(self, readout: str) -> float:
        areas = [self.value(store, readout, "area") for store in self.stores]
        known = [area for area in areas if area is not None]
        return sum(known) / len(known) if known else 0.0


def board(results: Results) -> Board:
    """The rows of `results`, indexed."""
    scores, shares = {}, defaultdict(dict)
    for row in results.scores:
        if row.split == "test":
            scores.setdefault((row.store, row.readout, row.metric), row)
    for row in results.diagnosis:
        if row.part in PARTS:
            shares[row.store, row.readout].setdefault(row.part, row)
    frontier, profile = defaultdict(list), defaultdict(list)
    for row in results.frontier:
        frontier[row.store, row.readout].append(row)
    for row in results.profile:
        profile[row.store, row.readout, row.quantity].append(row)
    rows = {(row.store, row.readout): row for row in results.readouts}
    return Board(
        results=results,
        stores={row.store: row for row in results.stores},
        rows=rows,
        scores=scores,
        shares={key: parts for key, parts in shares.items() if parts.keys() == PARTS.keys()},
        frontier={key: sorted(rows, key=lambda row: row.depth) for key, rows in frontier.items()},
        profile=dict(profile),
        roles=readout_roles(list(dict.fromkeys(name for _, name in rows))),
    )

