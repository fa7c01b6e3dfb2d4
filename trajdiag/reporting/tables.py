"""The report's tables as text, the same for the page and for Markdown."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trajdiag.reporting.board import Board
from trajdiag.reporting.names import PART_LABELS, metric_label, readout_label, visible
from trajdiag.reporting.numerals import MISSING, loops, metric_text, percent, signed
from trajdiag.reporting.palette import PARTS
from trajdiag.results import ComparisonRow, ScoreRow, StoreRow

SCOREBOARD = (
    "area",
    "depth@threshold",
    "accuracy@threshold",
    "depth@final",
    "accuracy@final",
    "depth@matched",
    "depth@95",
    "depth@98",
    "depth@99",
    "spearman",
)
SHORTFALLS = {
    "gap": "Shortfall",
    "trajectory_gap": "Trajectory’s part",
    "readout_gap": "Readout’s part",
}


@dataclass(frozen=True, kw_only=True)
class Whisker:
    """An interval drawn in a cell, in percent of the column's scale."""

    zero: float
    low: float
    value: float
    high: float
    clear: bool
    """Whether the interval leaves out zero."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One entry; `interval` and `whisker` belong to its number, `role` is the swatch of its
    readout."""

    text: str
    interval: str = ""
    role: str | None = None
    whisker: Whisker | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under a head; the first column names the row."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


def summary(board: Board) -> Table:
    """One row a store: what its readouts need, beside each other."""
    kinds = [
        kind
        for kind in ("signal", "gate", "native", "fixed", "oracle")
        if any(board.kind(name) == kind for _, name in board.rows)
    ]
    heads = {
        "signal": "Best signal, loops",
        "gate": "Best fitted gate, loops",
        "native": "Native gate, loops",
        "fixed": "Fixed depth, loops",
        "oracle": "Hindsight oracle, loops",
    }
    rows = []
    for store in board.stores:
        ranked = board.ranked(store)
        row = [Cell(text=visible(store)), _final_accuracy(board, store)]
        for kind in kinds:
            name = next((name for name in ranked if board.kind(name) == kind), None)
            cell = _score_cell(
                board.score(store, name, "depth@final") if name else None, "depth@final"
            )
            row.append(_with_readout(board, name, cell) if name else cell)
        never = next(
            (parts["trajectory"] for (s, _), parts in board.shares.items() if s == store), None
        )
        row.append(
            Cell(text=percent(never.value), interval=_interval("share", never.low, never.high))
            if never
            else Cell(text=MISSING)
        )
        rows.append(tuple(row))
    return Table(
        name="summary",
        title="Stores side by side",
        head=(
            "Store",
            "Last loop’s accuracy, %",
            *[heads[kind] for kind in kinds],
            "No loop right, %",
        ),
        rows=tuple(rows),
        note="Loops are mean exit depths at the operating point.",
    )


def scoreboard(board: Board, store: str) -> Table:
    """The store's readouts, best first; targets that no store reaches are left out."""
    reached = {metric for (_, _, metric), row in board.scores.items() if row.value is not None}
    metrics = [metric for metric in SCOREBOARD if metric in reached]
    return _score_table(board, store, metrics, name=f"scoreboard-{store}")


def other_scores(board: Board, store: str) -> Table:
    """Everything else that was scored, such as the paper's own protocol."""
    found = dict.fromkeys(metric for s, _, metric in board.scores if s == store)
    return _score_table(
        board, store, [m for m in found if m not in SCOREBOARD], name=f"scores-{store}"
    )


def shares(board: Board, store: str) -> Table:
    """Where every readout's test examples end up at its operating point."""
    rows = []
    for name in board.ranked(store):
        if (store, name) not in board.shares:
            continue
        parts = board.shares[store, name]
        cells = [
            Cell(
                text=percent(parts[p].value),
                interval=_interval("share", parts[p].low, parts[p].high),
            )
            for p in PARTS
        ]
        rows.append((_readout_cell(board, name), Cell(text=loops(parts["ok"].depth)), *cells))
    return Table(
        name=f"shares-{store}",
        title=f"{visible(store)}: where test examples end up",
        head=("Readout", "Loops", *[f"{PART_LABELS[part].capitalize()}, %" for part in PARTS]),
        rows=tuple(rows),
    )


def comparisons(board: Board) -> list[Table]:
    """For each pair of stores the differences by readout, then the shortfall and its parts;
    intervals are on one scale a column."""
    tables: dict[tuple[str, str, bool], list[ComparisonRow]] = {}
    for row in board.results.comparisons:
        tables.setdefault((row.store, row.reference, "gap/" in row.metric), []).append(row)
    return [_comparison_table(board, rows) for rows in tables.values()]


def provenance(row: StoreRow) -> list[tuple[str, str]]:
    """What made a store, as terms and descriptions."""
    model, task = row.model, row.task
    parameters = ", ".join(
        f"{key}={json.dumps(value)}" for key, value in task.get("parameters", {}).items()
    )
    facts = {
        "Model": f"{model.get('name')} ({model.get('family')}, {model.get('source')})",
        "Revision": model.get("revision"),
        "Weights": f"SHA-256 {model.get('sha256')}",
        "Task": f"{task.get('name')}({parameters})",
        "Task notes": json.dumps(task["notes"], ensure_ascii=False) if task.get("notes") else None,
        "Examples": ", ".join(f"{count:,} {split}" for split, count in row.examples.items()),
        "Shape": f"{row.loops} loops, {row.d_model} wide, {row.classes} classes",
        "Store’s fingerprint": row.fingerprint,
        "Created": row.created,
        "Versions": ", ".join(f"{name} {version}" for name, version in row.versions.items()),
    }
    return [(term, visible(str(text))) for term, text in facts.items() if text]


def _score_table(board: Board, store: str, metrics: Sequence[str], *, name: str) -> Table:
    rows = []
    for readout in board.ranked(store):
        if any((store, readout, metric) in board.scores for metric in metrics):
            cells = [_score_cell(board.score(store, readout, metric), metric) for metric in metrics]
            rows.append((_readout_cell(board, readout), *cells))
    head = ("Readout", *[metric_label(metric) for metric in metrics])
    return Table(name=name, title=visible(store), head=head, rows=tuple(rows))


def _comparison_table(board: Board, own: list[ComparisonRow]) -> Table:
    store, reference = visible(own[0].store), visible(own[0].reference)
    title = f"{store} minus {reference}" if store != reference else f"Within {store}"
    if "gap/" in own[0].metric:
        title = f"Shortfall of {store} against {reference}"
    metrics = list(dict.fromkeys(row.metric for row in own))
    by_pair: dict[tuple[str, str], dict[str, ComparisonRow]] = {}
    for row in own:
        by_pair.setdefault((row.readout, row.reference_readout), {})[row.metric] = row
    scales = {metric: _scale(row for row in own if row.metric == metric) for metric in metrics}
    rows = []
    for (readout, other), found in by_pair.items():
        label = readout_label(readout)
        named = label if readout == other else f"{label} − {readout_label(other)}"
        cells = [_difference_cell(found.get(metric), scales[metric]) for metric in metrics]
        rows.append((Cell(text=named, role=_role(board, readout)), *cells))
    unpaired = any(not row.paired for row in own)
    return Table(
        name="comparisons",
        title=title,
        head=("Readout", *[_difference_label(metric) for metric in metrics]),
        rows=tuple(rows),
        note="The stores hold different examples: these intervals are not paired."
        if unpaired
        else "Paired on the same test examples.",
    )


def _difference_label(metric: str) -> str:
    kind, _, of = metric.partition("/")
    if kind == "share":
        return f"{PART_LABELS.get(of, visible(of)).capitalize()}, points"
    if kind in SHORTFALLS:
        unit = "points of area" if of == "area" else "loops"
        return f"{SHORTFALLS[kind]}, {unit}"
    return metric_label(metric).replace(", %", ", points")


def _difference_cell(row: ComparisonRow | None, scale: float) -> Cell:
    if row is None or row.value is None:
        return Cell(text=MISSING)
    metric = row.metric.partition("gap/")[2] or row.metric
    whisker = None
    if row.low is not None and row.high is not None and scale > 0:
        low, value, high = (50 + 48 * v / scale for v in (row.low, row.value, row.high))
        whisker = Whisker(
            zero=50, low=low, value=value, high=high, clear=not row.low <= 0 <= row.high
        )
    return Cell(
        text=signed(metric_text(metric, row.value)),
        interval=_interval(metric, row.low, row.high, difference=True),
        whisker=whisker,
    )


def _scale(rows: Iterable[ComparisonRow]) -> float:
    ends = [abs(v) for row in rows for v in (row.low, row.value, row.high) if v is not None]
    return max(ends, default=0.0)


def _score_cell(row: ScoreRow | None, metric: str) -> Cell:
    if row is None:
        return Cell(text="")
    return Cell(text=metric_text(metric, row.value), interval=_interval(metric, row.low, row.high))


def _final_accuracy(board: Board, store: str) -> Cell:
    row = next(
        (row for (s, _, m), row in board.scores.items() if s == store and m == "final_accuracy"),
        None,
    )
    return _score_cell(row, "final_accuracy")


def _interval(
    metric: str, low: float | None, high: float | None, *, difference: bool = False
) -> str:
    if low is None or high is None:
        return ""
    ends = (metric_text(metric, low), metric_text(metric, high))
    return "[{}, {}]".format(*(signed(end) if difference else end for end in ends))


def _readout_cell(board: Board, readout: str) -> Cell:
    return Cell(text=readout_label(readout), role=_role(board, readout))


def _role(board: Board, readout: str) -> str | None:
    role = board.roles.get(readout)
    return role.name if role else None


def _with_readout(board: Board, readout: str, cell: Cell) -> Cell:
    if board.kind(readout) in ("native", "fixed", "oracle") or cell.text == MISSING:
        return cell
    return Cell(
        text=f"{readout_label(readout)} {cell.text}",
        interval=cell.interval,
        role=_role(board, readout),
    )
