"""The page: one file that needs neither network nor JavaScript, and gains by the script in it."""

import base64
import hashlib
import json
from collections.abc import Iterable
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from trajdiag.reporting import (
    comparison_tables,
    latency_tables,
    quality_tables,
    regret_tables,
    replica_tables,
    tables,
)
from trajdiag.reporting.board import Board
from trajdiag.reporting.example_views import drill_down
from trajdiag.reporting.names import readout_label, visible
from trajdiag.reporting.palette import ROLES
from trajdiag.reporting.prose import prose, typeset
from trajdiag.reporting.svg import Figure
from trajdiag.reporting.terms import terms
from trajdiag.results import ROW_TYPES


def render_html(board: Board, figures: list[Figure], title: str) -> str:
    """The report as an HTML document."""
    environment = Environment(
        loader=PackageLoader("trajdiag.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = {name for key in board.rows for name in key} | board.stores.keys()
    environment.filters |= {"visible": visible, "breakable": _breakable}
    environment.filters["prose"] = lambda text: _prose(text, names)
    # The policy of the page allows this script alone, by its hash.
    script = (resources.files("trajdiag.reporting") / "templates" / "report.js").read_text("utf-8")
    environment.filters["inline"] = lambda panel: Markup(panel.inline())
    return environment.get_template("report.html").render(
        **contents(board, title),
        figures={figure.name: figure for figure in figures},
        colours=Markup(_colours()),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def contents(board: Board, title: str) -> dict[str, Any]:
    """What both the page and the Markdown say, but for the figures."""
    stores = board.stores
    return {
        "title": visible(title),
        "meta": _meta(board),
        "results": board.results,
        "terms": terms(board.slack),
        "summary": tables.summary(board) if len(stores) > 1 else None,
        "scoreboards": [tables.scoreboard(board, store) for store in stores],
        "other_scores": [
            table for store in board.in_full for table in tables.other_scores(board, store)
        ],
        "shares": [tables.shares(board, store) for store in board.drawn],
        "regret": regret_tables.regret(board),
        "every_regret": [
            table for store in stores if (table := regret_tables.every_regret(board, store))
        ],
        "comparisons": comparison_tables.comparisons(board),
        "swap": comparison_tables.swap(board),
        "frozen_fit": comparison_tables.frozen_fit(board),
        "quality": [
            (visible(store), found)
            for store in board.in_full
            if (found := quality_tables.quality(board, store))
        ],
        "examples": [
            found for store in board.drawn if (found := drill_down(board, store)).examples
        ],
        "replicas": replica_tables.replicas(board),
        "latency": latency_tables.latency(board),
        "contexts": latency_tables.contexts(board),
        "provenance": [(row, tables.provenance(row)) for row in stores.values()],
        "config": visible_json(board.results.config),
        "readout_label": readout_label,
        "interval_percent": board.interval_percent,
        "apart": board.apart,
        "by_difficulty": board.by_difficulty,
        "left_out": board.left_out,
        "undrawn": board.undrawn,
        "csv": [f"{table}.csv" for table in ROW_TYPES],
    }


def _prose(text: str, names: Iterable[str]) -> Markup:
    """Running text, its commands as code; what it calls by `names` stays as it is typed."""
    parts = [
        Markup("<code>{}</code>").format(part.text)
        if part.is_command
        else Markup("{}").format(typeset(part.text, names))
        for part in prose(text)
    ]
    return Markup("").join(parts)


def _breakable(name: str) -> Markup:
    """A name that may go on in the next line after an underscore."""
    return Markup("_<wbr>").join(name.split("_"))


def _meta(board: Board) -> list[str]:
    """A line for the stores of each task: its name, and their loops and test examples."""
    alike: dict[str, list[str]] = {}
    for row in board.stores.values():
        test = row.examples.get("test", 0)
        facts = f"{row.task.get('name')}, {row.loops} loops, {test:,} test examples"
        alike.setdefault(visible(facts), []).append(visible(row.store))
    return [f"{facts}: {', '.join(stores)}" for facts, stores in alike.items()]


def visible_json(value: Any) -> str:
    """Indented JSON whose invisible characters show."""
    return "\n".join(
        visible(line) for line in json.dumps(value, indent=2, ensure_ascii=False).splitlines()
    )


def _colours() -> str:
    """CSS variables and classes of all roles, light and dark."""
    light = "".join(f"--{name}:{role.light};" for name, role in ROLES.items())
    dark = "".join(f"--{name}:{role.dark};" for name, role in ROLES.items())
    classes = "".join(
        f".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name})}}" for name in ROLES
    )
    scheme = "@media screen and (prefers-color-scheme:dark)"  # paper is white
    return f":root{{{light}}}\n{scheme}{{:root{{{dark}}}}}\n{classes}"
