"""How the command line talks: results on stdout, as wide as they need to be where no terminal
limits them, else in pieces; progress on stderr."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from trajdiag.cachedir import find_store

if TYPE_CHECKING:
    from trajdiag.store.reader import Store

_UNLIMITED = 10_000
"""Columns; in a pipe or a file nothing is cut or wrapped."""


def print_table(table: Table, keys: int | None = None) -> None:
    """One table on stdout. Where a terminal is too narrow for all its columns, cells are wrapped,
    or, with `keys`, it comes in pieces under each other, each with so many of the first columns,
    which tell the rows apart."""
    width = None if sys.stdout.isatty() else _UNLIMITED
    console = Console(file=sys.stdout, width=width, highlight=False)
    for piece in [table] if keys is None else _pieces(table, keys, console):
        console.print(piece)


def _pieces(table: Table, keys: int, console: Console) -> list[Table]:
    """As few tables as are needed for every column to have its full width."""
    natural = Measurement.get(console, console.options.update(max_width=_UNLIMITED), table).maximum
    if natural <= console.width:
        return [table]
    widths = [_width(column) for column in table.columns]
    # a border before each column, and a space on both its sides
    room = console.width - 1 - sum(width + 3 for width in widths[:keys])
    pieces: list[list[Column]] = []
    left = 0
    for column, width in zip(table.columns[keys:], widths[keys:], strict=True):
        if not pieces or width + 3 > left:
            pieces.append([])
            left = room
        pieces[-1].append(column)
        left -= width + 3
    shared = table.columns[:keys]
    return [_piece(table, [*shared, *piece], number) for number, piece in enumerate(pieces)]


def _width(column: Column) -> int:
    """Of its heading and cells, unwrapped."""
    return max(
        Text.from_markup(line).cell_len
        for cell in (column.header, *column.cells)
        for line in str(cell).split("\n")
    )


def _piece(table: Table, columns: Sequence[Column], number: int) -> Table:
    """Some columns of a table, which has its title over the first piece."""
    title = None if number else table.title
    piece = Table(title=title, title_justify=table.title_justify)
    for column in columns:
        piece.add_column(column.header, justify=column.justify, no_wrap=True)
    for cells in zip(*(column.cells for column in columns), strict=True):
        piece.add_row(*cells)
    return piece


def with_interval(
    value: float, low: float | None, high: float | None, factor: float, decimals: int
) -> str:
    """A number with its bounds in a table's cell; without them where there are none."""
    shown = f"{value * factor:.{decimals}f}"
    if low is None:
        return shown
    above = "not reached" if high is None else f"{high * factor:.{decimals}f}"
    return f"{shown} [{low * factor:.{decimals}f}, {above}]"


def say_store(stores: Sequence[str], cache_dir: str | None) -> None:
    """Where no store was named, which one is meant."""
    if not stores:
        to_stderr(f"newest complete store: {find_store(None, cache_dir)}")


def say_contents(store: "Store") -> None:
    """What shows at a glance whether a store holds what was meant."""
    counts = ", ".join(f"{split} {len(store.rows(split)):,}" for split in store.splits)
    accuracy = " ".join(f"{100 * share:.1f}" for share in store.correct().mean(0))
    to_stderr(
        f"{counts}; {store.loops} loops, d_model {store.d_model}, {store.classes} classes; "
        f"accuracy by loop, %: {accuracy}"
    )


def to_stderr(line: str) -> None:
    """One line of progress."""
    print(line, file=sys.stderr, flush=True)
