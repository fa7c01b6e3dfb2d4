"""The records that scoring and diagnosis give and the report renders: tidy rows, the same in
results.json, `--json`, CSV and pandas."""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any

from trajdiag.errors import UnknownNameError
from trajdiag.html_tables import html_list, html_table

RESULTS_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class StoreRow:
    """Where the numbers came from: one row a store."""

    store: str
    fingerprint: str
    model: dict[str, Any]
    """ModelRecord's fields."""
    task: dict[str, Any]
    """name, parameters, notes."""
    loops: int
    classes: int
    d_model: int
    examples: dict[str, int]
    """Number of examples by split."""
    commands: list[str]
    """The commands that made the store and its gates, and these results; each runs as it is."""
    versions: dict[str, str]
    created: str
    diagnosed: str | None = None
    """The readout under diagnosis: the model's own gate where it has one, else the rule that val
    prefers; None where nothing was diagnosed."""


@dataclass(frozen=True, kw_only=True)
class ReadoutRow:
    """What a readout is: one row a store and readout, in the order in which they are shown."""

    store: str
    readout: str
    kind: str
    """`signal`, `native` (the model's own gate), `variant` (the same gate read by another rule),
    `gate` (fitted on the frozen states), `fixed` (leave at one loop, whatever the input: the forced
    exits), `bound` (the best that could be learned or scored, see trajdiag.bound) or `oracle`
    (hindsight)."""
    direction: str
    """`high` or `low`: which values mean ready to stop."""
    first_loop: int
    """The first loop at which it can stop."""
    unit: str
    """Of its values and thresholds."""


@dataclass(frozen=True, kw_only=True)
class ScoreRow:
    """One number about one readout, with its interval, at the confidence that was asked for."""

    store: str
    readout: str
    metric: str
    split: str
    value: float | None
    """None where it is not defined or not reached."""
    low: float | None
    high: float | None
    n: int
    """Examples behind the value."""


@dataclass(frozen=True, kw_only=True)
class FrontierRow:
    """One operating point of a readout on test; `threshold` is in the readout's own unit, None for
    points that no threshold makes (the oracle's).

    A readout has at most 198 points of its exact frontier, and two anchors: the points that are
    more accurate than all shallower ones, as far as 132 go, and others about evenly spaced in
    depth. What is the least over all points is in the scores, as `depth@X/test-chosen`.
    """

    store: str
    readout: str
    threshold: float | None
    depth: float
    """Mean exit depth, loops."""
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class DiagnosisRow:
    """A part of a readout's examples, or of its regret."""

    store: str
    reference: str | None
    readout: str
    at: str
    """Shares of examples: at the operating point, `point` (the least validation depth within the
    slack, half a point by default, of the final loop's validation accuracy), or at the user's own
    `threshold`.

    Parts of regret: `integrated`, accuracy averaged over mean-depth budgets 1 to T; `matched`,
    accuracy at the budget `depth`, the readout's val-selected operating point; `accuracy`, loops at
    the accuracy at which stores are compared."""
    depth: float | None
    """Mean depth there, loops; None where the row is over all budgets or about loops."""
    part: str
    """ok, trajectory, early or late: shares of test examples that sum to 1, and beside them
    readout, early and late together. Or trajectory_regret, unexposed, learnable, misfit, which sum
    to regret, and beside them lucky: accuracy, or loops at `accuracy`; positive is worse."""
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class ComparisonRow:
    """A difference on test, store/readout minus reference/reference_readout: over the same
    examples, and so paired, where both stores hold them.

    Metrics: `area`, `depth@matched`, `accuracy@matched`, `share/PART`; `accuracy@equal-depth`, both
    at one val depth; `frozen-fit/M`, a fresh gate on this frozen trajectory less the same on the
    reference's; `swap/total` in area, its shares `swap/trajectory` and `swap/readout`, which sum to
    it, and `swap/interaction`.
    """

    store: str
    readout: str
    reference: str
    reference_readout: str
    metric: str
    value: float | None
    low: float | None
    high: float | None
    paired: bool
    """False where the two stores do not hold the same examples, so that the interval is
    unpaired."""
    p: float | None = None
    """Two-sided: exact McNemar for `accuracy@equal-depth`, else the bootstrap's."""
    p_adjusted: float | None = None
    """After Holm's correction over the readouts compared in the same metric."""


@dataclass(frozen=True, kw_only=True)
class ProfileRow:
    """A mean over the test examples of one difficulty: what the by-difficulty figures draw."""

    store: str
    readout: str | None
    quantity: str
    """`accuracy` (of the loop itself), `signal` (the readout's mean value at the loop), `exits`
    (the share that leaves at the loop, at the operating point) or `depth` (the mean exit loop
    there)."""
    loop: int | None
    """None for `depth`."""
    difficulty: float
    value: float
    n: int
    low: float | None = None
    """Bounds; None where a store was read part by part, or its examples are one group."""
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class ExampleRow:
    """One test example of a small sample, and what one readout does with it."""

    store: str
    example: str
    """Its id in the store."""
    readout: str
    verdict: str
    """ok, trajectory, early or late: the part of the readout's examples that it is in."""
    leaves: int
    """The loop at which it leaves at the operating point."""
    target: int
    """The right class."""
    predictions: list[int]
    """The predicted class at each loop."""
    target_name: str | None
    """The right class as text; None where the store names no classes."""
    prediction_names: list[str] | None
    """The predicted classes as text."""
    values: list[float | None]
    """The readout's value at each loop."""
    difficulty: float | None
    input: str | None
    """The expression or prompt, its middle left out where it is long; None where the store keeps
    none."""


@dataclass(frozen=True, kw_only=True)
class QualityRow:
    """How well a readout's value at one loop tells what it is meant to tell, on test."""

    store: str
    readout: str | None
    """None for what is about the predictions alone."""
    loop: int | None
    """None for a mean over loops."""
    metric: str
    """See docs/statistics.md, Signal quality and Difficulty."""
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class ReliabilityRow:
    """One bin of equal mass: how sure a readout's probability is, and how often it is right."""

    store: str
    readout: str
    loop: int
    bin: int
    confidence: float
    """Mean probability of the bin's test examples."""
    accuracy: float
    n: int
    low: float | None = None
    """Bounds of the accuracy."""
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class ReplicaRow:
    """One number over stores that are replicas: the same configuration but for the seed."""

    replicas: str
    """The stores' names, joined by ` + `."""
    readout: str
    metric: str
    value: float | None
    """The mean over stores; of `depth@X` at a target the median, None where that is not reached."""
    low: float | None
    """The interval over seeds and examples; of a median over seeds alone, which fewer than six
    have not at 95%."""
    high: float | None
    """None beside a `low`: not reached."""
    n_reached: int
    """Stores in which the number is reached; `n_reached` of `n`."""
    n: int


@dataclass(frozen=True, kw_only=True)
class LatencyRow:
    """One measured number about a readout that was run live; see docs/statistics.md, Latency."""

    store: str
    readout: str
    threshold: float | None
    """In the readout's unit; None is NaN, which never leaves, or infinite, and then decides alike
    for all examples."""
    context: str
    """What the tokens before an example's own had run: `full`, all loops, whole rows at once.
    Decoded token by token: `full-cached`, all loops; `recompute`, those that a later token wants;
    `copy-last`, those up to their exit, whose keys and values stand for the deeper ones."""
    batch: str
    """`batched`, or `one` example at a time."""
    device: str
    """A GPU's name, or the CPU and its threads."""
    metric: str
    value: float | None
    """None where it is not defined."""
    low: float | None
    high: float | None
    """Quartiles over the repeats; None for what is not a time."""
    unit: str
    """Times, losses and FLOPs are those of an example, on average; of a token where rows are
    decoded."""
    n: int
    """Examples that were run."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A named conclusion, with the numbers that carry it."""

    code: str
    store: str
    readout: str | None
    severity: str
    """`high`, `medium` or `info`."""
    message: str
    """The conclusion in words, with its numbers and their intervals."""
    advice: str = ""
    """What to do about it, in a line."""
    numbers: dict[str, float | None] = field(default_factory=dict)
    """What it rests on, by name; bounds are NAME_low and NAME_high."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Results:
    """All tables of one run of score, diagnose, report or latency."""

    stores: list[StoreRow] = field(default_factory=list)
    readouts: list[ReadoutRow] = field(default_factory=list)
    scores: list[ScoreRow] = field(default_factory=list)
    frontier: list[FrontierRow] = field(default_factory=list)
    diagnosis: list[DiagnosisRow] = field(default_factory=list)
    comparisons: list[ComparisonRow] = field(default_factory=list)
    profile: list[ProfileRow] = field(default_factory=list)
    quality: list[QualityRow] = field(default_factory=list)
    reliability: list[ReliabilityRow] = field(default_factory=list)
    replicas: list[ReplicaRow] = field(default_factory=list)
    examples: list[ExampleRow] = field(default_factory=list)
    latency: list[LatencyRow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    verdict: list[str] = field(default_factory=list)
    """Sentences: whose the shortfalls are, which readout to use, what stays open or limits them."""
    config: dict[str, Any] = field(default_factory=dict)
    """The resolved options that gave these numbers."""

    def ranked(self, store: str) -> list[str]:
        """The store's readouts by their area on val (on test where val's is not there), best first;
        those in hindsight lead."""
        kinds = {row.readout: row.kind for row in self.readouts if row.store == store}
        areas: dict[str, dict[str, float]] = {name: {} for name in kinds}
        for row in self.scores:
            if row.store == store and row.metric == "area" and row.value is not None:
                areas.setdefault(row.readout, {})[row.split] = row.value

        def order(name: str) -> tuple[bool, float]:
            return kinds[name] != "oracle", -areas[name].get("val", areas[name].get("test", 0.0))

        return sorted(kinds, key=order)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; NaN and infinity become None."""
        return {"results_version": RESULTS_VERSION, **_jsonable(dataclasses.asdict(self))}

    def to_json(self) -> str:
        """One JSON document, a row a line, the same bytes for the same results."""
        tables = [f"{_text(key)}: {_lines(value)}" for key, value in self.to_dict().items()]
        return "{\n" + ",\n".join(tables) + "\n}\n"

    def to_pandas(self, table: str) -> Any:
        """The rows of `table` as a pandas DataFrame with the fields as columns. Raises
        UnknownNameError for a table that there is not."""
        import pandas as pd

        if not isinstance(table, str) or table not in ROW_TYPES:
            raise UnknownNameError("table", table, ROW_TYPES)
        row_type = ROW_TYPES[table]
        columns = [f.name for f in dataclasses.fields(row_type)]
        return pd.DataFrame(
            [dataclasses.asdict(row) for row in getattr(self, table)], columns=columns
        )

    def __repr__(self) -> str:
        tables = [f"{name} {len(getattr(self, name)):,}" for name in ROW_TYPES]
        names = ", ".join(row.store for row in self.stores) or "no store"
        return f"Results({names}: {', '.join(tables)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, each store's best readouts, what was measured."""
        parts = [html_list("Verdict", self.verdict)] if self.verdict else []
        parts += [self._store_html(store) for store in dict.fromkeys(r.store for r in self.scores)]
        if self.latency:
            parts.append(self._latency_html())
        if self.findings:
            said = [f"{finding.severity}: {finding.message}" for finding in self.findings]
            parts.append(html_list("Findings", said))
        tables = [f"{name} {len(getattr(self, name)):,}" for name in ROW_TYPES]
        return "".join([*parts, html_list("Tables, for to_pandas", [", ".join(tables)])])

    def _store_html(self, store: str) -> str:
        found = {(r.readout, r.metric): r for r in self.scores if _is_test(r, store)}
        shares = {(r.readout, r.part): r for r in self.diagnosis if r.store == store}
        rows = []
        kinds = {row.readout: row.kind for row in self.readouts if row.store == store}
        ranked = self.ranked(store)
        rules = [name for name in ranked if kinds[name] not in _LIMITS]
        own = [name for name in rules[_SHOWN:] if kinds[name] == "native"]
        for name in [*(n for n in _LIMITS if n in ranked), *rules[:_SHOWN], *own]:
            scores = [found.get((name, metric)) for metric, _, _ in _IN_HTML]
            cells = [
                _spoken(row, factor) for row, (_, _, factor) in zip(scores, _IN_HTML, strict=True)
            ]
            parts = [_spoken(shares.get((name, part)), 100) for part in _SHARES]
            rows.append([name, *cells, *parts])
        columns = ["readout", *(heading for _, heading, _ in _IN_HTML), *_SHARES.values()]
        return html_table(f"{store}, on test", columns, rows)

    def _latency_html(self) -> str:
        lines: dict[tuple[str, str, str], dict[str, LatencyRow]] = {}
        for row in self.latency:
            lines.setdefault((row.store, row.readout, row.batch), {})[row.metric] = row
        rows = [
            [f"{store}: {readout}, {batch}", *(_spoken(of.get(m), 1) for m in _MEASURED)]
            for (store, readout, batch), of in lines.items()
        ]
        return html_table("Early exit, measured", ["readout", *_MEASURED.values()], rows)


_SHOWN = 6
"""Readouts of a store that a notebook shows, beside what bounds them and the model's own gate."""
_LIMITS = ("oracle", "bound")
"""Kinds, and the main readout of each."""
_IN_HTML = (
    ("depth@final", "mean depth", 1.0),
    ("accuracy@final", "accuracy %", 100.0),
    ("area", "area %", 100.0),
)
"""Metric, heading, factor."""
_SHARES = {"ok": "right %", "early": "early %", "late": "late %", "trajectory": "no loop right %"}
_MEASURED = {"depth": "mean depth", "speedup": "speed-up", "speedup/ideal": "ideal"}


def _is_test(row: ScoreRow, store: str) -> bool:
    return row.store == store and row.split == "test"


def _spoken(row: ScoreRow | DiagnosisRow | LatencyRow | None, factor: float) -> str | None:
    """A number and its interval."""
    if row is None or row.value is None:
        return None
    value = f"{row.value * factor:.2f}"
    if row.low is None or row.high is None:
        return value
    return f"{value} [{row.low * factor:.2f}, {row.high * factor:.2f}]"


ROW_TYPES = {
    "stores": StoreRow,
    "readouts": ReadoutRow,
    "scores": ScoreRow,
    "frontier": FrontierRow,
    "diagnosis": DiagnosisRow,
    "comparisons": ComparisonRow,
    "profile": ProfileRow,
    "quality": QualityRow,
    "reliability": ReliabilityRow,
    "replicas": ReplicaRow,
    "examples": ExampleRow,
    "latency": LatencyRow,
    "findings": Finding,
}
"""The row type of every table of Results."""


def _lines(value: Any) -> str:
    """A list with an item a line; anything else on one."""
    if not isinstance(value, list) or not value:
        return _text(value)
    return "[\n" + ",\n".join(map(_text, value)) + "\n]"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
