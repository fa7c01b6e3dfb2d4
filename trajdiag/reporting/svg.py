"""Figures as panels of themed SVG: colours are roles, so one drawing suits light and dark.

A panel is drawn once. The page inlines panels, so that they reflow on a phone; the files in
figures/ lay the same panels out in a grid on paper of their own."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from trajdiag.reporting.names import shortened
from trajdiag.reporting.palette import ROLES

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
WIDTH, NARROW = 324.0, 232.0
"""Widths of panels, px: of which two or three, and of which several, stand side by side."""
LARGE = 530.0
"""Width of a panel that stands by itself at a desk, px."""
TEXT = 11
"""Size of the text that says nothing of its size, px."""
_COLOUR = re.compile(r' (?:fill|stroke)="#[0-9a-f]{6}"')
GAP = 28
"""Space between the panels of a grid, and around it, in px."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One drawing, in px."""

    name: str
    title: str
    alt: str
    """What a reader who does not see it needs to know."""
    width: float
    height: float
    body: str
    """SVG elements."""
    data: str = ""
    """Attributes by which the page's script tells values from places."""
    large: "Panel | None" = None
    """The same on a wider canvas, for a page that has room for it: text would not keep its size if
    one drawing were to fit both a phone and a desk."""

    def inline(self) -> str:
        """The panel for a page whose style sheet colours the roles, which need no colours beside
        their names there, and shows one of the panel and its larger drawing."""
        if self.large:
            return self._element(" small") + self.large._element(" large")
        return self._element("")

    def _element(self, size: str) -> str:
        body = _COLOUR.sub("", self.body)
        return (
            f'<svg class="panel{size}" viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'font-size="{TEXT}" aria-label="{escape(self.alt)}"{self.data}>{body}</svg>'
        )


@dataclass(frozen=True, kw_only=True)
class Key:
    """An entry of a legend: a swatch of the role, and what it stands for."""

    role: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """Panels that belong together, such as one store's; None leaves a place empty, so that columns
    of several rows line up."""

    title: str
    panels: tuple[Panel | None, ...]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Panels under one caption, drawn to be compared."""

    name: str
    title: str
    caption: str
    rows: tuple[Row, ...]
    keys: tuple[Key, ...] = ()
    columns: int = 2
    """Panels side by side in the file."""
    tables: tuple[str, ...] = ()
    """The tables of Results that hold its numbers."""

    @property
    def panels(self) -> list[Panel]:
        """All panels, row by row."""
        return [panel for row in self.rows for panel in row.panels if panel]


def standalone(figure: Figure) -> str:
    """The figure as one SVG document on its own paper, which follows the reader's colour scheme."""
    cell = max(p.width for p in figure.panels)
    columns = min(figure.columns, max(len(row.panels) for row in figure.rows))
    width = columns * cell + (columns + 1) * GAP
    drawn, y = [_text(GAP, GAP + 10, figure.title, size=15, weight=600)], GAP + 26.0
    for line in _key_lines(figure.keys, width - 2 * GAP):
        drawn.append(f'<g transform="translate({GAP} {y:g})">{line}</g>')
        y += 20
    for row in figure.rows:
        if row.title:
            y += GAP - 4
            drawn.append(_text(GAP, y, shortened(row.title, int(width / 8)), size=13, weight=600))
        for first in range(0, len(row.panels), columns):
            line = row.panels[first : first + columns]
            y += GAP - 6
            for column, cell_panel in enumerate(line):
                if cell_panel:
                    x = GAP + column * (cell + GAP)
                    title = shortened(cell_panel.title, int(cell_panel.width / 7))
                    drawn.append(_text(x, y, title, size=12, role="muted" if row.title else "ink"))
                    drawn.append(f'<g transform="translate({x:g} {y + 8:g})">{cell_panel.body}</g>')
            y += 8 + max((p.height for p in line if p), default=0.0)
    height = y + GAP / 2
    alt = " ".join(f"{p.title}: {p.alt}" if p.title else p.alt for p in figure.panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-labelledby="title desc" '
        f'font-family="{escape(FONT)}" font-size="{TEXT}" stroke-linejoin="round">'
        f'<title id="title">{escape(figure.title)}</title><desc id="desc">{escape(alt)}</desc>'
        f"<style>{style_sheet(drawn)}</style>"
        f'<rect width="100%" height="100%" rx="6" class="f-paper" fill="#ffffff"/>'
        f"{''.join(drawn)}</svg>\n"
    )


def style_sheet(drawn: Iterable[str]) -> str:
    """CSS of the roles that `drawn` uses, light and dark."""
    used = sorted({*re.findall(r"\b[fs]-([\w-]+)", " ".join(drawn)), "paper"})
    rules = {
        scheme: "".join(
            f".f-{role}{{fill:{getattr(ROLES[role], scheme)}}}"
            f".s-{role}{{stroke:{getattr(ROLES[role], scheme)}}}"
            for role in used
        )
        for scheme in ("light", "dark")
    }
    return f"{rules['light']}@media (prefers-color-scheme:dark){{{rules['dark']}}}"


def _text(
    x: float, y: float, text: str, *, size: float, weight: int = 400, role: str = "ink"
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" font-weight="{weight}" class="f-{role}" '
        f'fill="{ROLES[role].light}">{escape(text)}</text>'
    )


def _key_lines(keys: Iterable[Key], width: float) -> list[str]:
    lines, line, x = [], "", 0.0
    for key in keys:
        advance = 34 + 6.2 * len(key.label)
        if line and x + advance > width:
            lines, line, x = [*lines, line], "", 0.0
        line += (
            f'<rect x="{x:g}" y="0" width="11" height="11" rx="2" class="f-{key.role}" '
            f'fill="{ROLES[key.role].light}"/>'
        )
        line += _text(x + 16, 10, key.label, size=11.5, role="muted")
        x += advance
    return [*lines, line] if line else lines
