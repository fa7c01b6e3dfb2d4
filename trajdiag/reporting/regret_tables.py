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
            # Accuracy is lost at every budget; loops only where the matched accuracy is reached.
            whole = "integrated" if at == "accuracy" else at
            readout = board.diagnosed(store, at) or board.diagnosed(store, whole)
            if readout is not None:
                label = f"{visible(store)}: {readout_label(readout)}"
                name = Cell(text=label, role=role_of(board, readout))
                rows.append((name, board.regrets.get((store, at, readout), {})))
        if any(parts for _, parts in rows):
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
    return Table(
        name=f"regret-{at}",
        title=f"{title}{what if title else what[0].upper() + what[1:]}, {unit}",
        head=(
            first,
            *(["At a mean depth of"] if at == "matched" else []),
            *[REGRET_PARTS.get(part, part).capitalize() for part in columns],
        ),
        rows=tuple((name, *_cells(parts, columns, at)) for name, parts in rows),
        note=NOTE,
    )


def _cells(parts: dict[str, DiagnosisRow], columns: list[str], at: str) -> list[Cell]:
    """A split as cells; without parts its accuracy was not reached."""
    if not parts:
        return [Cell(text="not reached"), *[Cell(text="") for _ in columns[1:]]]
    metric = "depth" if at == "accuracy" else "share"
    found = [
        number_cell(metric, row.value, row.low, row.high, 2) if row else Cell(text=MISSING)
        for row in map(parts.get, columns)
    ]
    return [Cell(text=loops(parts["regret"].depth)), *found] if at == "matched" else found
