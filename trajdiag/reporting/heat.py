"""A table of shares by difficulty and loop, as ink density with the numbers in it: written as SVG
by itself, which is smaller than what a plotting library writes, and quicker."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from trajdiag.reporting.difficulty_grid import level_names
from trajdiag.reporting.numerals import percent, tick
from trajdiag.reporting.palette import PAGE, ROLES, Role, text_on
from trajdiag.reporting.svg import Panel

TOP, BOTTOM = 18.0, 34.0
"""Room for the heads above the cells, and for the axis of loops below, px."""
SMALL = 10
"""Size of the text, px."""
STEPS = 50
"""Densities that are told apart: cells of one density are one path."""


@dataclass(frozen=True, kw_only=True)
class Heat:
    """Shares [difficulty, loop], NaN where there is none, and what is written beside them."""

    shares: np.ndarray
    difficulties: Sequence[float]
    role: Role
    width: float
    """Of the panel, px."""
    left: float
    """Room for the names of difficulties, px."""
    right: float
    """Room for the margin, px."""
    outlined: Sequence[int | None] = ()
    """A column in each row, or none."""
    margin: Sequence[str] = ()
    """A text at each row's end."""
    margin_head: str = ""
    cells: Sequence[str] = ()
    """What is said of each cell that is pointed at, row by row."""


def heat_panel(heat: Heat, *, name: str, title: str, alt: str) -> Panel:
    """The table as a panel."""
    rows, last = heat.shares.shape
    grid = _Grid(heat, rows, last)
    numbered = grid.row >= 11
    parts = [_fills(heat, grid), _frames(heat, grid)]
    if numbered:
        parts += [_numbers(heat, grid), _texts(heat.margin, grid.end + 6, grid, "start")]
    names = [tick(d) for d in heat.difficulties] if rows > 1 else [""]
    shown = names if numbered else [names[0], *[""] * (rows - 2), *names[1:][-1:]]
    parts.append(_texts(shown, heat.left - 4, grid, "end"))
    parts.append(_heads(heat, grid, last))
    return Panel(
        name=name,
        title=title,
        alt=alt,
        width=heat.width,
        height=grid.height,
        body="".join(parts),
        data=_told(heat, grid, last) if heat.cells else "",
    )


def _told(heat: Heat, grid: "_Grid", last: int) -> str:
    """Where cells lie, and what is said of them."""
    place = f"{heat.left:g} {TOP:g} {grid.column:.2f} {grid.row:.2f} {last}"
    names = "|".join(level_names(heat.difficulties))
    return f' data-grid="{place}" data-rows="{names}" data-cells="{escape("|".join(heat.cells))}"'


class _Grid:
    """Where cells lie, px."""

    def __init__(self, heat: Heat, rows: int, last: int) -> None:
        tall = min(20 * rows, max(13 * rows, 240), 400)
        self.height = TOP + tall + BOTTOM
        self.row, self.column = tall / rows, (heat.width - heat.left - heat.right) / last
        self.left, self.end, self.bottom = heat.left, heat.width - heat.right, TOP + tall

    def middle(self, row: int, column: int) -> tuple[float, float]:
        """Where the text of a cell stands."""
        x = self.left + (column + 0.5) * self.column
        return x, TOP + (row + 0.5) * self.row + 0.35 * SMALL

    def cell(self, row: int, column: int, inset: float) -> str:
        """The outline of a cell."""
        x, y = self.left + column * self.column + inset, TOP + row * self.row + inset
        wide, tall = self.column - 2 * inset, self.row - 2 * inset
        return f"M{_n(x)} {_n(y)}h{_n(wide)}v{_n(tall)}h-{_n(wide)}z"


def _fills(heat: Heat, grid: _Grid) -> str:
    """Cells of one density together."""
    paths: dict[float, str] = {}
    for (row, column), share in np.ndenumerate(heat.shares):
        if np.isfinite(share):
            density = _density(float(share))
            paths[density] = paths.get(density, "") + grid.cell(row, column, 0.5)
    inside = "".join(f'<path d="{d}" opacity="{_n(a, 2)}"/>' for a, d in paths.items())
    return f"<g {_fill(heat.role)}>{inside}</g>"


def _frames(heat: Heat, grid: _Grid) -> str:
    paths: dict[str, str] = {}
    for row, column in enumerate(heat.outlined):
        if column is None:
            continue
        share = float(heat.shares[row, column])
        tone = text_on(heat.role, _density(share))
        paths[tone] = paths.get(tone, "") + grid.cell(row, column, 2.0)
    return "".join(
        f'<path d="{d}" class="s-{tone}" fill="none" stroke="{ROLES[tone].light}"/>'
        for tone, d in paths.items()
    )


def _numbers(heat: Heat, grid: _Grid) -> str:
    """Percentages in the cells; what would print as none is left out."""
    texts: dict[str, str] = {}
    for (row, column), share in np.ndenumerate(heat.shares):
        if np.isfinite(share) and share >= 0.005:
            tone = text_on(heat.role, _density(float(share)))
            x, y = grid.middle(row, column)
            number = f'<text x="{_n(x)}" y="{_n(y)}">{percent(float(share), 0)}</text>'
            texts[tone] = texts.get(tone, "") + number
    return "".join(
        f'<g {_fill(ROLES[tone])} font-size="{SMALL}" text-anchor="middle">{inside}</g>'
        for tone, inside in texts.items()
    )


def _texts(texts: Sequence[str], x: float, grid: _Grid, anchor: str) -> str:
    """One text a row."""
    lines = "".join(
        f'<text x="{_n(x)}" y="{_n(grid.middle(row, 0)[1])}">{escape(text)}</text>'
        for row, text in enumerate(texts)
        if text
    )
    return _muted(lines, anchor) if lines else ""


def _heads(heat: Heat, grid: _Grid, last: int) -> str:
    """The axis of loops, and what stands at the sides."""
    every = max(1, -(-last // 12))
    ticks = "".join(
        f'<text x="{_n(grid.middle(0, loop - 1)[0])}" y="{_n(grid.bottom + 14)}">{loop}</text>'
        for loop in range(1, last + 1, every)
    )
    middle = (grid.left + grid.end) / 2
    ticks += f'<text x="{_n(middle)}" y="{_n(grid.bottom + 29)}">loop</text>'
    heads = ""
    if len(heat.difficulties) > 1:
        heads += f'<text x="{_n(heat.left)}" y="{_n(TOP - 5)}">difficulty</text>'
    if heat.margin_head:
        heads += f'<text x="{_n(grid.end + 6)}" y="{_n(TOP - 5)}">{heat.margin_head}</text>'
    return _muted(ticks, "middle") + _muted(heads, "start")


def _muted(inside: str, anchor: str) -> str:
    return f'<g {_fill(PAGE["muted"])} font-size="{SMALL}" text-anchor="{anchor}">{inside}</g>'


def _fill(role: Role) -> str:
    return f'class="f-{role.name}" fill="{role.light}"'


def _density(share: float) -> float:
    return round(STEPS * (0.04 + 0.86 * share)) / STEPS


def _n(value: float, decimals: int = 1) -> str:
    """A number as short as SVG allows."""
    text = f"{value:.{decimals}f}".rstrip("0").rstrip(".")
    return text[1:] if text.startswith("0.") else text
