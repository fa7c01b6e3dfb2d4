"""Figures of causes: whose a shortfall is, and where each readout's examples end up."""

from collections.abc import Callable

import numpy as np

from trajdiag.reporting import bars
from trajdiag.reporting.bars import ROW, SHORTFALL_ROW, Bar, Shortfall
from trajdiag.reporting.board import Board
from trajdiag.reporting.canvas import blank
from trajdiag.reporting.names import PART_LABELS, readout_label, visible
from trajdiag.reporting.numerals import loops, percent, signed
from trajdiag.reporting.palette import PARTS
from trajdiag.reporting.svg import WIDTH, Figure, Key, Panel, Row, panel_of
from trajdiag.results import ComparisonRow

CAUSES = {"trajectory": "trajectory", "readout": "early"}
"""The colour of each cause's bar."""
EDGES = {"left": 6.0, "right": 14.0, "top": 2.0, "bottom": 22.0}


def shortfall_figure(board: Board) -> Figure:
    """One panel a metric: how far each store falls short of its reference, and by what cause."""
    panels = [
        _shortfall_panel(board, "depth@matched", "extra loops at matched accuracy", "loops", loops),
        _shortfall_panel(
            board, "area", "accuracy points lost, mean over depth budgets", "points", percent
        ),
    ]
    return Figure(
        name="shortfall",
        title="Whose shortfall is it?",
        caption="The native gate against the reference’s best readout, with 95% intervals. What "
        "the store’s own best readout would save is the readout’s; what remains with it is the "
        "trajectory’s.",
        rows=(Row(title="", panels=tuple(panel for panel in panels if panel)),),
        keys=tuple(Key(role=role, label=cause) for cause, role in CAUSES.items()),
    )


def attribution_figure(board: Board) -> Figure:
    """Two panels a store: where its principal readouts' test examples end up, and how deep they
    run."""
    points = {store: _bars(board, store) for store in board.stores}
    worst = min((bar.shares["ok"] for rows in points.values() for bar in rows), default=0.0)
    step = 0.1 if worst < 0.9 else 0.05
    start = 0.0 if worst < 0.5 else float(np.floor(round((worst - step / 2) / step, 6)) * step)
    pairs = []
    for store, rows in points.items():
        if not rows:
            continue
        size = WIDTH, ROW * len(rows) + EDGES["top"] + EDGES["bottom"]
        ax = blank(*size, **EDGES)
        bars.attribution(ax, rows, start)
        alt = "; ".join(f"{bar.label}: {_shares_text(bar.shares)}" for bar in rows)
        shares = panel_of(
            ax, name=f"attribution-{store}", title="where test examples end up", alt=alt
        )
        ax = blank(*size, **EDGES)
        oracle = board.value(store, "oracle", "depth@final")
        bars.depths(ax, rows, board.stores[store].loops, oracle)
        alt = "; ".join(f"{bar.label}: {loops(bar.depth)} loops" for bar in rows)
        alt += f"; hindsight oracle: {loops(oracle)} loops" if oracle is not None else ""
        depth = panel_of(ax, name=f"depth-{store}", title="mean exit depth, loops", alt=alt)
        pairs.append(Row(title=visible(store), panels=(shares, depth)))
    return Figure(
        name="attribution",
        title="Attribution at the operating point",
        caption="Each readout at its operating point, on test. The readout loses an example when "
        "it leaves before the first right loop (early), or passes a right loop and leaves wrong "
        "(late). Tick: the hindsight oracle’s depth.",
        rows=tuple(pairs),
        keys=tuple(Key(role=part, label=PART_LABELS[part]) for part in PARTS),
    )


def _shortfall_panel(
    board: Board, metric: str, title: str, unit: str, text: Callable[[float], str]
) -> Panel | None:
    rows = board.results.comparisons
    parts = {
        cause: {_pair(row): row for row in rows if row.metric == f"{cause}_gap/{metric}"}
        for cause in CAUSES
    }
    blocks, alts = [], []
    for row in rows:
        found = {cause: of.get(_pair(row)) for cause, of in parts.items()}
        causes = tuple(
            (cause, CAUSES[cause], part.value, part.low, part.high)
            for cause, part in found.items()
            if part and part.value is not None
        )
        if row.metric != f"gap/{metric}" or row.value is None or len(causes) < len(CAUSES):
            continue
        store, total = visible(row.store), f"{signed(text(row.value))} {unit}"
        blocks.append(Shortfall(label=store, total=total, causes=causes))
        alts.append(
            f"{store}, {readout_label(row.readout)} against "
            f"{readout_label(row.reference_readout)} of {visible(row.reference)}: {total}, "
            "of which " + ", ".join(f"{cause} {text(value)}" for cause, _, value, _, _ in causes)
        )
    if not blocks:
        return None
    ax = blank(WIDTH, SHORTFALL_ROW * len(blocks) + EDGES["top"] + EDGES["bottom"], **EDGES)
    bars.shortfalls(ax, blocks, text)
    return panel_of(ax, name=f"shortfall-{metric}", title=title, alt="; ".join(alts))


def _pair(row: ComparisonRow) -> tuple[str, str, str, str]:
    return row.store, row.readout, row.reference, row.reference_readout


def _bars(board: Board, store: str) -> list[Bar]:
    found = []
    for name in board.principals(store):
        parts = board.shares.get((store, name))
        if parts is None:
            continue
        score = board.point(store, name, "depth")
        same = (
            score is not None
            and score.value is not None
            and abs(score.value - parts["ok"].depth) < 1e-6
        )
        found.append(
            Bar(
                label=readout_label(name),
                role=board.roles[name],
                shares={part: row.value for part, row in parts.items()},
                depth=parts["ok"].depth,
                low=score.low if score and same else None,
                high=score.high if score and same else None,
            )
        )
    return found


def _shares_text(shares: dict[str, float]) -> str:
    return ", ".join(f"{PART_LABELS[part]} {percent(shares[part])}%" for part in PARTS)
