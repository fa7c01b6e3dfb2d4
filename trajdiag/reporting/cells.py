"""What tables are made of: a number with its interval as text."""

from collections.abc import Iterable
from dataclasses import dataclass

from trajdiag.reporting.board import Board
from trajdiag.reporting.names import readout_label
from trajdiag.reporting.numerals import MISSING, bracketed, metric_text, p_value, signed
from trajdiag.results import ComparisonRow, ScoreRow


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
    """One entry; `interval`, `notes` and `whisker` belong to its number."""

    text: str
    interval: str = ""
    notes: tuple[str, ...] = ()
    """Lines below the number, such as what the data can tell."""
    role: str | None = None
    """Of a swatch before the text: the readout's colour."""
    whisker: Whisker | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under a head; the first column names the row."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


def readout_cell(board: Board, readout: str) -> Cell:
    """The readout's name with its swatch."""
    return Cell(text=readout_label(readout), role=role_of(board, readout))


def role_of(board: Board, readout: str) -> str | None:
    """The name of the readout's colour, if it has one."""
    role = board.roles.get(readout)
    return role.name if role else None


def score_cell(row: ScoreRow | None, metric: str) -> Cell:
    """A score; empty where it was not computed."""
    return Cell(text="") if row is None else number_cell(metric, row.value, row.low, row.high)


def number_cell(
    metric: str, value: float | None, low: float | None, high: float | None, decimals: int = 1
) -> Cell:
    """A number in its metric's unit; one that is missing beside a bound is not reached."""
    missed = value is None and low is not None
    return Cell(
        text="not reached" if missed else metric_text(metric, value, decimals),
        interval=bracketed(low, high, lambda end: metric_text(metric, end, decimals)),
    )


def difference_cell(row: ComparisonRow | None, scale: float, alpha: float) -> Cell:
    """A difference by how much, with its interval, its p values, and whether the data can tell;
    `scale` is the largest number in its column."""
    if row is None:
        return Cell(text="")
    if row.value is None:
        return Cell(text=MISSING)

    def text(value: float) -> str:
        return signed(metric_text(row.metric, value, 2))

    return Cell(
        text=text(row.value),
        interval=bracketed(row.low, row.high, text),
        notes=tuple(filter(None, (told(row, alpha), _p_values(row)))),
        whisker=_whisker(row, scale),
    )


def told(row: ComparisonRow, alpha: float) -> str:
    """What is said plainly of a difference that the data cannot tell from none; empty where it is
    clear."""
    if row.low is None and row.high is None:
        return ""
    if row.value == row.low == row.high == 0:
        return "the same"
    if not clear(row):
        return "cannot tell"
    adjusted = row.p_adjusted is not None and row.p_adjusted > alpha
    return "cannot tell after Holm" if adjusted else ""


def clear(row: ComparisonRow) -> bool:
    """Whether the interval leaves out zero."""
    return (row.low is not None and row.low > 0) or (row.high is not None and row.high < 0)


def scale_of(rows: Iterable[ComparisonRow]) -> float:
    """The largest number among values and bounds."""
    ends = [abs(v) for row in rows for v in (row.low, row.value, row.high) if v is not None]
    return max(ends, default=0.0)


def _p_values(row: ComparisonRow) -> str:
    if row.p is None:
        return ""
    raw = p_value(row.p)
    raw = f"p {raw}" if raw.startswith("<") else f"p = {raw}"
    return raw if row.p_adjusted is None else f"{raw} (Holm {p_value(row.p_adjusted)})"


def _whisker(row: ComparisonRow, scale: float) -> Whisker | None:
    if row.value is None or row.low is None or row.high is None or scale <= 0:
        return None
    low, value, high = (50 + 48 * v / scale for v in (row.low, row.value, row.high))
    return Whisker(zero=50, low=low, value=value, high=high, clear=clear(row))
