"""The figure of where each readout's examples end up."""

import numpy as np

from trajdiag.reporting import bars
from trajdiag.reporting.axes_svg import panel_of
from trajdiag.reporting.bars import ROW, Bar
from trajdiag.reporting.board import Board
from trajdiag.reporting.canvas import blank
from trajdiag.reporting.names import PART_LABELS, readout_label, visible
from trajdiag.reporting.numerals import loops, percent
from trajdiag.reporting.palette import PARTS
from trajdiag.reporting.svg import WIDTH, Figure, Key, Row

EDGES = {"left": 13.0, "right": 17.0, "top": 2.0, "bottom": 22.0}


def attribution_figure(board: Board) -> Figure:
    """Two panels a store: where its principal readouts' test examples end up, and how deep they
    run."""
    points = {store: _bars(board, store) for store in board.drawn}
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
        "(late). Tick: the hindsight oracle’s depth." + board.undrawn,
        rows=tuple(pairs),
        keys=tuple(Key(role=part, label=PART_LABELS[part]) for part in PARTS),
        tables=("diagnosis", "scores"),
    )


def _bars(board: Board, store: str) -> list[Bar]:
    found = []
    for name in board.principals(store):
        parts = board.shares[store, name]
        depth, score = parts["ok"].depth, board.point(store, name, "depth")
        if depth is None:
            continue
        same = score is not None and score.value is not None and abs(score.value - depth) < 1e-6
        found.append(
            Bar(
                label=readout_label(name),
                role=board.roles[name],
                shares={part: row.value for part, row in parts.items()},
                depth=depth,
                low=score.low if score and same else None,
                high=score.high if score and same else None,
            )
        )
    return found


def _shares_text(shares: dict[str, float]) -> str:
    return ", ".join(f"{PART_LABELS[part]} {percent(shares[part])}%" for part in PARTS)
