"""The figure of how far a probability can be taken at its word."""

import numpy as np
from matplotlib.axes import Axes

from trajdiag.reporting.axes_svg import Known, panel_of
from trajdiag.reporting.board import Board
from trajdiag.reporting.canvas import blank, percent_ticks
from trajdiag.reporting.curves import thickness, whiskers
from trajdiag.reporting.names import readout_label, visible
from trajdiag.reporting.numerals import percent
from trajdiag.reporting.palette import Role, light
from trajdiag.reporting.svg import NARROW, Figure, Panel, Row
from trajdiag.results import ReliabilityRow

MOST_LOOPS = 3
"""Lines in a panel: the first loop, one in the middle, the last."""
MOST_COLUMNS = 5


def reliability_figure(board: Board) -> Figure:
    """A row a store, a column a readout whose values are probabilities: accuracy against
    confidence, a line for each of a few loops."""
    columns = _columns(board)
    rows = [
        Row(
            title=visible(store),
            panels=tuple(
                _panel(board, store, name) if (store, name) in board.reliability else None
                for name in columns
            ),
        )
        for store in board.in_full
    ]
    return Figure(
        name="reliability",
        title="Reliability: how often a probability comes true",
        caption="Test examples in bins of equal size by confidence, at the first, a middle and the "
        "last loop: the thicker the line, the later the loop; upright strokes are intervals. On "
        "the diagonal a confidence means what it says; below it the readout is too sure. It is "
        "about being right, but for gates that were fitted to tell something else."
        + (f" {board.left_out}" if board.left_out else ""),
        rows=tuple(row for row in rows if any(row.panels)),
        columns=max(3, len(columns)),
        tables=("reliability",),
    )


def _columns(board: Board) -> list[str]:
    """The readouts that are drawn: of those with bins the featured ones first."""
    names = dict.fromkeys(name for _, name in board.rows)
    has = {name for store, name in board.reliability if store in board.in_full}
    featured = (name for store in board.in_full for name in board.featured(store))
    chosen = dict.fromkeys(name for name in (*featured, *names) if name in has)
    kept = set(list(chosen)[:MOST_COLUMNS])
    return [name for name in names if name in kept]


def _panel(board: Board, store: str, readout: str) -> Panel:
    by_loop = board.reliability[store, readout]
    loops = sorted(by_loop)
    places = np.linspace(0, len(loops) - 1, min(MOST_LOOPS, len(loops))).round().astype(int)
    shown = {loop: by_loop[loop] for loop in dict.fromkeys(loops[place] for place in places)}
    ax = blank(NARROW, 190, left=40, right=14, top=8, bottom=36)
    _draw(ax, shown, board.roles[readout])
    alt = "how often it comes true against confidence; " + "; ".join(
        f"loop {loop}: "
        + ", ".join(f"{percent(r.accuracy)}% come true at {percent(r.confidence)}%" for r in rows)
        for loop, rows in shown.items()
    )
    return panel_of(
        ax,
        name=f"reliability-{store}-{readout}",
        title=readout_label(readout),
        alt=alt,
        unit=("%", "%"),
        known={_series(loop): _known(rows) for loop, rows in shown.items()},
    )


def _series(loop: int) -> str:
    return f"loop {loop}"


def _known(rows: list[ReliabilityRow]) -> list[Known]:
    return [
        Known(x=row.confidence, y=row.accuracy, low=row.low, high=row.high)
        for row in rows
        if row.low is not None and row.high is not None
    ]


def _draw(ax: Axes, shown: dict[int, list[ReliabilityRow]], role: Role) -> None:
    ends = [v for rows in shown.values() for row in rows for v in (row.confidence, row.accuracy)]
    low = min(float(np.floor(10 * min(ends, default=0.0)) / 10), 0.9)
    ax.set(xlim=(low, 1), ylim=(low, 1))
    ax.grid(axis="y", color=light("faint"), linewidth=0.8)
    ax.spines.left.set_visible(False)
    ax.tick_params(axis="y", length=0)
    percent_ticks(ax.xaxis, low, 1.0, 4)
    percent_ticks(ax.yaxis, low, 1.0, 4)
    ax.set_xlabel("confidence")
    ax.plot([low, 1], [low, 1], color=light("muted"), linewidth=1, linestyle=(0, (2, 2)))
    for place, (loop, rows) in enumerate(shown.items()):
        confidence, accuracy = ([getattr(r, of) for r in rows] for of in ("confidence", "accuracy"))
        width = thickness(place, len(shown))
        ax.plot(
            confidence,
            accuracy,
            color=role.light,
            linewidth=width,
            marker="o",
            markersize=3,
            clip_on=False,
            gid=f"series:{_series(loop)}",
        )
        spanned = [r for r in rows if r.low is not None and r.high is not None]
        ends = (np.array([getattr(r, of) for r in spanned]) for of in ("confidence", "low", "high"))
        whiskers(ax, *ends, color=role.light)
        y = 0.9 - 0.085 * place
        ax.plot([0.04, 0.1], [y] * 2, color=role.light, linewidth=width, transform=ax.transAxes)
        ax.text(
            0.13,
            y,
            _series(loop),
            transform=ax.transAxes,
            fontsize=10,
            va="center_baseline",
            color=light("muted"),
        )
