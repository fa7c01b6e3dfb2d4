"""Names beside their curves, where nothing else is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from trajdiag.reporting.canvas import height, width
from trajdiag.reporting.names import shortened
from trajdiag.reporting.palette import light

LETTER, TALL, SIZE = 5.6, 12.0, 10.0
"""The width of a letter and the height of a name, about, and its font's size, px."""
STEP, CLEAR, FAR = 6.0, 3.0, 80.0
"""How finely places are tried, how far a name stays from what is drawn, and how far it may be from
its curve, px."""
LETTERS = 19
"""Of a name; of a longer one the middle is left out."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """A drawn curve."""

    label: str
    colour: str
    depth: np.ndarray
    accuracy: np.ndarray
    at: tuple[float, float] | None
    """The point that the name belongs to; None where any point of the curve will do."""


def draw_labels(ax: Axes, curves: Sequence[Named], behind: Sequence[Named]) -> None:
    """Names the curves one after the other, each as near to its point as it finds room, with a thin
    line to it; where there is none, not even on what is drawn `behind`, it has no name here."""
    lines = [_drawn(ax, curve) for curve in curves]
    points = np.concatenate([np.empty((0, 2)), *lines])
    every = np.concatenate([points, *(_drawn(ax, curve) for curve in behind)])
    taken: list[np.ndarray] = []
    for number, curve in enumerate(curves):
        others = np.concatenate([np.empty((0, 2)), *lines[:number], *lines[number + 1 :]])
        ends = _ends(ax, curve, lines[number], others)
        text = shortened(curve.label, LETTERS)
        wide = LETTER * len(text)
        found = _room(ax, wide, ends, every, taken) or _room(ax, wide, ends, points, taken)
        if found is not None:
            box, end = found
            taken.append(box)
            _draw(ax, curve, text, box, end)


def _drawn(ax: Axes, curve: Named) -> np.ndarray:
    """Points along what is seen of a curve, [point, axis] in px from the lower left corner of the
    axes."""
    corners = _px(ax, curve.depth, curve.accuracy)
    if len(corners) < 2:
        return corners
    steps = np.hypot(*np.diff(corners, axis=0).T)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    places = np.linspace(0, along[-1], max(2, int(along[-1] / CLEAR)))
    points = np.column_stack([np.interp(places, along, corners[:, axis]) for axis in (0, 1)])
    return points[((points >= 0) & (points <= [width(ax), height(ax)])).all(axis=1)]


def _px(ax: Axes, depth: np.ndarray, accuracy: np.ndarray) -> np.ndarray:
    unit = ax.transLimits.transform(np.column_stack([depth, accuracy]))
    return unit * [width(ax), height(ax)]


def _ends(ax: Axes, curve: Named, line: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Where the thin line may end, [point, axis]: at the curve's own point, else wherever the curve
    runs by itself."""
    if curve.at is not None:
        return _px(ax, np.array([curve.at[0]]), np.array([curve.at[1]]))
    if not len(line) or not len(others):
        return line
    alone = np.hypot(*(line[:, None] - others[None]).transpose(2, 0, 1)).min(axis=1) > 2 * CLEAR
    return line[alone] if alone.any() else line


def _room(
    ax: Axes, wide: float, ends: np.ndarray, points: np.ndarray, taken: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray] | None:
    """The box [corner, axis] of that width nearest to one of the `ends` that holds no point and
    meets no box that is `taken`, and that end; None where there is none near enough."""
    x = np.arange(2.0, width(ax) - wide, STEP)
    y = np.arange(2.0, height(ax) - TALL, STEP)
    if not (len(x) and len(y) and len(ends)):
        return None
    low = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    high = low + np.array([wide, TALL])
    inside = (points > low[:, None] - CLEAR) & (points < high[:, None] + CLEAR)
    free = ~np.any(inside.all(axis=2), axis=1)
    for box in taken:
        free &= ~((low < box[1] + CLEAR) & (high > box[0] - CLEAR)).all(axis=1)
    nearest = np.clip(ends, low[:, None], high[:, None])
    far = np.hypot(*(nearest - ends).transpose(2, 0, 1))
    far[~free] = np.inf
    place, end = np.unravel_index(int(far.argmin()), far.shape)
    if not far[place, end] <= FAR:
        return None
    return np.stack([low[place], high[place]]), ends[end]


def _draw(ax: Axes, curve: Named, text: str, box: np.ndarray, end: np.ndarray) -> None:
    size = np.array([width(ax), height(ax)])
    outside = {"transform": ax.transAxes, "gid": f"key:{curve.label}"}
    start = np.clip(end, *box)
    xs, ys = np.column_stack([start / size, end / size])
    ax.plot(xs, ys, color=curve.colour, linewidth=0.8, **outside)
    x, y = (box[0] + np.array([0, 3])) / size
    ax.text(x, y, text, fontsize=SIZE, color=light("ink"), **outside)
