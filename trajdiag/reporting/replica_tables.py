"""Numbers over training seeds."""

import dataclasses

from trajdiag.reporting.board import Board
from trajdiag.reporting.cells import Cell, Table, number_cell, readout_cell
from trajdiag.reporting.names import visible
from trajdiag.reporting.part_names import replica_label
from trajdiag.results import ReplicaRow


def replicas(board: Board) -> list[Table]:
    """For each set of replicas the parts of regret, and a table of a row a readout, a column a
    number."""
    sets: dict[tuple[str, bool], list[ReplicaRow]] = {}
    for row in board.results.replicas:
        sets.setdefault((row.replicas, not row.metric.endswith("/integrated")), []).append(row)
    return [_table(board, name, sets[name, scores]) for name, scores in sorted(sets)]


def _table(board: Board, name: str, rows: list[ReplicaRow]) -> Table:
    metrics = list(dict.fromkeys(row.metric for row in rows))
    found: dict[str, dict[str, ReplicaRow]] = {}
    for row in rows:
        found.setdefault(row.readout, {})[row.metric] = row
    return Table(
        name="replicas",
        title=visible(name),
        head=("Readout", *[replica_label(metric) for metric in metrics]),
        rows=tuple(
            (readout_cell(board, readout), *[_cell(of.get(metric)) for metric in metrics])
            for readout, of in found.items()
        ),
    )


def _cell(row: ReplicaRow | None) -> Cell:
    if row is None:
        return Cell(text="")
    cell = number_cell(row.metric, row.value, row.low, row.high, 2)
    missed = row.value is None and row.metric.startswith("depth@")
    return dataclasses.replace(
        cell,
        text="not reached" if missed else cell.text,
        notes=(f"{row.n_reached}/{row.n} seeds",),
    )
