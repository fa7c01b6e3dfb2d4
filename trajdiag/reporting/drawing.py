"""What each kind of panel looks like: plain numbers onto matplotlib axes, in px and roles."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle

from trajdiag.reporting.numerals import loops, percent, tick
from trajdiag.reporting.palette import PARTS, Role, light

ROW = 40
"""Height of one readout's row in the attribution and depth panels, px."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A readout at its operating point."""

    label: str
    role: Role
    shares: dict[str, float]
    """By part; they sum to 1."""
    depth: float
    low: float | None
    high: float | None


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


@contextmanager
def style() -> Iterator[None]:
    """matplotlib's own defaults and the report's, whatever the reader's matplotlibrc says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "font.size": 11,
                "text.color": light("ink"),
                "text.parse_math": False,
                "axes.edgecolor": light("faint"),
                "axes.linewidth": 1,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.labelcolor": light("muted"),
                "axes.labelsize": 11,
                "xtick.color": light("faint"),
                "ytick.color": light("faint"),
                "xtick.labelcolor": light("muted"),
                "ytick.labelcolor": light("muted"),
                "xtick.labelsize": 11,
                "ytick.labelsize": 11,
                "svg.fonttype": "none",
            }
        )
        yield


def blank(width: float, height: float, *, left: float, right: float, top: float, bottom: float) -> Axes:
    """Axes on a canvas of this size, inside these margins, all in px."""
    canvas = Canvas(figsize=(width / 72, height / 72))
    canvas.patch.set_visible(False)
    ax = canvas.add_axes(
        (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    )
    ax.patch.set_visible(False)
    return ax


def attribution(ax: Axes, bars: Sequence[Bar], start: float) -> None:
    """One bar a readout over all test examples, on an axis from `start` to 1."""
    ax.set(xlim=(start, 1), ylim=(ROW * len(bars), 0), yticks=[])
    ax.spines.left.set_visible(False)
    beside = ax.get_yaxis_transform()
    for row, bar in enumerate(bars):
        y = ROW * row
        _named(ax, bar, y)
        ax.text(
            1, y + 14, f"{percent(bar.shares['ok'])}% right", transform=beside, ha="right", color=light("muted")
        )
        left = 0.0
        for part in PARTS:
            share = bar.shares[part]
            seen = (max(left, start), left + share)
            left += share
            if seen[1] <= seen[0]:
                continue
            ax.barh(
                y + 27, seen[1] - seen[0], left=seen[0], height=15, color=light(part), linewidth=0
            )
            if part != "ok" and seen[1] - seen[0] > 0.09 * (1 - start):
                tone = "ink" if part == "late" else "paper"
                ax.text(
                    (seen[0] + seen[1]) / 2, y + 31, percent(share), ha="center", fontsize=10, color=light(tone)
                )
        if start > 0:
            ax.text(start, y + 31.5, " //", color=light("muted"), fontsize=11)
    _percent_ticks(ax.xaxis, start, 1.0, 4, sign=True)
    ax.tick_params(axis="x", length=3)


def depths(ax: Axes, bars: Sequence[Bar], last: int, oracle: float | None) -> None:
    """The same readouts' mean exit depths with their intervals, on an axis of loops."""
    ax.set(xlim=(1 - 0.03 * (last - 1), last + 0.03 * (last - 1)), ylim=(ROW * len(bars), 0), yticks=[])
    ax.spines.left.set_visible(False)
    _loop_ticks(ax, last)
    for row, bar in enumerate(bars):
        y = ROW * row + 27
        _named(ax, bar, ROW * row)
        ax.plot([1, last], [y, y], color=light("faint"), linewidth=1, zorder=0)
        if oracle is not None:
            ax.plot([oracle, oracle], [y - 7, y + 7], color=light("oracle"), linewidth=1.6)
        if bar.low is not None and bar.high is not None:
            ax.plot([bar.low, bar.high], [y, y], color=bar.role.light, linewidth=5, solid_capstyle="butt", alpha=0.45)
        ax.plot([bar.depth], [y], "o", color=bar.role.light, markersize=7, clip_on=False)
        ax.text(
            1,
            ROW * row + 14,
            f"{loops(bar.depth)} loops",
            transform=ax.get_yaxis_transform(),
            ha="right",
            color=light("muted"),
        )


@dataclass(frozen=True, kw_only=True)
class Shortfall:
    """A store's shortfall against its reference, in loops or accuracy points, and its two causes."""

    label: str
    total: str
    """The whole, as text."""
    causes: tuple[tuple[str, str, float, float | None, float | None], ...]
    """Name, role, value, low, high of each part; positive is a shortfall."""


SHORTFALL_ROW = 62
"""Height of one store's block, px."""


def shortfalls(ax: Axes, blocks: Sequence[Shortfall], text: Callable[[float], str]) -> None:
    """One block a store: a bar from zero for each cause, with its interval."""
    ends = [0.0]
    for block in blocks:
        for _, _, value, low, high in block.causes:
            ends += [value, value if low is None else low, value if high is None else high]
    span = max(ends) - min(ends) or 1.0
    ax.set(xlim=(min(ends) - 0.03 * span, max(ends) + 0.42 * span), ylim=(SHORTFALL_ROW * len(blocks), 0), yticks=[])
    ax.spines.left.set_visible(False)
    ax.locator_params(axis="x", nbins=5)
    ax.xaxis.set_major_formatter(lambda value, _: text(value).rstrip("0").rstrip(".") or "0")
    beside = ax.get_yaxis_transform()
    for number, block in enumerate(blocks):
        top = SHORTFALL_ROW * number
        ax.text(0, top + 14, block.label, transform=beside, fontweight="bold")
        ax.text(1, top + 14, block.total, transform=beside, ha="right", color=light("muted"))
        for row, (name, role, value, low, high) in enumerate(block.causes):
            y = top + 28 + 18 * row
            ax.barh(y, value, height=13, color=light(role), linewidth=0)
            reach = max(value, 0.0)
            if low is not None and high is not None:
                for colour, width in (("paper", 3.2), ("ink", 1.2)):
                    whisker = ([low, low, low, high, high, high], [y - 3.5, y + 3.5, y, y, y - 3.5, y + 3.5])
                    ax.plot(*whisker, color=light(colour), linewidth=width, solid_capstyle="butt")
                reach = max(reach, high)
            ax.text(reach + 0.02 * span, y + 4, f"{name} {text(value)}", fontsize=10.5)
    ax.plot([0, 0], [SHORTFALL_ROW * len(blocks), 20], color=light("muted"), linewidth=1)


def frontier(
    ax: Axes, curves: Sequence[Curve], fixed: Curve | None, oracle: Curve | None, last: int, low: float
) -> None:
    """Accuracy against mean depth: every threshold of every readout, forced exits, and hindsight."""
    ax.set(xlim=(1, last), ylim=(low, 1.0))
    ax.grid(axis="y", color=light("faint"), linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines.left.set_visible(False)
    ax.tick_params(axis="y", length=0)
    _loop_ticks(ax, last)
    _percent_ticks(ax.yaxis, low, 1.0, 4, sign=True)
    if oracle is not None:
        ax.plot(oracle.depth, oracle.accuracy, color=light("oracle"), linewidth=1.2, dashes=(2, 2))
    if fixed is not None:
        ax.plot(fixed.depth, fixed.accuracy, "-", color=light("fixed"), linewidth=1)
        ax.plot(
            fixed.depth, fixed.accuracy, "o", markersize=5.5, mfc=light("paper"), mec=light("fixed"), clip_on=False
        )
    for curve in sorted(curves, key=lambda c: c.main):
        ax.plot(
            curve.depth,
            curve.accuracy,
            linestyle=curve.role.dash if curve.main else "-",
            color=curve.role.light,
            linewidth=1.9 if curve.main else 0.8,
            alpha=1 if curve.main else 0.4,
        )
    for curve in curves:
        if curve.main and curve.chosen:
            ax.plot(*curve.chosen, "o", color=curve.role.light, mec=light("paper"), markersize=7.5, clip_on=False)
    _frontier_key(ax, [c for c in curves if c.main], fixed, oracle)


def heat(
    ax: Axes,
    shares: np.ndarray,
    difficulties: Sequence[float],
    role: Role,
    *,
    outlined: Sequence[int] = (),
    margin: Sequence[str] = (),
) -> None:
    """`shares` [difficulty, loop] as ink density with the numbers in percent; `outlined` is a column in
    each row, and `margin` a text at each row's end."""
    rows, last = shares.shape
    ax.set(xlim=(0.5, last + 0.5), ylim=(rows - 0.5, -0.5))
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.set_xticks(range(1, last + 1))
    ax.set_yticks(range(rows), [tick(d) for d in difficulties])
    numbered = _row_height(ax, rows) >= 11
    if not numbered:
        ax.set_yticks([0, rows - 1], [tick(difficulties[0]), tick(difficulties[-1])])
    for (row, column), share in np.ndenumerate(shares):
        if not np.isfinite(share):
            continue
        density = 0.04 + 0.86 * float(share)
        ax.add_patch(
            Rectangle((column + 0.52, row - 0.47), 0.96, 0.94, color=role.light, alpha=density, linewidth=0)
        )
        if numbered and share >= 0.005:
            ax.text(
                column + 1,
                row,
                percent(share, 0),
                ha="center",
                va="center_baseline",
                fontsize=10,
                color=light("paper" if share > 0.55 else "ink"),
            )
    for row, column in enumerate(outlined):
        ax.plot(
            [column + 0.66, column + 1.34], [row + 0.36] * 2, color=light("paper"), linewidth=1.8, solid_capstyle="butt"
        )
    for row, text in enumerate(margin if numbered else ()):
        ax.text(last + 0.62, row, text, va="center_baseline", color=light("muted"), fontsize=10)


def signal(ax: Axes, values: np.ndarray, difficulties: Sequence[float], role: Role) -> None:
    """Mean signal by loop, `values` [difficulty, loop], one line a difficulty: the darker the harder."""
    rows, last = values.shape
    ax.set(xlim=(1, last))
    ax.grid(axis="y", color=light("faint"), linewidth=0.8)
    ax.spines.left.set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.locator_params(axis="y", nbins=4)
    ax.yaxis.set_major_formatter(lambda value, _: tick(value))
    _loop_ticks(ax, last)
    loop = np.arange(1, last + 1)
    for row in range(rows):
        strength = 1.0 if rows == 1 else 0.3 + 0.7 * row / (rows - 1)
        known = np.isfinite(values[row])
        ax.plot(
            loop[known], values[row, known], color=role.light, alpha=strength, linewidth=1.6, marker="o", markersize=3.5, clip_on=False
        )


def _named(ax: Axes, bar: Bar, y: float) -> None:
    beside = ax.get_yaxis_transform()
    ax.plot([0.012], [y + 10], "s", color=bar.role.light, transform=beside, markersize=8, clip_on=False)
    ax.text(0.042, y + 14, bar.label, transform=beside, fontweight="bold")


def _frontier_key(ax: Axes, curves: Sequence[Curve], fixed: Curve | None, oracle: Curve | None) -> None:
    """Names in the corner that curves leave empty, each with the depth of its operating point."""
    entries: list[tuple[str, str, Any, float | None]] = [
        (c.label, c.role.light, c.role.dash, c.chosen[0] if c.chosen else None) for c in curves
    ]
    if oracle is not None:
        entries.append(("oracle", light("oracle"), (0, (2, 2)), oracle.chosen[0] if oracle.chosen else None))
    if fixed is not None:
        entries.append(("fixed depth", light("fixed"), "-", fixed.chosen[0] if fixed.chosen else None))
    height = ax.get_window_extent().height * 72 / ax.figure.dpi
    for row, (label, colour, dash, depth) in enumerate(reversed(entries)):
        y = (9 + 14 * row) / height
        ax.plot(
            [0.46, 0.54], [y + 4 / height] * 2, color=colour, linestyle=dash, linewidth=2, transform=ax.transAxes
        )
        if label == "fixed depth":
            ax.plot([0.50], [y + 4 / height], "o", markersize=5, mfc=light("paper"), mec=colour, transform=ax.transAxes)
        ax.text(0.565, y, label, transform=ax.transAxes, fontsize=10)
        if depth is not None:
            ax.text(0.985, y, loops(depth), transform=ax.transAxes, fontsize=10, ha="right", color=light("muted"))


def _row_height(ax: Axes, rows: int) -> float:
    return ax.get_window_extent().height * 72 / ax.figure.dpi / rows


def _loop_ticks(ax: Axes, last: int) -> None:
    every = max(1, -(-last // 12))
    ax.set_xticks(range(1, last + 1, every))


def _percent_ticks(axis: Any, low: float, high: float, most: int, *, sign: bool) -> None:
    steps = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
    step = next((s for s in steps if (high - low) / s <= most), 0.5)
    places = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
    decimals = 0 if step >= 0.01 else 1
    axis.set_ticks(places, [percent(float(p), decimals) + ("%" if sign else "") for p in places])
