"""Results laid out for rendering: looked up by store and readout, best readout first."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trajdiag.reporting.names import FAMILIES
from trajdiag.reporting.palette import PARTS, Role, readout_role
from trajdiag.reporting.part_names import REGRET_PARTS
from trajdiag.results import (
    DiagnosisRow,
    ExampleRow,
    FrontierRow,
    ProfileRow,
    QualityRow,
    ReadoutRow,
    ReliabilityRow,
    Results,
    ScoreRow,
    StoreRow,
)

ORACLE = "oracle"
"""The kind of all readouts in hindsight, and the name of the one that bounds every readout: it
leaves at the first right loop."""
FEW, IN_FULL = 8, 4
"""Of more stores than `FEW` a report shows the first `IN_FULL` in full, and of the others what
compares them."""
MANY, DRAWN = 40, 12
"""Of more stores than `MANY` a report draws the first `DRAWN`; the others have their scoreboards
and their rows in the tables of all stores."""
_ARRAYS = "arrays"
"""The name of a task that nobody knows: the store was made of arrays."""
APART = (ORACLE, "bound")
"""The kinds that nobody can deploy as they stand: shown beside the readouts, not among them."""


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
    regrets: dict[tuple[str, str, str], dict[str, DiagnosisRow]]
    """By store, at and readout, then by part, `regret` and `lucky`; `trajectory_regret` only where
    there is a reference."""
    quality: dict[tuple[str, str | None, str], dict[int | None, QualityRow]]
    """By store, readout and metric, then by loop; None is the mean over loops."""
    reliability: dict[tuple[str, str], dict[int, list[ReliabilityRow]]]
    """By store and readout, then by loop: its bins in order."""
    frontier: dict[tuple[str, str], list[FrontierRow]]
    """By store and readout, in order of depth."""
    profile: dict[tuple[str, str | None, str], list[ProfileRow]]
    """By store, readout, quantity."""
    examples: dict[str, dict[str, list[ExampleRow]]]
    """By store, then by example, in the order in which they were drawn: a row a readout."""
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

    def threshold(self, store: str, readout: str) -> float | None:
        """The threshold at the operating point, in the readout's unit; None where it has none, or
        runs to the last loop."""
        given = self.value(store, readout, "threshold@threshold")
        return self.value(store, readout, "threshold@final") if given is None else given

    def operating_point(self, store: str, readout: str) -> tuple[float, float] | None:
        """Its depth and accuracy, where it has one."""
        rows = [self.point(store, readout, what) for what in ("depth", "accuracy")]
        depth, accuracy = (row.value if row else None for row in rows)
        return None if depth is None or accuracy is None else (depth, accuracy)

    @property
    def interval_percent(self) -> int:
        """The confidence of all intervals, in percent."""
        return round(100 * float(self.results.config.get("confidence", 0.95)))

    @property
    def slack(self) -> float:
        """The share of val accuracy that the operating point may give up."""
        return float(self.results.config.get("slack", 0.005))

    def kind(self, readout: str) -> str:
        """signal, native, variant, gate, fixed, bound or oracle."""
        return self._kinds.get(readout, "signal")

    def beside(self, store: str) -> list[str]:
        """The stores of the same task, this one among them; of a task that nobody knows, this one
        alone."""
        task = self.stores[store].task
        if task.get("name") in (None, _ARRAYS):
            return [store]
        return [
            name for name, row in self.stores.items() if _kind(row) == _kind(self.stores[store])
        ]

    @property
    def by_difficulty(self) -> bool:
        """Whether any store's examples differ in difficulty."""
        return any(len({row.difficulty for row in rows}) > 1 for rows in self.profile.values())

    @property
    def in_full(self) -> list[str]:
        """The stores whose every figure and table is shown."""
        return list(self.stores)[: IN_FULL if len(self.stores) > FEW else FEW]

    @property
    def left_out(self) -> str:
        """A sentence for what is shown of these alone; empty where that is all."""
        if len(self.stores) <= FEW:
            return ""
        return (
            f"Shown for the first {IN_FULL} of {len(self.stores)} stores, as is every readout "
            "in the tables; the tables as files hold all, and a report on fewer stores shows it."
        )

    @property
    def drawn(self) -> list[str]:
        """The stores that have panels, examples and paired differences of their own."""
        stores = list(self.stores)
        return stores[:DRAWN] if len(stores) > MANY else stores

    @property
    def undrawn(self) -> str:
        """A sentence, to follow another, for what is shown of the drawn stores alone; empty where
        those are all."""
        if len(self.stores) <= MANY:
            return ""
        return (
            f" Shown for the first {DRAWN} of {len(self.stores)} stores; the tables as files hold "
            "all."
        )

    @property
    def apart(self) -> set[str]:
        """The names of the colours of what is no rule that looks at its input: limits, and forced
        exits."""
        return {
            self.roles[row.readout].name
            for row in self.rows.values()
            if row.kind in (*APART, "fixed")
        }

    def ranked(self, store: str) -> list[str]:
        """The store's readouts, best first; what nobody can deploy leads."""
        return list(self._orders[store])

    @cached_property
    def _orders(self) -> dict[str, list[str]]:
        """Every store's readouts in order, which is asked for with every table."""

        def order(name: str) -> tuple[bool, bool, bool]:
            kind = self._kinds.get(name, "signal")
            return kind not in APART, kind != ORACLE, name != ORACLE

        return {store: sorted(self.results.ranked(store), key=order) for store in self.stores}

    @cached_property
    def _kinds(self) -> dict[str, str]:
        return {name: row.kind for (_, name), row in reversed(self.rows.items())}

    def shown(self, store: str) -> list[str]:
        """The readouts in the store's tables, best first: all of them, or, of a store that is not
        shown in full, hindsight, the bound, and what is drawn."""
        ranked = self.ranked(store)
        if store in self.in_full:
            return ranked
        kept = {ORACLE, "bound", *self.principals(store), *self.featured(store)}
        return [name for name in ranked if name in kept]

    def diagnosed(self, store: str, at: str) -> str | None:
        """The readout under diagnosis, whose regret the report leads with; None where that is not
        split."""
        readout = self.stores[store].diagnosed
        return readout if (store, at, readout) in self.regrets else None

    def principals(self, store: str) -> list[str]:
        """The readouts that the first screen compares: the native gate, the best fitted gate, the
        best signal and fixed depth, as far as the store has them."""
        ranked = [name for name in self.ranked(store) if (store, name) in self.shares]
        return [
            name
            for kind in ("native", "gate", "signal", "fixed")
            for name in [name for name in ranked if self.kind(name) == kind][:1]
        ]

    def featured(self, store: str) -> list[str | None]:
        """The rules that the small multiples draw of a store, each in its column: its best signal
        of each family and the best of the user's own, which fill the places of families that it
        lacks, its best two fitted gates and the native gate; None where it lacks one."""
        best_first = self.ranked(store)
        signals = [name for name in best_first if self.kind(name) == "signal"]
        families: list[str | None] = [
            next((name for name in signals if name in family), None) for family in FAMILIES
        ]
        built_in = set().union(*FAMILIES)
        own = [name for name in signals if name not in built_in][: max(1, families.count(None))]
        gates = sorted([name for name in best_first if self.kind(name) == "gate"][:2])
        native = [name for name in best_first if self.kind(name) == "native"][:1]
        return [*families, *_filled(own, len(FAMILIES)), *_filled(gates, 2), *_filled(native, 1)]


def board(results: Results) -> Board:
    """The rows of `results`, indexed."""
    scores, shares, regrets = {}, defaultdict(dict), defaultdict(dict)
    for row in results.scores:
        if row.split == "test":
            scores.setdefault((row.store, row.readout, row.metric), row)
    for row in results.diagnosis:
        if row.part in PARTS:
            shares[row.store, row.readout].setdefault(row.part, row)
        elif row.part in (*REGRET_PARTS, "regret", "lucky"):
            regrets[row.store, row.at, row.readout].setdefault(row.part, row)
    frontier, profile = defaultdict(list), defaultdict(list)
    quality, reliability = defaultdict(dict), defaultdict(lambda: defaultdict(list))
    examples = defaultdict(lambda: defaultdict(list))
    for row in results.examples:
        examples[row.store][row.example].append(row)
    for row in results.quality:
        quality[row.store, row.readout, row.metric][row.loop] = row
    for row in sorted(results.reliability, key=lambda row: row.bin):
        reliability[row.store, row.readout][row.loop].append(row)
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
        regrets={key: parts for key, parts in regrets.items() if parts.keys() >= _WHOLE},
        quality=dict(quality),
        reliability={key: dict(of) for key, of in reliability.items()},
        frontier={key: sorted(rows, key=lambda row: row.depth) for key, rows in frontier.items()},
        profile=dict(profile),
        examples={store: dict(of) for store, of in examples.items()},
        roles={name: readout_role(name) for _, name in rows},
    )


def _filled(names: Sequence[str], places: int) -> list[str | None]:
    return [*names, *[None] * (places - len(names))]


_WHOLE = {"unexposed", "learnable", "misfit", "regret"}


def _kind(row: StoreRow) -> tuple[str, Any, int]:
    """What stores of one task share: it, but for its seeds."""
    parameters = row.task.get("parameters") or {}
    kept = {key: value for key, value in parameters.items() if key not in ("seed", "seeds")}
    return str(row.task.get("name")), kept, row.classes
