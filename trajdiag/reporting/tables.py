"""The report's tables as text, the same for the page and for Markdown."""

import dataclasses
import json
import re
from collections.abc import Sequence

from trajdiag.reporting.board import ORACLE, Board
from trajdiag.reporting.cells import Cell, Table, number_cell, readout_cell, role_of, score_cell
from trajdiag.reporting.names import (
    PART_LABELS,
    metric_label,
    readout_label,
    target_depths,
    visible,
)
from trajdiag.reporting.numerals import MISSING, loops, percent
from trajdiag.reporting.palette import PARTS
from trajdiag.results import StoreRow

SCOREBOARD = (
    "area",
    "depth@threshold",
    "accuracy@threshold",
    "depth@final",
    "accuracy@final",
    "depth@matched",
)
"""Metrics of the scoreboard; then come depths at targets and `spearman`."""
OTHER_SCORES = {
    "@depth=": "at budgets of mean depth",
    "@loop=": "loop by loop",
    "/quantile-grid": "targets on the quantile grid",
    "/test-chosen": "targets, chosen on test",
    r"@\d": "targets",
    "best_depth|final_accuracy": "loop by loop",
}
"""What the other scores are about, by a pattern that their names hold."""
MOST_COLUMNS = 8
"""Columns of other scores in one table."""


def summary(board: Board) -> Table:
    """One row a store: what its readouts need, beside each other."""
    kinds = [
        kind
        for kind in ("signal", "gate", "native", "fixed", "bound", ORACLE)
        if any(board.kind(name) == kind for _, name in board.rows)
    ]
    heads = {
        "signal": "Best signal, loops",
        "gate": "Best fitted gate, loops",
        "native": "Native gate, loops",
        "fixed": "Fixed depth, loops",
        "bound": "Learned bound, loops",
        ORACLE: "Hindsight oracle, loops",
    }
    rows = []
    for store in board.stores:
        ranked = board.ranked(store)
        row = [Cell(text=visible(store)), _final_accuracy(board, store)]
        for kind in kinds:
            name = next((name for name in ranked if board.kind(name) == kind), None)
            found = board.score(store, name, "depth@final") if name else None
            row.append(
                _with_readout(board, name, score_cell(found, "depth@final"))
                if name and found
                else Cell(text=MISSING)
            )
        never = next(
            (parts["trajectory"] for (s, _), parts in board.shares.items() if s == store), None
        )
        row.append(
            number_cell("share", never.value, never.low, never.high)
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
    metrics = [metric for metric in _principal(board) if metric in reached]
    return _score_table(board, store, metrics, name=f"scoreboard-{store}")


def _principal(board: Board) -> list[str]:
    """Metrics of the scoreboard, in order."""
    targets = target_depths(metric for _, _, metric in board.scores)
    return [*SCOREBOARD, *targets, "spearman"]


def other_scores(board: Board, store: str) -> list[Table]:
    """Everything else that was scored, such as the paper's own protocol, in tables that a desk and
    a sheet of paper have room for."""
    found = dict.fromkeys(metric for s, _, metric in board.scores if s == store)
    grouped: dict[str, list[str]] = {}
    principal = _principal(board)
    for metric in found:
        if metric not in principal:
            about = next(
                (of for part, of in OTHER_SCORES.items() if re.search(part, metric)), "more scores"
            )
            grouped.setdefault(about, []).append(metric)
    tables = [
        dataclasses.replace(
            _score_table(
                board, store, metrics[first : first + MOST_COLUMNS], name=f"scores-{store}"
            ),
            title=f"{visible(store)}: {about}",
        )
        for about, metrics in grouped.items()
        for first in range(0, len(metrics), MOST_COLUMNS)
    ]
    return [table for table in tables if table.rows]


def shares(board: Board, store: str) -> Table:
    """Where every readout's test examples end up at its operating point."""
    rows = []
    for name in board.shown(store):
        if (store, name) not in board.shares:
            continue
        parts = board.shares[store, name]
        cells = [number_cell("share", parts[p].value, parts[p].low, parts[p].high) for p in PARTS]
        rows.append((readout_cell(board, name), Cell(text=loops(parts["ok"].depth)), *cells))
    return Table(
        name=f"shares-{store}",
        title=f"{visible(store)}: where test examples end up",
        head=("Readout", "Loops", *[f"{PART_LABELS[part].capitalize()}, %" for part in PARTS]),
        rows=tuple(rows),
    )


def provenance(row: StoreRow) -> list[tuple[str, str]]:
    """What made a store, as terms and descriptions."""
    model, task = row.model, row.task
    parameters = ", ".join(
        f"{key}={json.dumps(value)}" for key, value in task.get("parameters", {}).items()
    )
    name = str(model.get("name"))
    more = [str(model[key]) for key in ("family", "source") if model.get(key) not in (None, name)]
    weights = model.get("sha256")
    facts = {
        "Model": f"{name} ({', '.join(more)})" if more else name,
        "Revision": model.get("revision"),
        "Weights": f"SHA-256 {weights}" if weights else None,
        "Task": f"{task.get('name')}({parameters})" if parameters else task.get("name"),
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
    for readout in board.shown(store):
        if any((store, readout, metric) in board.scores for metric in metrics):
            cells = [_noted(board, store, readout, metric) for metric in metrics]
            rows.append((readout_cell(board, readout), *cells))
    head = ("Readout", *[metric_label(metric) for metric in metrics])
    return Table(name=name, title=visible(store), head=head, rows=tuple(rows))


def _noted(board: Board, store: str, readout: str, metric: str) -> Cell:
    """A score; beside the depth of a target that validation reaches, the accuracy on test where
    that falls short of it."""
    cell = score_cell(board.score(store, readout, metric), metric)
    target = metric.removeprefix("depth@")
    if cell.text in ("", MISSING) or not target.replace(".", "", 1).isdigit():
        return cell
    found = board.value(store, readout, f"accuracy@{target}")
    short = found is not None and round(100 * found, 1) < float(target)
    return dataclasses.replace(cell, notes=(f"{percent(found)}% on test",)) if short else cell


def _final_accuracy(board: Board, store: str) -> Cell:
    row = next(
        (row for (s, _, m), row in board.scores.items() if s == store and m == "final_accuracy"),
        None,
    )
    return score_cell(row, "final_accuracy") if row else Cell(text=MISSING)


def _with_readout(board: Board, readout: str, cell: Cell) -> Cell:
    if board.kind(readout) in ("native", "fixed", "bound", ORACLE) or cell.text == MISSING:
        return cell
    return dataclasses.replace(
        cell, text=f"{readout_label(readout)} {cell.text}", role=role_of(board, readout)
    )
