"""The report's figures: which numbers go into which panel, with a text for who does not see
them."""

import dataclasses
from collections.abc import Mapping
from functools import partial

import numpy as np

from trajdiag.reporting import curves
from trajdiag.reporting.attribution_figure import attribution_figure
from trajdiag.reporting.axes_svg import Known, panel_of
from trajdiag.reporting.board import APART, IN_FULL, ORACLE, Board
from trajdiag.reporting.canvas import style, whole_ticks
from trajdiag.reporting.curves import Curve, Span
from trajdiag.reporting.difficulty_figures import accuracy_figure, exits_figure, signal_figure
from trajdiag.reporting.names import readout_label, visible
from trajdiag.reporting.numerals import loops, percent
from trajdiag.reporting.regret_figure import regret_figure
from trajdiag.reporting.reliability_figure import reliability_figure
from trajdiag.reporting.svg import LARGE, WIDTH, Figure, Panel, Row
from trajdiag.results import ScoreRow

_LINE = 0.005
"""Accuracy: what a curve's width covers."""
LEAST = 0.05
"""Accuracy that a frontier shows below its operating points, at least."""


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
    ranges = {store: _range(board, store) for store in board.drawn}
    panels, beaten = [], False
    for store in board.drawn:
        named = set(board.principals(store))
        readouts = [
            name
            for name in board.ranked(store)
            if (store, name) in board.frontier
            and (board.kind(name) != ORACLE or name == ORACLE)
            and (
                store in board.in_full
                or name in named | {*board.featured(store)}
                or board.kind(name) in ("fixed", *APART)
            )
        ]
        if not readouts:
            continue
        drawn = {name: _curve(board, store, name, name in named) for name in readouts}
        beaten = beaten or any(_above(rule, drawn.get("bound")) for rule in _rules(board, drawn))
        alt = "accuracy against mean exit depth; at the operating point " + ", ".join(
            f"{curve.label} {percent(curve.chosen[1])}% at {loops(curve.chosen[0])} loops"
            for curve in drawn.values()
            if curve.chosen
        )
        draw = partial(_panel, board, store, drawn, ranges[store], alt)
        panel = draw(f"frontier-{store}", WIDTH, 200)
        if len(board.drawn) == 1:
            panel = dataclasses.replace(panel, large=draw(f"frontier-{store}-large", LARGE, 280))
        panels.append(panel)
    return Figure(
        name="frontier",
        title="Accuracy against mean exit depth",
        caption="Frontiers on test, each a curve through at most 200 points of the exact one, "
        "which has all thresholds; thin lines are the remaining readouts"
        + (f" of the first {IN_FULL} stores" if board.left_out else "")
        + ". Dots and the numbers in the key are operating points, in loops, crosses their "
        f"{board.interval_percent}% intervals. Open circles force every example out at one loop. "
        "Dashed: the hindsight oracle, which leaves at the first right loop, and the learned "
        "bound, the best that was learned or scored at each depth"
        + (
            "; it is chosen on validation, so that on test a readout can lie above it."
            if beaten
            else "."
        )
        + " The axis shows the accuracies of the operating points and as far again below them: "
        "lower parts of the curves are cut off."
        + (
            " Stores of one task share a range of accuracy; other tasks have their own."
            if len(set(ranges.values())) > 1
            else ""
        )
        + board.undrawn,
        rows=(Row(title="", panels=tuple(panels)),),
        tables=("frontier", "scores"),
    )


def _panel(
    board: Board,
    store: str,
    drawn: Mapping[str, Curve],
    span: tuple[float, float],
    alt: str,
    name: str,
    wide: float,
    tall: float,
) -> Panel:
    """A store's curves by readout, on a canvas of this width and axes of this height, px."""
    ax = curves.frontier(
        _rules(board, drawn),
        drawn.get("fixed"),
        [drawn[limit] for limit in (ORACLE, "bound") if limit in drawn],
        last=board.stores[store].loops,
        low=span[0],
        high=span[1],
        tall=tall,
        wide=wide,
    )
    known = {
        curve.label: _known(board, store, readout, curve)
        for readout, curve in drawn.items()
        if store in board.in_full
    }
    return panel_of(ax, name=name, title=visible(store), alt=alt, unit=("loops", "%"), known=known)


def _rules(board: Board, drawn: Mapping[str, Curve]) -> list[Curve]:
    """What somebody can deploy."""
    return [curve for name, curve in drawn.items() if board.kind(name) not in ("fixed", *APART)]


def _range(board: Board, store: str) -> tuple[float, float]:
    """The ends of the accuracy axis of a store and of those of its task: all the operating points
    of the first screen with their intervals, hindsight, and as much below as lies between them;
    no more than is drawn."""
    alike = board.beside(store)
    drawn = [
        row.accuracy for (name, _), rows in board.frontier.items() if name in alike for row in rows
    ]
    points = [
        board.point(name, readout, "accuracy")
        for name in alike
        for readout in board.principals(name)
    ]
    ends = [end for row in points if row for end in (row.low, row.value, row.high)]
    shown = [end for end in ends if end is not None]
    if not (shown and drawn):
        return whole_ticks(min(drawn, default=0.0), 1.0, curves.TICKS)
    least, top = min(shown), max(*shown, *drawn)
    below = max(top - least, LEAST)
    return whole_ticks(max(min(drawn), least - below), top, curves.TICKS)


def _above(rule: Curve, bound: Curve | None) -> bool:
    """Whether a rule lies above the learned bound by more than a line's width somewhere."""
    if bound is None:
        return False
    there = np.interp(rule.depth, bound.depth, bound.accuracy)
    return bool((rule.accuracy > there + _LINE).any())


def _curve(board: Board, store: str, readout: str, main: bool) -> Curve:
    rows = board.frontier[store, readout]
    depth, accuracy = (_span(board.point(store, readout, of)) for of in ("depth", "accuracy"))
    return Curve(
        label=readout_label(readout),
        role=board.roles[readout],
        depth=np.array([row.depth for row in rows]),
        accuracy=np.array([row.accuracy for row in rows]),
        chosen=board.operating_point(store, readout),
        main=main,
        depth_span=depth,
        accuracy_span=accuracy,
    )


def _known(board: Board, store: str, readout: str, curve: Curve) -> list[Known]:
    """The intervals of the accuracy at every whole loop, and of the operating point."""
    found = []
    for loop in range(1, board.stores[store].loops + 1):
        row = board.score(store, readout, f"accuracy@depth={loop}")
        span = _span(row)
        if row is not None and row.value is not None and span is not None:
            found.append(Known(x=loop, y=row.value, low=span[0], high=span[1]))
    if curve.chosen is not None and curve.accuracy_span is not None:
        (x, y), (low, high) = curve.chosen, curve.accuracy_span
        found.append(Known(x=x, y=y, low=low, high=high, across=curve.depth_span))
    return found


def _span(row: ScoreRow | None) -> Span:
    return None if row is None or row.low is None or row.high is None else (row.low, row.high)
