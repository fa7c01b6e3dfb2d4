"""Curves: accuracy against depth, and signals by loop."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from trajdiag.reporting.canvas import height, loop_axis, percent_ticks
from trajdiag.reporting.curve_labels import Named, draw_labels
from trajdiag.reporting.difficulty_grid import Grid
from trajdiag.reporting.frontier_key import Entry, draw_key, framed
from trajdiag.reporting.numerals import tick
from trajdiag.reporting.palette import Dash, Role, light
from trajdiag.reporting.svg import WIDTH

TICKS = 4
"""Of accuracy on a frontier, about."""
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
    curves: Sequence[Curve],
    fixed: Curve | None,
    limits: Sequence[Curve],
    *,
    last: int,
    low: float,
    high: float = 1.0,
    tall: float,
    wide: float = WIDTH,
) -> Axes:
    """Accuracy, from `low` to `high`, against mean depth, up to loop `last`: every threshold of
    every readout, forced exits, and dashed the `limits` that no readout at hand reaches; the axes
    are `tall` px on a canvas of `wide` px. Names stand beside their curves, where there is room,
    and all in a key below."""
    entries = _entries(curves, fixed, limits)
    ax = framed(wide, tall, len(entries))
    ax.set_ylim(low, high)
    ax.grid(axis="y", color=light("faint"), linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines.left.set_visible(False)
    ax.tick_params(axis="y", length=0)
    loop_axis(ax, last)
    percent_ticks(ax.yaxis, low, high, TICKS)
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
        seen = (fixed.accuracy >= low) & (fixed.accuracy <= high)
        ax.plot(
            fixed.depth[seen],
            fixed.accuracy[seen],
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
    ax.set_xlabel("mean exit depth (loops)")
    rest = [*limits, *([] if fixed is None else [fixed])]
    draw_labels(
        ax,
        [
            *[_named(curve, curve.chosen) for curve in curves if curve.main],
            *[_named(curve, None) for curve in rest],
        ],
        [_named(curve, None) for curve in curves if not curve.main],
    )
    draw_key(ax, entries)
    return ax


def _named(curve: Curve, at: tuple[float, float] | None) -> Named:
    return Named(
        label=curve.label,
        colour=curve.role.light,
        depth=curve.depth,
        accuracy=curve.accuracy,
        at=at,
    )


def _entries(curves: Sequence[Curve], fixed: Curve | None, limits: Sequence[Curve]) -> list[Entry]:
    entries = [_entry(curve, curve.role.dash) for curve in curves if curve.main]
    entries += [_entry(curve, DASHED) for curve in limits]
    if fixed is not None:
        entries.append(_entry(fixed, "-", circled=True))
    return entries


def _entry(curve: Curve, dash: Dash, *, circled: bool = False) -> Entry:
    return Entry(
        label=curve.label,
        colour=curve.role.light,
        dash=dash,
        depth=curve.chosen[0] if curve.chosen else None,
        circled=circled,
    )


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
            gid=f"series:{grid.names[row]}",
        )
        spanned = known & np.isfinite(grid.low[row])
        whiskers(
            ax, loop[spanned], grid.low[row, spanned], grid.high[row, spanned], color=role.light
        )
    if rows > 1:
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
