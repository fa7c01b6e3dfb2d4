"""Curves: accuracy against depth, and signals by loop."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from trajdiag.reporting.canvas import height, loop_axis, percent_ticks
from trajdiag.reporting.difficulty_grid import Grid
from trajdiag.reporting.names import shortened
from trajdiag.reporting.numerals import loops, tick
from trajdiag.reporting.palette import Dash, Role, light

DASHED: Dash = (0, (2, 2))
"""The line style of limits, whatever their colour."""


Span = tuple[float, float] | None
"""The ends of an interval."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A readout's operating points in order of depth."""

    label: str
    role: Role
    depth: np.ndarray
    accuracy: np.ndarray
    chosen: tuple[float, float] | None
    """Depth and accuracy of the operating point."""
    main: bool
    """Drawn in full strength, and named."""
    depth_span: Span = None
    """The interval of the operating point's depth."""
    accuracy_span: Span = None


def frontier(
    ax: Axes,
    curves: Sequence[Curve],
    fixed: Curve | None,
    limits: Sequence[Curve],
    last: int,
    low: float,
) -> None:
    """Accuracy against mean depth: every threshold of every readout, forced exits, and dashed the
    `limits` that no readout at hand reaches."""
    ax.set_ylim(low, 1.0)
    ax.grid(axis="y", color=light("faint"), linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines.left.set_visible(False)
    ax.tick_params(axis="y", length=0)
    loop_axis(ax, last)
    percent_ticks(ax.yaxis, low, 1.0, 4)
    for curve in limits:
        ax.plot(
            curve.depth,
            curve.accuracy,
            color=curve.role.light,
            linewidth=1.2,
            linestyle=DASHED,
            gid=_series(curve),
        )
    if fixed is not None:
        ax.plot(
            fixed.depth,
            fixed.accuracy,
            "-",
            color=light("fixed"),
            linewidth=1,
            gid=_series(fixed),
        )
        ax.plot(
            fixed.depth,
            fixed.accuracy,
            "o",
            markersize=5.5,
            mfc=light("paper"),
            mec=light("fixed"),
            clip_on=False,
            gid=f"key:{fixed.label}",
        )
    for curve in sorted(curves, key=lambda c: c.main):
        ax.plot(
            curve.depth,
            curve.accuracy,
            linestyle=curve.role.dash if curve.main else "-",
            color=curve.role.light,
            linewidth=1.9 if curve.main else 0.6,
            gid=_series(curve),
        )
    for curve in curves:
        if curve.main and curve.chosen:
            _operating_point(ax, curve, curve.chosen)
    _frontier_key(ax, [c for c in curves if c.main], fixed, limits)


def _operating_point(ax: Axes, curve: Curve, chosen: tuple[float, float]) -> None:
    """A dot, with the intervals of its depth and accuracy as a cross."""
    cross = {"color": curve.role.light, "linewidth": 1.2, "gid": f"key:{curve.label}"}
    depth, accuracy = chosen
    if curve.depth_span is not None:
        ax.plot(curve.depth_span, [accuracy] * 2, **cross)
    if curve.accuracy_span is not None:
        ax.plot([depth] * 2, curve.accuracy_span, **cross)
    ax.plot(
        depth,
        accuracy,
        "o",
        color=curve.role.light,
        mec=light("paper"),
        markersize=6.5,
        clip_on=False,
        gid=f"key:{curve.label}",
    )


def _series(curve: Curve) -> str:
    return f"series:{curve.label}"


def signal(ax: Axes, grid: Grid, role: Role) -> None:
    """Mean signal by loop with its intervals, one line a difficulty: the thicker the harder."""
    values = grid.values
    rows, last = values.shape
    ax.grid(axis="y", color=light("faint"), linewidth=0.8)
    ax.spines.left.set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.locator_params(axis="y", nbins=4)
    ax.yaxis.set_major_formatter(lambda value, _: tick(value))
    loop_axis(ax, last)
    loop = np.arange(1, last + 1)
    for row in range(rows):
        known = np.isfinite(values[row])
        ax.plot(
            loop[known],
            values[row, known],
            color=role.light,
            linewidth=thickness(row, rows),
            clip_on=False,
            gid=f"series:difficulty {tick(grid.difficulties[row])}",
        )
        spanned = known & np.isfinite(grid.low[row])
        whiskers(
            ax, loop[spanned], grid.low[row, spanned], grid.high[row, spanned], color=role.light
        )
    _name_ends(ax, values, grid.difficulties)


def thickness(place: int, of: int) -> float:
    """The width of a line among several in order, px: the last is the thickest."""
    most = 2.4 if of < 8 else 1.5  # more lines lie closer
    return 1.9 if of == 1 else 0.7 + (most - 0.7) * place / (of - 1)


def whiskers(ax: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, *, color: str) -> None:
    """Intervals as upright strokes; what is above or below the axes is cut off."""
    # One path for all: as many strokes of their own would be most of the drawing.
    xs = np.column_stack([x, x, np.full(len(x), np.nan)]).ravel()
    ys = np.column_stack([low, high, np.full(len(x), np.nan)]).ravel()
    ax.plot(xs, ys, color=color, linewidth=1.1, solid_capstyle="butt", scalex=False)


def _name_ends(ax: Axes, values: np.ndarray, difficulties: Sequence[float]) -> None:
    """The easiest and the hardest difficulty beside their last points, where there is room for
    both."""
    low, high = ax.get_ylim()
    room = 11 * (high - low) / height(ax)
    taken: list[float] = []
    for row in dict.fromkeys((0, len(difficulties) - 1)):
        known = np.flatnonzero(np.isfinite(values[row]))
        if len(known) and all(abs(values[row, known[-1]] - y) > room for y in taken):
            taken.append(float(values[row, known[-1]]))
            ax.annotate(
                tick(difficulties[row]),
                (known[-1] + 1, taken[-1]),
                (5, 0),
                textcoords="offset points",
                va="center_baseline",
                fontsize=10,
                color=light("muted"),
                annotation_clip=False,
            )


def _frontier_key(
    ax: Axes, curves: Sequence[Curve], fixed: Curve | None, limits: Sequence[Curve]
) -> None:
    """Names in the corner that curves leave empty, each with the depth of its operating point."""
    entries: list[tuple[str, str, Any, float | None]] = [
        (c.label, c.role.light, dash, c.chosen[0] if c.chosen else None)
        for c, dash in [*((c, c.role.dash) for c in curves), *((c, DASHED) for c in limits)]
    ]
    if fixed is not None:
        entries.append(
            ("fixed depth", light("fixed"), "-", fixed.chosen[0] if fixed.chosen else None)
        )
    tall = height(ax)
    behind = Rectangle(
        (0.33, 0.006), 0.67, (8 + 14 * len(entries)) / tall, transform=ax.transAxes, zorder=1.9
    )
    behind.set(facecolor=light("paper"), alpha=0.85, linewidth=0)
    ax.add_patch(behind)
    for row, (label, colour, dash, depth) in enumerate(reversed(entries)):
        y = (9 + 14 * row) / tall
        ax.plot(
            [0.345, 0.425],
            [y + 4 / tall] * 2,
            color=colour,
            linestyle=dash,
            linewidth=2,
            transform=ax.transAxes,
            gid=f"key:{label}",
        )
        if label == "fixed depth":
            ax.plot(
                [0.385],
                [y + 4 / tall],
                "o",
                markersize=5,
                mfc=light("paper"),
                mec=colour,
                transform=ax.transAxes,
                gid=f"key:{label}",
            )
        name = ax.text(0.45, y, shortened(label, 19), transform=ax.transAxes, fontsize=10)
        name.set_gid(f"key:{label}")
        if depth is not None:
            ax.text(
                0.985,
                y,
                loops(depth),
                transform=ax.transAxes,
                fontsize=10,
                ha="right",
                color=light("muted"),
            )
