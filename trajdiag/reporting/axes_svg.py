"""matplotlib axes as small SVG: colours become roles, groups and ids go, places are told to a tenth
of a pixel."""

import io
import itertools
import math
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType

import matplotlib
from matplotlib.axes import Axes

from trajdiag.reporting.palette import ROLE_OF_COLOUR
from trajdiag.reporting.svg import TEXT, Panel

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
NEAR = 0.7
"""Points of a line that are nearer than this are one, px."""
_PLACES = ("d", "x", "y", "x1", "y1", "x2", "y2", "points", "transform")
"""Attributes in px of the panel: a tenth is less than a reader's pixel."""
_DEFAULT = {"text-anchor": "start", "font-size": f"{TEXT}", "stroke-width": "1", "opacity": "1"}
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_STRAIGHT = re.compile(r"[ML0-9. -]+z?$")
_GROUP = re.compile(r"(series|key):(.+)$", re.DOTALL)
_HASHED = re.compile(r"[mpC][0-9a-f]{8,}(?:_\w+)?$")
"""Ids that matplotlib refers to: markers, clip paths and collections. All others only repeat."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """A point of a series whose interval is known, in the units of the axes."""

    x: float
    y: float
    low: float
    high: float
    across: tuple[float, float] | None = None
    """The interval of x, where it has one."""


def panel_of(
    ax: Axes,
    *,
    name: str,
    title: str,
    alt: str,
    unit: tuple[str, str] | None = None,
    known: Mapping[str, Sequence[Known]] = MappingProxyType({}),
) -> Panel:
    """The canvas of the axes as a panel; `name`, from which ids are derived, must be unique in a
    report. With the `unit` of both axes, the page's script tells the values of the series (artists
    whose gid is `series:NAME`; what belongs to one in a key is `key:NAME`), with the intervals that
    are `known` of each."""
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
    told = {series: _intervals(points) for series, points in known.items() if points}
    body = "".join(_elements(ET.fromstring(stream.getvalue()), told))
    return Panel(
        name=name, title=title, alt=alt, width=width, height=height, body=body, data=_plot(ax, unit)
    )


def _plot(ax: Axes, unit: tuple[str, str] | None) -> str:
    """Where the axes lie in the panel, what they go from and to, and the units."""
    if unit is None:
        return ""
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    box = ax.get_window_extent()
    scale = 72 / ax.figure.dpi
    canvas = ax.get_figure(root=True)
    assert canvas is not None
    tall = 72 * canvas.get_size_inches()[1]
    numbers = (
        *(scale * box.x0, tall - scale * box.y0, scale * box.x1, tall - scale * box.y1),
        *(x0, y0, x1, y1),
    )
    return f' data-plot="{" ".join(f"{n:.6g}" for n in numbers)}" data-unit="{"|".join(unit)}"'


def _intervals(points: Sequence[Known]) -> str:
    """The points in order, each as x, y, low and high, and both ends of x where it has them."""
    ordered = sorted(points, key=lambda point: point.x)
    rows = ((p.x, p.y, p.low, p.high, *(p.across or ())) for p in ordered)
    return ";".join(" ".join(f"{number:.4g}" for number in row) for row in rows)


def _elements(node: ET.Element, told: Mapping[str, str]) -> Iterator[str]:
    """The drawn elements under `node`, without matplotlib's groups, ids and style attributes; a
    series has its intervals as they are `told`."""
    for child in node:
        tag = child.tag.rpartition("}")[2]
        if tag in ("metadata", "style"):
            continue
        inner = "".join(_elements(child, told))
        if named := _GROUP.match(child.get("id", "")):
            known = told.get(named[2]) if named[1] == "series" else None
            told_too = f' data-known="{known}"' if known else ""
            yield f'<g data-{named[1]}="{escape(named[2])}"{told_too}>{inner}</g>'
            continue
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
    kept = {key: value for key, value in kept.items() if _DEFAULT.get(key) != value}
    return kept | ({"class": " ".join(classes)} if classes else {})


def _rounded(key: str, value: str) -> str:
    if key in ("id", "href", "clip-path", "fill", "stroke"):
        return value
    decimals = 1 if key in _PLACES else 2
    text = _NUMBER.sub(lambda m: _short(float(m[0]), decimals), value.removesuffix("px"))
    text = " ".join(text.split())
    return _steps(text) if key == "d" and _STRAIGHT.match(text) else text


def _steps(path: str) -> str:
    """A path of straight lines with each point told from the one before, which is shorter."""
    lines, closed = [], path.endswith("z")
    for line in path.removesuffix("z").split("M")[1:]:
        points = _apart([tuple(map(float, point.split())) for point in line.split("L")])
        text = f"M{_short(points[0][0])} {_short(points[0][1])}"
        steps = [
            f"{_short(x - x0)} {_short(y - y0)}" for (x0, y0), (x, y) in itertools.pairwise(points)
        ]
        lines.append(text + (f"l{' '.join(steps)}" if steps else ""))
    return "".join(lines).replace(" -", "-") + ("z" if closed else "")


def _apart(points: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """The points without those that lie on the one before, but for the ends."""
    kept = points[:1]
    for point in points[1:-1]:
        if math.dist(point, kept[-1]) >= NEAR:
            kept.append(point)
    return kept + points[1:][-1:]


def _short(number: float, decimals: int = 1) -> str:
    text = f"{number:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
