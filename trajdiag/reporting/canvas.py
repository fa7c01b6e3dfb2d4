"""Axes in px and in the report's own style, whatever matplotlib is set to."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from trajdiag.reporting.numerals import percent
from trajdiag.reporting.palette import light

STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
"""Between the ticks of an axis of shares."""


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


def blank(
    width: float, height: float, *, left: float, right: float, top: float, bottom: float
) -> Axes:
    """Axes on a canvas of this size, inside these margins, all in px."""
    canvas = Canvas(figsize=(width / 72, height / 72))
    canvas.patch.set_visible(False)
    ax = canvas.add_axes(
        (
            left / width,
            bottom / height,
            (width - left - right) / width,
            (height - top - bottom) / height,
        )
    )
    ax.patch.set_visible(False)
    return ax


def corner(ax: Axes, y: float, text: str) -> None:
    """A small note above the axes, flush with their left edge."""
    ax.text(0, y, text, transform=ax.transAxes, fontsize=10, va="bottom", color=light("muted"))


def height(ax: Axes) -> float:
    """Of the axes, px."""
    return ax.get_window_extent().height * 72 / ax.figure.dpi


def width(ax: Axes) -> float:
    """Of the axes, px."""
    return ax.get_window_extent().width * 72 / ax.figure.dpi


def loop_axis(ax: Axes, last: int, pad: float = 0.0) -> None:
    """The x axis from loop 1 to the last."""
    ax.set_xlim((1 - pad, last + pad) if last > 1 else (0.5, 1.5))
    every = max(1, -(-last // 12))
    ax.set_xticks(range(1, last + 1, every))


def percent_ticks(axis: Any, low: float, high: float, most: int) -> None:
    """At most about `most` round percentages on an axis of shares."""
    step = _step(low, high, most)
    places = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
    decimals = 0 if step >= 0.01 else 1
    axis.set_ticks(places, [f"{percent(float(p), decimals)}%" for p in places])


def whole_ticks(least: float, greatest: float, most: int) -> tuple[float, float]:
    """The ends of an axis of shares that shows these two, both at a place that `percent_ticks`
    would name, so that the axis says from where to where it goes."""
    for step in STEPS:
        low = max(0, math.floor(least / step + 1e-9))
        high = min(round(1 / step), max(low + 1, math.ceil(greatest / step - 1e-9)))
        if high - low <= most and _step(low * step, high * step, most) == step:
            return low * step, high * step
    return 0.0, 1.0


def _step(low: float, high: float, most: int) -> float:
    return next((s for s in STEPS if (high - low) / s <= most + 1e-9), 0.5)
