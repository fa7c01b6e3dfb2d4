"""The report's figures: which numbers go into which panel, with a text for who does not see
them."""

from collections.abc import Callable

import numpy as np

from trajdiag.reporting import curves
from trajdiag.reporting.attribution_figure import attribution_figure
from trajdiag.reporting.board import APART, ORACLE, Board
from trajdiag.reporting.canvas import blank, corner, style
from trajdiag.reporting.curves import Curve
from trajdiag.reporting.heat import heat
from trajdiag.reporting.names import readout_label, shortened, visible
from trajdiag.reporting.numerals import loops, percent, plain, tick
from trajdiag.reporting.palette import PAGE, light
from trajdiag.reporting.regret_figure import regret_figure
from trajdiag.reporting.reliability_figure import reliability_figure
from trajdiag.reporting.svg import NARROW, WIDTH, Figure, Panel, Row, panel_of


def draw_figures(board: Board) -> list[Figure]:
    """All figures that the results have numbers for, in the report's order."""
    with style():
        figures = [
            regret_figure(board),
            attribution_figure(board),
            frontier_figure(board),
            accuracy_figure(board),
            signal_figure(board),
            exits_figure(board),
            reliability_figure(board),
        ]
    return [figure for figure in figures if figure.panels]


def frontier_figure(board: Board) -> Figure:
    """One panel a store: the exact frontier of every readout, forced exits, the oracle and the
    learned bound."""
    featured = set(board.featured())
    shown = [
        row.accuracy
        for (_, readout), rows in board.frontier.items()
        if readout == "fixed"
        for row in rows
    ]
    shown = shown or [row.accuracy for rows in board.frontier.values() for row in rows]
    low = float(np.floor(10 * min(shown, default=0.0) - 0.2) / 10)
    panels = []
    for store, row in board.stores.items():
        readouts = [
            name
            for name in board.ranked(store)
            if (store, name) in board.frontier and (board.kind(name) != ORACLE or name == ORACLE)
        ]
        if not readouts:
            continue
        named = featured | set(board.principals(store))
        drawn = {name: _curve(board, store, name, name in named) for name in readouts}
        rules = [
            curve for name, curve in drawn.items() if board.kind(name) not in ("fixed", *APART)
        ]
        ax = blank(WIDTH, 280, left=36, right=12, top=8, bottom=36)
        curves.frontier(
            ax,
            rules,
            drawn.get("fixed"),
            [drawn[name] for name in (ORACLE, "bound") if name in drawn],
            row.loops,
            max(low, 0.0),
        )
        ax.set_xlabel("mean exit depth (loops)")
        alt = "accuracy against mean exit depth; at the operating point " + ", ".join(
            f"{curve.label} {percent(curve.chosen[1])}% at {loops(curve.chosen[0])} loops"
            for curve in drawn.values()
            if curve.chosen
        )
        panels.append(panel_of(ax, name=f"frontier-{store}", title=visible(store), alt=alt))
    return Figure(
        name="frontier",
        title="Accuracy against mean exit depth",
        caption="Exact frontiers on test, all thresholds of a readout as one curve; thin lines "
        "are the remaining readouts. Dots and the numbers in the key are operating points, in "
        "loops. Open circles force every example out at one loop. Dashed: the hindsight oracle, "
        "which leaves at the first right loop, and the learned bound, the best that was learned "
        "or scored at each depth.",
        rows=(Row(title="", panels=tuple(panels)),),
    )


def accuracy_figure(board: Board) -> Figure:
    """One panel a store: accuracy of each loop at each difficulty."""
    panels = []
    for store in board.stores:
        if (store, None, "accuracy") not in board.profile:
            continue
        difficulties, shares = _grid(board, store, None, "accuracy")
        needed = [int(np.argmax(r >= np.max(r) - 0.01)) for r in np.nan_to_num(shares, nan=-1.0)]
        ax = blank(WIDTH, _heat_height(len(difficulties)), left=36, right=12, top=18, bottom=36)
        heat(ax, shares, difficulties, PAGE["ink"], outlined=needed)
        ax.set_xlabel("loop")
        corner(ax, 1.0, "difficulty")
        alt = "; ".join(
            f"difficulty {tick(d)}: {', '.join(percent(float(s)) for s in r)}% by loop"
            for d, r in zip(difficulties, shares, strict=True)
        )
        panels.append(panel_of(ax, name=f"accuracy-{store}", title=visible(store), alt=alt))
    return Figure(
        name="accuracy",
        title="Accuracy by loop and difficulty, %",
        caption="Accuracy on test when every example leaves at that loop. The framed loop is the "
        "first within a point of the row’s best: where the frame moves right with difficulty, "
        "harder inputs need more loops.",
        rows=(Row(title="", panels=tuple(panels)),),
    )


def signal_figure(board: Board) -> Figure:
    """A row a store, a column a featured readout: the mean signal by loop, a line for each
    difficulty."""

    def draw(store: str, readout: str) -> Panel:
        difficulties, values = _grid(board, store, readout, "signal")
        ax = blank(NARROW, 180, left=40, right=22, top=30, bottom=34)
        curves.signal(ax, values, difficulties, board.roles[readout])
        ax.set_xlabel("loop")
        row = board.rows[store, readout]
        unit = visible(row.unit).partition(",")[0]
        # Side by side, units such as "nats of cumulative hazard" would run into the next panel.
        corner(ax, 1.06, f"{shortened(unit, 32)}\n{row.direction} means stop")
        alt = "mean signal by loop; " + "; ".join(
            f"difficulty {tick(d)}: {', '.join(plain(float(v)) for v in r)}"
            for d, r in zip(difficulties, values, strict=True)
        )
        return panel_of(ax, name=f"signal-{store}-{readout}", title=readout_label(readout), alt=alt)

    return Figure(
        name="signals",
        title="Signal by loop and difficulty",
        caption="Mean value on test examples; the stronger the line, the harder the examples "
        "(the easiest and the hardest are named). A signal can tell examples apart only where "
        "its lines do.",
        rows=_featured_rows(board, "signal", draw),
        columns=max(3, len(board.featured())),
    )


def exits_figure(board: Board) -> Figure:
    """A row a store, a column a featured readout: where examples of each difficulty leave."""

    def draw(store: str, readout: str) -> Panel:
        difficulties, shares = _grid(board, store, readout, "exits")
        last = board.stores[store].loops
        means = [float(np.nansum(r * np.arange(1, last + 1))) for r in shares]
        ax = blank(NARROW, _heat_height(len(difficulties)), left=24, right=38, top=18, bottom=34)
        heat(ax, shares, difficulties, board.roles[readout], margin=[loops(m) for m in means])
        ax.set_xlabel("loop")
        corner(ax, 1.0, "difficulty")
        ax.text(last + 0.62, -0.62, "mean", fontsize=10, color=light("muted"))
        alt = "; ".join(
            f"difficulty {tick(d)}: mean exit {loops(m)} loops"
            for d, m in zip(difficulties, means, strict=True)
        )
        return panel_of(ax, name=f"exits-{store}-{readout}", title=readout_label(readout), alt=alt)

    return Figure(
        name="exits",
        title="Exit distribution by difficulty, % of examples",
        caption="Share of each difficulty’s test examples that leave at each loop, at the "
        "operating point, with their mean depth in loops.",
        rows=_featured_rows(board, "exits", draw),
        columns=max(3, len(board.featured())),
    )


def _curve(board: Board, store: str, readout: str, main: bool) -> Curve:
    rows = board.frontier[store, readout]
    return Curve(
        label=readout_label(readout),
        role=board.roles[readout],
        depth=np.array([row.depth for row in rows]),
        accuracy=np.array([row.accuracy for row in rows]),
        chosen=board.operating_point(store, readout),
        main=main,
    )


def _grid(
    board: Board, store: str, readout: str | None, quantity: str
) -> tuple[list[float], np.ndarray]:
    """Difficulties in order, and the values [difficulty, loop], NaN where there is none."""
    rows, last = board.profile[store, readout, quantity], board.stores[store].loops
    difficulties = sorted({row.difficulty for row in rows})
    values = np.full((len(difficulties), last), np.nan)
    for row in rows:
        if row.value is not None and 1 <= row.loop <= last:
            values[difficulties.index(row.difficulty), row.loop - 1] = row.value
    return difficulties, values


def _featured_rows(
    board: Board, quantity: str, draw: Callable[[str, str], Panel]
) -> tuple[Row, ...]:
    """A row a store; a readout that some store has keeps its column in all."""
    has = {(store, readout) for store, readout, of in board.profile if of == quantity}
    columns = [
        name for name in board.featured() if any((store, name) in has for store in board.stores)
    ]
    rows = [
        Row(
            title=visible(store),
            panels=tuple(draw(store, name) if (store, name) in has else None for name in columns),
        )
        for store in board.stores
    ]
    return tuple(row for row in rows if any(row.panels))


def _heat_height(rows: int) -> float:
    return 54.0 + min(20 * rows, max(13 * rows, 240), 400)
