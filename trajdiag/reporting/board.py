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

    def point(self, store: str, readout: str, what: str) -> ScoreRow | None:
        """The `depth` or `accuracy` at the operating point: the user's threshold where one was
        given."""
        given = self.score(store, readout, f"{what}@threshold")
        return given or self.score(store, readout, f"{what}@final")

    def operating_point(self, store: str, readout: str) -> tuple[float, float] | None:
        """Its depth and accuracy, where it has one."""
        rows = [self.point(store, readout, what) for what in ("depth", "accuracy")]
        depth, accuracy = (row.value if row else None for row in rows)
        return None if depth is None or accuracy is None else (depth, accuracy)

    def kind(self, readout: str) -> str:
        """signal, native, gate, fixed or oracle."""
        return next((row.kind for (_, name), row in self.rows.items() if name == readout), "signal")

    def ranked(self, store: str) -> list[str]:
        """The store's readouts, best first; the oracle leads."""
        return self.results.ranked(store)

    def principals(self, store: str) -> list[str]:
        """The readouts that the first screen compares: the native gate, the best fitted gate, the
        best signal and fixed depth, as far as the store has them."""
        ranked = [name for name in self.ranked(store) if (store, name) in self.shares]
        return [
            name
            for kind in ("native", "gate", "signal", "fixed")
            for name in [name for name in ranked if self.kind(name) == kind][:1]
        ]

    def featured(self) -> list[str]:
        """The rules that the small multiples draw, by their mean area over all stores: the best
        signal of each family, or the best three where they are the user's own, and the best two
        fitted gates. The native gate, which some stores lack, comes last."""
        names = list(dict.fromkeys(readout for _, readout in self.rows))
        best_first = sorted(names, key=lambda name: -self._mean_area(name))
        of_kind = {
            kind: [name for name in best_first if self.kind(name) == kind]
            for kind in ("signal", "gate", "native")
        }
        of_family = [
            next((name for name in of_kind["signal"] if name in family), None)
            for family in FAMILIES
        ]
        signals = [name for name in of_family if name] or of_kind["signal"][:3]
        chosen = {*signals, *of_kind["gate"][:2], *of_kind["native"]}
        return [
            name for kind in of_kind for name in names if name in chosen and self.kind(name) == kind
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
