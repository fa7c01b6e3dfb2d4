"""Tables of how regret splits."""

from trajdiag.reporting.board import APART, Board
from trajdiag.reporting.cells import Cell, Table, number_cell, readout_cell, role_of
from trajdiag.reporting.names import readout_label, visible
from trajdiag.reporting.numerals import MISSING, loops
from trajdiag.reporting.part_names import REGRET_PARTS, REGRET_SCALES
from trajdiag.results import DiagnosisRow

NOTE = (
    "Parts are signed and add up to the regret. Lucky: how much of the oracle’s lead over what can "
    "be learned luck would explain; it is taken off before the split."
)


def regret(board: Board) -> list[Table]:
    """A table for each way of splitting regret: a row a store, of its diagnosed readout."""
    found = []
    for at in REGRET_SCALES:
        rows = []
        for store in board.stores:
            readout = board.diagnosed(store, at)
            if readout is not None:
                label = f"{visible(store)}: {readout_label(readout)}"
                name = Cell(text=label, role=role_of(board, readout))
                rows.append((name, board.regrets[store, at, readout]))
        if rows:
            found.append(_table(rows, at, title="", first="Store"))
    return found


def every_regret(board: Board, store: str) -> Table | None:
    """The split over all budgets for every readout of the store, where there is more than one."""
    names = [
        name
        for name in board.ranked(store)
        if (store, "integrated", name) in board.regrets and board.kind(name) not in APART
    ]
    if len(names) < 2:
        return None
    rows = [(readout_cell(board, name), board.regrets[store, "integrated", name]) for name in names]
    return _table(rows, "integrated", title=f"{visible(store)}: ", first="Readout")


def _table(
    rows: list[tuple[Cell, dict[str, DiagnosisRow]]], at: str, *, title: str, first: str
) -> Table:
    what, unit = REGRET_SCALES[at]
    columns = [
        part
        for part in ("regret", *REGRET_PARTS, "lucky")
        if any(part in parts for _, parts in rows)
    ]
    metric = "depth" if unit == "loops" else "share"
    budget = at == "matched"
    return Table(
        name=f"regret-{at}",
        title=f"{title}{what if title else what[0].upper() + what[1:]}, {unit}",
        head=(
            first,
            *(["At a mean depth of"] if budget else []),
            *[REGRET_PARTS.get(part, part).capitalize() for part in columns],
        ),
        rows=tuple(
            (
                name,
                *([Cell(text=loops(parts["regret"].depth))] if budget else []),
                *[_cell(parts.get(part), metric) for part in columns],
            )
            for name, parts in rows
        ),
        note=NOTE,
    )


def _cell(row: DiagnosisRow | None, metric: str) -> Cell:
    if row is None:
        return Cell(text=MISSING)
    return number_cell(metric, row.value, row.low, row.high, 2)
