"""matplotlib figures as small themed SVG: colours become roles, so one drawing suits light and
dark.

A panel is drawn once. The page inlines panels, so that they reflow on a phone; the files in
figures/ lay the same panels out in a grid on paper of their own."""

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

import matplotlib
from matplotlib.axes import Axes

from trajdiag.reporting.names import shortened
from trajdiag.reporting.palette import ROLE_OF_COLOUR, ROLES

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
WIDTH, NARROW = 324.0, 232.0
"""Widths of panels, px: of which two or three, and of which several, stand side by side."""
GAP = 28
"""Space between the panels of a grid, and around it, in px."""

_KEPT = [
    "d",
    "x",
    "y",
    "x1",
    "y1",
    "x2",
    "y2",
    "width",
    "height",
    "points",
    "transform",
    "clip-path",
    "fill",
    "stroke",
    "opacity",
    "fill-opacity",
    "stroke-opacity",
    "stroke-width",
    "stroke-dasharray",
    "stroke-dashoffset",
    "stroke-linecap",
    "font-size",
    "font-weight",
    "font-style",
    "text-anchor",
    "href",
    "id",
]
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_HASHED = re.compile(r"[mpC][0-9a-f]{8,}(?:_\w+)?$")
"""Ids that matplotlib refers to: markers, clip paths and collections. All others only repeat."""


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

    def inline(self) -> str:
        """The panel for a page whose style sheet colours the roles."""
        return (
            f'<svg class="panel" viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'aria-label="{escape(self.alt)}">{self.body}</svg>'
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

    @property
    def panels(self) -> list[Panel]:
        """All panels, row by row."""
        return [panel for row in self.rows for panel in row.panels if panel]


def panel_of(ax: Axes, *, name: str, title: str, alt: str) -> Panel:
    """The canvas of the axes as a panel; `name`, from which ids are derived, must be unique in a
    report."""
    canvas = ax.get_figure(root=True)
    assert canvas is not None
    width, height = (72 * side for side in canvas.get_size_inches())
    stream = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}), warnings.catch_warnings():
        # Text stays text: the reader's fonts, not matplotlib's, must have the glyphs.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        canvas.savefig(
            stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    body = "".join(_elements(ET.fromstring(stream.getvalue())))
    return Panel(name=name, title=title, alt=alt, width=width, height=height, body=body)


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
        f'font-family="{escape(FONT)}" stroke-linejoin="round">'
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


def _elements(node: ET.Element) -> Iterator[str]:
    """The drawn elements under `node`, without matplotlib's groups, ids and style attributes."""
    for child in node:
        tag = child.tag.rpartition("}")[2]
        if tag in ("metadata", "style"):
            continue
        inner = "".join(_elements(child))
        attributes = _attributes(child)
        if tag in ("g", "defs") and not attributes:
            keep = inner and tag == "defs"
            yield f"<defs>{inner}</defs>" if keep else inner
            continue
        text = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
        inner += escape(child.text) if tag == "text" and child.text else ""
        yield f"<{tag}{text}>{inner}</{tag}>" if inner else f"<{tag}{text}/>"


def _attributes(node: ET.Element) -> dict[str, str]:
    """Presentation attributes, rounded, with the roles of the colours as classes."""
    found = {key.rpartition("}")[2]: value for key, value in node.attrib.items()}
    for declaration in found.pop("style", "").split(";"):
        key, _, value = declaration.partition(":")
        found[key.strip()] = value.strip()
    if font := found.pop("font", None):
        words = font.partition("px")[0].split()
        found["font-size"] = words[-1]
        found["font-weight"] = next((w for w in words[:-1] if w.isdigit() or w == "bold"), "400")
    if not _HASHED.match(found.get("id", "")):
        found.pop("id", None)
    if found.get("transform", "").startswith("rotate(-0 "):
        del found["transform"]
    classes = [
        f"{short}-{ROLE_OF_COLOUR[found[key]]}"
        for short, key in (("f", "fill"), ("s", "stroke"))
        if found.get(key) in ROLE_OF_COLOUR
    ]
    kept = {key: _rounded(key, found[key]) for key in _KEPT if key in found}
    return kept | ({"class": " ".join(classes)} if classes else {})


def _rounded(key: str, value: str) -> str:
    if key in ("id", "href", "clip-path", "fill", "stroke"):
        return value
    text = _NUMBER.sub(
        lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), value.removesuffix("px")
    )
    return " ".join(text.split())
