"""What readouts saved where they were run live."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trajdiag.reporting.board import Board
from trajdiag.reporting.cells import Cell, Table, readout_cell
from trajdiag.reporting.names import visible
from trajdiag.reporting.numerals import MISSING, bracketed, loops, percent, plain
from trajdiag.results import LatencyRow

Cells = Mapping[str, LatencyRow]
"""One readout's rows on one side, by metric."""


class Line(NamedTuple):
    """What a line of a table is about."""

    readout: str
    threshold: float | None
    device: str
    batch: str
    context: str


_NOTE = (
    "Speed-up: the time of full depth by that of the readout run live, with the quartiles of the "
    "repeats; ideal: the number of loops by the mean exit depth. Lost is what the live run takes "
    "beyond the ideal, in percent of full depth’s time: to what is paid whatever the depth, to "
    "computing the readout, to long rows that leave late or run until their last example has left, "
    "and to the rest (dropping and taking rows, smaller batches), which may be negative. Exits "
    "differ from the store’s where last bits decide."
)
_CONTEXT_NOTE = (
    "Text decoded token by token, with a cache of keys and values per loop; speed-up is over "
    "decoding at full depth in the same way. A token that has left early leaves later ones all "
    "loops (what offline scores assume; nothing is saved), those that they want, or its last one "
    "in place of the deeper ones. Tokens as at full depth: those that are predicted as at the last "
    "loop. Loops run: those for later tokens included. Exits and predictions differ from the "
    "store’s, where every earlier token has all loops."
)
_CONTEXTS = {
    "full-cached": "all loops",
    "recompute": "loops as wanted",
    "copy-last": "last loop’s copy",
}
_SIDES = {"batched": "in batches", "one": "one at a time"}


def latency(board: Board) -> list[Table]:
    """A table a store: a row a readout and side, as measured with every token before the decision
    at full depth."""
    lines = _lines(board, ["full"])
    return [_table(board, store, of_store) for store, of_store in lines.items()]


def contexts(board: Board) -> list[Table]:
    """A table a store: a row a readout, side and context, as measured token by token."""
    lines = _lines(board, _CONTEXTS)
    return [_context_table(board, store, of_store) for store, of_store in lines.items()]


def _lines(board: Board, contexts: Iterable[str]) -> dict[str, dict[Line, dict[str, LatencyRow]]]:
    """The rows of these contexts, by metric, by line, by store; stores without are left out."""
    found: dict[str, dict[Line, dict[str, LatencyRow]]] = {}
    for store in board.stores:
        for row in board.results.latency:
            if row.store == store and row.context in contexts:
                key = Line(row.readout, row.threshold, row.device, row.batch, row.context)
                found.setdefault(store, {}).setdefault(key, {})[row.metric] = row
    return found


def _table(board: Board, store: str, lines: Mapping[Line, Cells]) -> Table:
    rows = [
        (
            readout_cell(board, line.readout),
            _run_in(line),
            Cell(text=loops(_value(cells, "depth"))),
            Cell(text=percent(_value(cells, "accuracy"))),
            Cell(text=percent(_value(cells, "accuracy/full"))),
            _times(cells, "speedup"),
            Cell(text=_fixed(_value(cells, "speedup/ideal"))),
            *[
                Cell(text=percent(_value(cells, f"lost/{part}")))
                for part in ("fixed", "readout", "rows", "rest")
            ],
            Cell(text=plain(_value(cells, "cost/loop"))),
            Cell(text=percent(_flops(cells), 0)),
            Cell(text=_count(cells)),
        )
        for line, cells in lines.items()
    ]
    return Table(
        name=f"latency-{store}",
        title=visible(store),
        head=(
            "Readout",
            "Run",
            "Mean exit depth, loops",
            "Accuracy, %",
            "Accuracy at full depth, %",
            "Speed-up, times",
            "Ideal, times",
            "Time lost to fixed cost, %",
            "Time lost to the readout, %",
            "Time lost to long rows, %",
            "Time lost to the rest, %",
            "One loop, ms an example",
            "FLOPs, % of full depth’s",
            "Exits unlike the store’s",
        ),
        rows=tuple(rows),
        note=_NOTE,
    )


def _context_table(board: Board, store: str, lines: Mapping[Line, Cells]) -> Table:
    rows = [
        (
            readout_cell(board, line.readout),
            Cell(text=_CONTEXTS[line.context]),
            _run_in(line),
            Cell(text=loops(_value(cells, "depth"))),
            Cell(text=percent(_value(cells, "accuracy"))),
            Cell(text=percent(_value(cells, "accuracy/full"))),
            Cell(text=percent(_value(cells, "agreement"))),
            _times(cells, "speedup"),
            Cell(text=_fixed(_value(cells, "speedup/ideal"))),
            Cell(text=_fixed(_value(cells, "loops-run"))),
            Cell(text=plain(_value(cells, "live"))),
            Cell(text=percent(_flops(cells), 0)),
            Cell(text=_count(cells)),
            Cell(text=_count(cells, "differing/prediction")),
        )
        for line, cells in lines.items()
    ]
    return Table(
        name=f"contexts-{store}",
        title=visible(store),
        head=(
            "Readout",
            "Earlier tokens leave",
            "Run",
            "Mean exit depth, loops",
            "Accuracy, %",
            "Accuracy at full depth, %",
            "Tokens as at full depth, %",
            "Speed-up, times",
            "Ideal, times",
            "Loops run a token",
            "Run live, ms a token",
            "FLOPs, % of full depth’s",
            "Exits unlike the store’s",
            "Predictions unlike the store’s",
        ),
        rows=tuple(rows),
        note=_CONTEXT_NOTE,
    )


def _run_in(line: Line) -> Cell:
    return Cell(text=f"{_SIDES.get(line.batch, visible(line.batch))}, {visible(line.device)}")


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


def _count(cells: Cells, metric: str = "differing/depth") -> str:
    row = cells.get(metric)
    return MISSING if row is None or row.value is None else f"{row.value:,.0f} of {row.n:,}"
