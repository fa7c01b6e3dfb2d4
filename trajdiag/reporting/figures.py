"""The report's figures: which numbers go into which panel, with a text for who does not see them."""

from collections.abc import Callable

import numpy as np

from trajdiag.reporting import drawing
from trajdiag.reporting.board import Board
from trajdiag.reporting.drawing import ROW, Bar, Curve, Shortfall
from trajdiag.reporting.names import PART_LABELS, readout_label, visible
from trajdiag.reporting.numerals import loops, percent, plain, signed, tick
from trajdiag.reporting.palette import PAGE, PARTS
from trajdiag.reporting.svg import Figure, Key, Panel, Row, panel

WIDTH = 324
NARROW = 232


def draw_figures(board: Board) -> list[Figure]:
    """All figures that the results have numbers for, in the report's order."""
    with drawing.style():
        figures = [
            shortfall_figure(board),
            attribution_figure(board),
            frontier_figure(board),
            accuracy_figure(board),
            signal_figure(board),
            exits_figure(board),
        ]
    return [figure for figure in figures if figure.panels]


def shortfall_figure(board: Board) -> Figure:
    """One panel a metric: how far each store's readout falls short of the reference, and by what cause."""
    panels = []
    for metric, title, unit, text in (
        ("depth@matched", "extra loops at matched accuracy", "loops", loops),
        ("area", "accuracy points lost, mean over depth budgets", "points", percent),
    ):
        gaps = {
            (row.metric.partition("_gap/")[0], row.store, row.readout, row.reference, row.reference_readout): row
            for row in board.results.comparisons
            if row.metric in (f"gap/{metric}", f"trajectory_gap/{metric}", f"readout_gap/{metric}")
            and row.value is not None
        }
        blocks, alts = [], []
        for (kind, *pair), row in gaps.items():
            parts = [(name, gaps.get((name, *pair))) for name in ("trajectory", "readout")]
            if kind != f"gap/{metric}" or any(part is None for _, part in parts):
                continue
            causes = tuple(
                (name, role, part.value, part.low, part.high)
                for (name, part), role in zip(parts, ("trajectory", "early"), strict=True)
                if part is not None and part.value is not None
            )
            total = f"{signed(text(row.value))} {unit}"
            blocks.append(Shortfall(label=visible(row.store), total=total, causes=causes))
            alts.append(
                f"{visible(row.store)}, {readout_label(row.readout)} against {readout_label(row.reference_readout)} "
                f"of {visible(row.reference)}: {total}, of which "
                + ", ".join(f"{name} {text(value)}" for name, _, value, _, _ in causes)
            )
        if blocks:
            height = drawing.SHORTFALL_ROW * len(blocks) + 24.0
            ax = drawing.blank(WIDTH, height, left=6, right=14, top=2, bottom=22)
            drawing.shortfalls(ax, blocks, text)
            panels.append(_panel(ax, f"shortfall-{metric}", title, "; ".join(alts)))
    return Figure(
        name="shortfall",
        title="Whose shortfall is it?",
        caption="Native gate against the reference’s best readout, on the same test examples, with 95% intervals. "
        "What the store’s own best readout would save is the readout’s; what remains with it is the trajectory’s.",
        rows=(Row(title="", panels=tuple(panels)),),
        keys=(Key(role="trajectory", label="trajectory"), Key(role="early", label="readout")),
    )


def attribution_figure(board: Board) -> Figure:
    """Two panels a store: where its principal readouts' test examples end up, and how deep they run."""
    bars = {store: _bars(board, store) for store in board.stores}
    worst = min((bar.shares["ok"] for rows in bars.values() for bar in rows), default=0.0)
    step = 0.1 if worst < 0.9 else 0.05
    start = 0.0 if worst < 0.5 else float(np.floor(round((worst - step / 2) / step, 6)) * step)
    pairs = []
    for store, rows in bars.items():
        if not rows:
            continue
        size = {"width": WIDTH, "height": ROW * len(rows) + 24.0}
        edges = {"left": 6, "right": 14, "top": 2, "bottom": 22}
        ax = drawing.blank(**size, **edges)
        drawing.attribution(ax, rows, start)
        alt = "; ".join(f"{bar.label}: {_shares_text(bar.shares)}" for bar in rows)
        shares = _panel(ax, f"attribution-{store}", "where test examples end up", alt)
        ax = drawing.blank(**size, **edges)
        oracle = board.value(store, "oracle", "depth@final")
        drawing.depths(ax, rows, board.stores[store].loops, oracle)
        alt = "; ".join(f"{bar.label}: {loops(bar.depth)} loops" for bar in rows)
        alt += f"; hindsight oracle: {loops(oracle)} loops" if oracle is not None else ""
        depth = _panel(ax, f"depth-{store}", "mean exit depth, loops", alt)
        pairs.append(Row(title=visible(store), panels=(shares, depth)))
    return Figure(
        name="attribution",
        title="Attribution at the operating point",
        caption="Each readout at its operating point, on test. The readout loses an example when it leaves "
        "before the first right loop (early), or passes a right loop and leaves wrong (late). Tick: the hindsight oracle’s depth.",
        rows=tuple(pairs),
        keys=tuple(Key(role=part, label=PART_LABELS[part]) for part in PARTS),
    )


def frontier_figure(board: Board) -> Figure:
    """One panel a store: the exact frontier of every readout, forced exits and the oracle."""
    featured = set(board.featured())
    shown = [row.accuracy for (_, readout), rows in board.frontier.items() if readout == "fixed" for row in rows]
    shown = shown or [row.accuracy for rows in board.frontier.values() for row in rows]
    low = float(np.floor(10 * min(shown, default=0.0) - 0.2) / 10)
    panels = []
    for store, row in board.stores.items():
        readouts = [name for name in board.ranked(store) if (store, name) in board.frontier]
        if not readouts:
            continue
        curves = {name: _curve(board, store, name, name in featured) for name in readouts}
        rules = [curve for name, curve in curves.items() if name not in ("fixed", "oracle")]
        ax = drawing.blank(WIDTH, 280, left=36, right=12, top=8, bottom=36)
        drawing.frontier(ax, rules, curves.get("fixed"), curves.get("oracle"), row.loops, max(low, 0.0))
        ax.set_xlabel("mean exit depth (loops)")
        alt = "accuracy against mean exit depth; at the operating point " + ", ".join(
            f"{curve.label} {percent(curve.chosen[1])}% at {loops(curve.chosen[0])} loops"
            for curve in curves.values()
            if curve.chosen
        )
        panels.append(_panel(ax, f"frontier-{store}", visible(store), alt))
    return Figure(
        name="frontier",
        title="Accuracy against mean exit depth",
        caption="Exact frontiers on test, all thresholds of a readout as one curve; thin lines are the remaining "
        "readouts. Dots and the numbers in the key are operating points, in loops. Open circles force every "
        "example out at one loop; the dashed line is the hindsight oracle, which leaves at the first right loop.",
        rows=(Row(title="", panels=tuple(panels)),),
    )


def accuracy_figure(board: Board) -> Figure:
    """One panel a store: accuracy of each loop at each difficulty."""
    panels = []
    for store in board.stores:
        if (store, None, "accuracy") not in board.profile:
            continue
        difficulties, shares = _grid(board, store, None, "accuracy")
        needed = [int(np.argmax(np.nan_to_num(r, nan=-1) >= np.nanmax(r) - 0.005)) for r in shares]
        ax = drawing.blank(WIDTH, _heat_height(len(difficulties)), left=36, right=12, top=18, bottom=36)
        drawing.heat(ax, shares, difficulties, PAGE["ink"], outlined=needed)
        ax.set_xlabel("loop")
        _corner(ax, 1.0, "difficulty")
        alt = "; ".join(
            f"difficulty {tick(d)}: {', '.join(percent(float(s)) for s in r)}% by loop"
            for d, r in zip(difficulties, shares, strict=True)
        )
        panels.append(_panel(ax, f"accuracy-{store}", visible(store), alt))
    return Figure(
        name="accuracy",
        title="Accuracy by loop and difficulty, %",
        caption="Accuracy on test when every example leaves at that loop. The underlined loop is the first within "
        "half a point of the row’s best: where it moves right with difficulty, harder inputs need more loops.",
        rows=(Row(title="", panels=tuple(panels)),),
    )


def signal_figure(board: Board) -> Figure:
    """A row a store, a column a featured readout: the mean signal by loop, a line for each difficulty."""

    def draw(store: str, readout: str) -> Panel:
        difficulties, values = _grid(board, store, readout, "signal")
        ax = drawing.blank(NARROW, 168, left=40, right=10, top=18, bottom=34)
        drawing.signal(ax, values, difficulties, board.roles[readout])
        ax.set_xlabel("loop")
        _corner(ax, 1.06, board.rows[store, readout].unit)
        alt = "mean signal by loop; " + "; ".join(
            f"difficulty {tick(d)}: {', '.join(plain(float(v)) if np.isfinite(v) else '–' for v in r)}"
            for d, r in zip(difficulties, values, strict=True)
        )
        return _panel(ax, f"signal-{store}-{readout}", readout_label(readout), alt)

    return Figure(
        name="signals",
        title="Signal by loop and difficulty",
        caption="Mean value on test examples; the stronger the line, the harder the examples. A signal can tell "
        "examples apart only where its lines do.",
        rows=_featured_rows(board, "signal", draw),
        columns=max(3, len(board.featured())),
    )


def exits_figure(board: Board) -> Figure:
    """A row a store, a column a featured readout: where examples of each difficulty leave."""

    def draw(store: str, readout: str) -> Panel:
        difficulties, shares = _grid(board, store, readout, "exits")
        last = board.stores[store].loops
        means = [float(np.nansum(r * np.arange(1, last + 1))) for r in shares]
        ax = drawing.blank(NARROW, _heat_height(len(difficulties)), left=24, right=38, top=18, bottom=34)
        drawing.heat(ax, shares, difficulties, board.roles[readout], margin=[loops(m) for m in means])
        ax.set_xlabel("loop")
        _corner(ax, 1.0, "difficulty")
        ax.text(last + 0.62, -0.62, "mean", fontsize=10, color=drawing.light("muted"))
        alt = "; ".join(
            f"difficulty {tick(d)}: mean exit {loops(m)} loops" for d, m in zip(difficulties, means, strict=True)
        )
        return _panel(ax, f"exits-{store}-{readout}", readout_label(readout), alt)

    return Figure(
        name="exits",
        title="Exit distribution by difficulty, % of examples",
        caption="Share of each difficulty’s test examples that leave at each loop, at the operating point, with "
        "their mean depth in loops.",
        rows=_featured_rows(board, "exits", draw),
        columns=max(3, len(board.featured())),
    )


def _bars(board: Board, store: str) -> list[Bar]:
    bars = []
    for name in board.principals(store):
        parts = board.shares.get((store, name))
        if parts is None:
            continue
        score = board.score(store, name, "depth@final")
        same = score is not None and score.value is not None and abs(score.value - parts["ok"].depth) < 1e-6
        bars.append(
            Bar(
                label=readout_label(name),
                role=board.roles[name],
                shares={part: row.value for part, row in parts.items()},
                depth=parts["ok"].depth,
                low=score.low if score and same else None,
                high=score.high if score and same else None,
            )
        )
    return bars


def _curve(board: Board, store: str, readout: str, main: bool) -> Curve:
    rows = board.frontier[store, readout]
    depth, accuracy = (board.value(store, readout, f"{what}@final") for what in ("depth", "accuracy"))
    return Curve(
        label=readout_label(readout),
        role=board.roles[readout],
        depth=np.array([row.depth for row in rows]),
        accuracy=np.array([row.accuracy for row in rows]),
        chosen=(depth, accuracy) if depth is not None and accuracy is not None else None,
        main=main,
    )


def _grid(board: Board, store: str, readout: str | None, quantity: str) -> tuple[list[float], np.ndarray]:
    """Difficulties in order, and the values [difficulty, loop], NaN where there is none."""
    rows, last = board.profile[store, readout, quantity], board.stores[store].loops
    difficulties = sorted({row.difficulty for row in rows})
    values = np.full((len(difficulties), last), np.nan)
    for row in rows:
        if row.value is not None and 1 <= row.loop <= last:
            values[difficulties.index(row.difficulty), row.loop - 1] = row.value
    return difficulties, values


def _featured_rows(board: Board, quantity: str, draw: Callable[[str, str], Panel]) -> tuple[Row, ...]:
    """A row a store; a readout that some store has keeps its column in all."""
    has = {(store, readout) for store, readout, of in board.profile if of == quantity}
    columns = [name for name in board.featured() if any((store, name) in has for store in board.stores)]
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


def _corner(ax: drawing.Axes, y: float, text: str) -> None:
    ax.text(0, y, text, transform=ax.transAxes, fontsize=10, va="bottom", color=drawing.light("muted"))


def _shares_text(shares: dict[str, float]) -> str:
    return ", ".join(f"{PART_LABELS[part]} {percent(shares[part])}%" for part in PARTS)


def _panel(ax: drawing.Axes, name: str, title: str, alt: str) -> Panel:
    return panel(ax.get_figure(root=True), name=name, title=title, alt=alt)
