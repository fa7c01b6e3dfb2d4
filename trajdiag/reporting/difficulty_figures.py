"""The figures by difficulty: accuracy of each loop, signals, and where examples leave."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from trajdiag.reporting import curves
from trajdiag.reporting.axes_svg import Known, panel_of
from trajdiag.reporting.board import Board
from trajdiag.reporting.canvas import blank, corner
from trajdiag.reporting.difficulty_grid import Grid, difficulty_grid
from trajdiag.reporting.heat import Heat, heat_panel
from trajdiag.reporting.names import AS_SURPRISE, readout_label, shortened, visible
from trajdiag.reporting.numerals import loops, percent, plain
from trajdiag.reporting.palette import PAGE
from trajdiag.reporting.svg import LARGE, NARROW, WIDTH, Figure, Panel, Row


def accuracy_figure(board: Board) -> Figure:
    """One panel a store: accuracy of each loop at each difficulty."""
    panels, levels = [], board.by_difficulty
    for store in board.drawn:
        if (store, None, "accuracy") not in board.profile:
            continue
        grid = difficulty_grid(board, store, None, "accuracy")
        heat = Heat(
            shares=grid.values,
            difficulties=grid.difficulties,
            role=PAGE["ink"],
            width=WIDTH,
            left=36,
            right=12,
            outlined=_enough(grid, 1 / board.stores[store].classes),
            cells=grid.texts(_percentage),
        )
        alt = "accuracy by loop, %; " + grid.by_row(lambda v: percent(v, 0))
        panel = heat_panel(heat, name=f"accuracy-{store}", title=visible(store), alt=alt)
        if len(board.drawn) == 1:
            wide = dataclasses.replace(heat, width=LARGE)
            large = heat_panel(wide, name=f"accuracy-{store}-large", title=panel.title, alt=alt)
            panel = dataclasses.replace(panel, large=large)
        panels.append(panel)
    return Figure(
        name="accuracy",
        title="Accuracy by loop and difficulty, %" if levels else "Accuracy by loop, %",
        caption="Accuracy on test when every example leaves at that loop. The framed loop is the "
        "first within a point of the "
        + (
            "row’s best: where the frame moves right with difficulty, harder inputs need more "
            "loops."
            if levels
            else "best."
        )
        + " No frame is drawn where the best is not clearly above guessing, or is a later loop "
        "that is not clearly above loop 1." + board.undrawn,
        rows=(Row(title="", panels=tuple(panels)),),
        tables=("profile",),
    )


def signal_figure(board: Board) -> Figure:
    """A row a store, a column a kind of featured readout: the mean signal by loop, a line for each
    difficulty."""

    def draw(store: str, readout: str) -> Panel:
        grid = difficulty_grid(board, store, readout, "signal")
        ax = blank(NARROW, 180, left=40, right=22, top=30, bottom=34)
        curves.signal(ax, grid, board.roles[readout])
        ax.set_xlabel("loop")
        row = board.rows[store, readout]
        unit = visible(row.unit).partition(",")[0]
        unit += ", −log(1 − p)" if readout in AS_SURPRISE else ""
        # Side by side, units such as "nats of cumulative hazard" would run into the next panel.
        corner(ax, 1.06, f"{shortened(unit, 32)}\n{row.direction} means stop")
        return panel_of(
            ax,
            name=f"signal-{store}-{readout}",
            title=readout_label(readout),
            alt="mean signal by loop; " + grid.by_row(plain),
            unit=("loop", ""),
            known={name: _known(grid, row) for row, name in enumerate(grid.names)},
        )

    rows = _featured_rows(board, "signal", draw)
    return Figure(
        name="signals",
        title="Signal by loop and difficulty" if board.by_difficulty else "Signal by loop",
        caption="Mean value on test examples, with its interval"
        + (
            "; the thicker the line, the harder the examples (the easiest and the hardest are "
            "named where their lines end apart). A signal can tell examples apart only where its "
            "lines do."
            if board.by_difficulty
            else "."
        )
        + _left_out(board),
        rows=rows,
        columns=_most(rows),
        tables=("profile",),
    )


def exits_figure(board: Board) -> Figure:
    """A row a store, a column a kind of featured readout: where examples of each difficulty
    leave."""

    def draw(store: str, readout: str) -> Panel:
        grid = difficulty_grid(board, store, readout, "exits")
        means = _means(board, store, readout, grid)
        heat = Heat(
            shares=grid.values,
            difficulties=grid.difficulties,
            role=board.roles[readout],
            width=NARROW,
            left=24,
            right=64,
            margin=means,
            margin_head="mean",
            cells=grid.texts(_percentage),
        )
        alt = "mean exit loop; " + "; ".join(
            f"{name}: {mean}" for name, mean in zip(grid.names, means, strict=True)
        )
        name = f"exits-{store}-{readout}"
        return heat_panel(heat, name=name, title=readout_label(readout), alt=alt)

    rows = _featured_rows(board, "exits", draw)
    return Figure(
        name="exits",
        title="Exit distribution by difficulty, % of examples"
        if board.by_difficulty
        else "Exit distribution, % of examples",
        caption=f"Share of {'each difficulty’s' if board.by_difficulty else 'the'} test examples "
        "that leave at each loop, at the operating point; beside them their mean exit loop and "
        f"half the width of its interval.{_left_out(board)}",
        rows=rows,
        columns=_most(rows),
        tables=("profile",),
    )


def _enough(grid: Grid, chance: float) -> list[int | None]:
    """In each row the first column within a point of its best; none where the best is less than
    half above `chance` and its interval holds that, or where a later column's best has an interval
    that meets the first's."""
    found: list[int | None] = []
    low = np.where(np.isfinite(grid.low), grid.low, grid.values)
    high = np.where(np.isfinite(grid.high), grid.high, grid.values)
    for row, shares in enumerate(np.nan_to_num(grid.values, nan=-1.0)):
        best = int(np.argmax(shares))
        column = int(np.argmax(shares >= shares[best] - 0.01))
        # Of two distinct inputs that are always right the interval still holds a chance of 1/2.
        guessed = low[row, best] <= chance and shares[best] < 1.5 * chance
        later = column > 0 and low[row, best] <= high[row, 0]
        found.append(None if guessed or later or shares[best] < 0 else column)
    return found


def _known(grid: Grid, row: int) -> list[Known]:
    """The intervals of one difficulty, loop by loop."""
    return [
        Known(x=loop + 1, y=float(value), low=float(low), high=float(high))
        for loop, (value, low, high) in enumerate(
            zip(grid.values[row], grid.low[row], grid.high[row], strict=True)
        )
        if np.isfinite([value, low, high]).all()
    ]


def _means(board: Board, store: str, readout: str, exits: Grid) -> list[str]:
    """The mean exit loop of each difficulty and half its interval, as text."""
    found = {row.difficulty: row for row in board.profile.get((store, readout, "depth"), [])}
    texts = []
    for difficulty, shares in zip(exits.difficulties, exits.values, strict=True):
        row = found.get(difficulty)
        if row is None or row.low is None or row.high is None:
            texts.append(loops(float(np.nansum(shares * np.arange(1, len(shares) + 1)))))
        else:
            texts.append(f"{loops(row.value)} ±{loops((row.high - row.low) / 2)}")
    return texts


def _featured_rows(
    board: Board, quantity: str, draw: Callable[[str, str], Panel]
) -> tuple[Row, ...]:
    """A row for each store that is shown in full, less the columns that none of them fills."""
    has = {(store, name) for store, name, of in board.profile if of == quantity}
    names = [
        [name if (store, name) in has else None for name in board.featured(store)]
        for store in board.in_full
    ]
    columns = [column for column in zip(*names, strict=True) if any(column)]
    rows = [
        Row(
            title=visible(store),
            panels=tuple(None if name is None else draw(store, name) for name in row),
        )
        for store, row in zip(board.in_full, zip(*columns, strict=True), strict=False)
    ]
    return tuple(row for row in rows if any(row.panels))


def _most(rows: Sequence[Row]) -> int:
    """Panels side by side."""
    return max(3, *(len(row.panels) for row in rows), 0)


def _left_out(board: Board) -> str:
    return f" {board.left_out}" if board.left_out else ""


def _percentage(share: float) -> str:
    return f"{percent(share)}%"
