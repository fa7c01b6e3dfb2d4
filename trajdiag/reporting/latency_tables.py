"""What readouts saved where they were run live."""

from collections.abc import Mapping

from trajdiag.reporting.board import Board
from trajdiag.reporting.cells import Cell, Table, readout_cell
from trajdiag.reporting.names import visible
from trajdiag.reporting.numerals import MISSING, bracketed, loops, percent, plain
from trajdiag.results import LatencyRow

Cells = Mapping[str, LatencyRow]
"""One readout's rows on one side, by metric."""

_NOTE = (
    "Speed-up: the time of full depth by that of the readout run live, with the quartiles of the "
    "repeats; ideal: the number of loops by the mean exit depth. Lost is what the live run takes "
    "beyond the ideal, in percent of full depth’s time: to what is paid whatever the depth, to "
    "computing the readout, and to the rest (dropping and taking rows, smaller batches), which may "
    "be negative. Exits differ from the store’s where last bits decide."
)
_SIDES = {"batched": "batches", "one": "one at a time"}


def latency(board: Board) -> list[Table]:
    """A table a store: a row a readout and side, as measured with every token before the decision
    at full depth."""
    found = []
    for store in board.stores:
        lines: dict[tuple[str, float | None, str, str], dict[str, LatencyRow]] = {}
        for row in board.results.latency:
            if row.store == store and row.context == "full":
                key = row.readout, row.threshold, row.device, row.batch
                lines.setdefault(key, {})[row.metric] = row
        if lines:
            found.append(_table(board, store, lines))
    return found


def _table(
    board: Board, store: str, lines: Mapping[tuple[str, float | None, str, str], Cells]
) -> Table:
    rows = [
        (
            readout_cell(board, readout),
            Cell(text=f"{_SIDES.get(batch, visible(batch))}, {visible(device)}"),
            Cell(text=loops(_value(cells, "depth"))),
            Cell(text=percent(_value(cells, "accuracy"))),
            Cell(text=percent(_value(cells, "accuracy/full"))),
            _times(cells, "speedup"),
            Cell(text=_fixed(_value(cells, "speedup/ideal"))),
            *[
                Cell(text=percent(_value(cells, f"lost/{part}")))
                for part in ("fixed", "readout", "rest")
            ],
            Cell(text=plain(_value(cells, "cost/loop"))),
            Cell(text=percent(_flops(cells), 0)),
            Cell(text=_count(cells)),
        )
        for (readout, _, device, batch), cells in lines.items()
    ]
    return Table(
        name=f"latency-{store}",
        title=visible(store),
        head=(
            "Readout",
            "Run in",
            "Loops",
            "Accuracy, %",
            "At full depth, %",
            "Speed-up",
            "Ideal",
            "Lost to fixed cost, %",
            "To the readout, %",
            "To the rest, %",
            "A loop, ms",
            "FLOPs, % of full",
            "Exits that differ",
        ),
        rows=tuple(rows),
        note=_NOTE,
    )


def _value(cells: Cells, metric: str) -> float | None:
    row = cells.get(metric)
    return row.value if row else None


def _times(cells: Cells, metric: str) -> Cell:
    row = cells.get(metric)
    if row is None or row.value is None:
        return Cell(text=MISSING)
    return Cell(text=_fixed(row.value), interval=bracketed(row.low, row.high, _fixed))


def _fixed(value: float | None) -> str:
    return MISSING if value is None else f"{value:.2f}"


def _flops(cells: Cells) -> float | None:
    live, full = _value(cells, "flops/live"), _value(cells, "flops/full")
    return None if live is None or not full else live / full


def _count(cells: Cells) -> str:
    row = cells.get("differing/depth")
    return MISSING if row is None or row.value is None else f"{row.value:,.0f} of {row.n:,}"
