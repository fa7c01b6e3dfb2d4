"""The key of a frontier: names below the axes, where no curve can run through them."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from trajdiag.reporting.canvas import blank, height, width
from trajdiag.reporting.names import shortened
from trajdiag.reporting.numerals import loops
from trajdiag.reporting.palette import Dash, light

LEFT, RIGHT, TOP, BOTTOM = 36.0, 12.0, 8.0, 36.0
"""Margins of the axes, without the key, px."""
APART, LINE, STROKE = 166.0, 14.0, 18.0
"""How far a column of names is from the next, the height of a name and the length of its stroke,
px."""
LETTERS = 19
"""Of a name; of a longer one the middle is left out."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A curve's name."""

    label: str
    colour: str
    dash: Dash
    depth: float | None
    """Of its operating point, loops."""
    circled: bool = False
    """Drawn with open circles."""


def framed(wide: float, tall: float, names: int) -> Axes:
    """Axes of this height on a canvas of this width, px, with room for a key of so many names."""
    bottom = BOTTOM + LINE * _lines(names, wide) + 2
    return blank(wide, TOP + tall + bottom, left=LEFT, right=RIGHT, top=TOP, bottom=bottom)


def draw_key(ax: Axes, entries: Sequence[Entry]) -> None:
    """The names in columns below the axes, each with the depth of its operating point."""
    lines = _lines(len(entries), LEFT + width(ax) + RIGHT)
    for place, entry in enumerate(entries):
        column, line = divmod(place, lines)
        _draw(ax, entry, column * APART - LEFT, -BOTTOM - LINE * (line + 1) + 5)


def _lines(names: int, wide: float) -> int:
    columns = max(1, int((wide + 10) // APART))
    return -(-names // columns)


def _draw(ax: Axes, entry: Entry, x: float, y: float) -> None:
    """An entry at this place from the lower left corner of the axes, px."""
    wide, tall = width(ax), height(ax)
    outside = {"transform": ax.transAxes, "clip_on": False, "gid": f"key:{entry.label}"}
    ax.plot(
        [x / wide, (x + STROKE) / wide],
        [(y + 4) / tall] * 2,
        color=entry.colour,
        linestyle=entry.dash,
        linewidth=2,
        **outside,
    )
    if entry.circled:
        ax.plot(
            [(x + STROKE / 2) / wide],
            [(y + 4) / tall],
            "o",
            markersize=5,
            mfc=light("paper"),
            mec=entry.colour,
            **outside,
        )
    name = ax.text((x + STROKE + 4) / wide, y / tall, shortened(entry.label, LETTERS), fontsize=10)
    name.set(**outside)
    if entry.depth is not None:
        ax.text(
            (x + APART - 10) / wide,
            y / tall,
            loops(entry.depth),
            transform=ax.transAxes,
            fontsize=10,
            ha="right",
            color=light("muted"),
        )
