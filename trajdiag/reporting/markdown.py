"""The report as Markdown, for a README, an issue or a pull request."""

import re

from jinja2 import Environment, PackageLoader, StrictUndefined

from trajdiag.reporting.board import Board
from trajdiag.reporting.cells import Table
from trajdiag.reporting.html import contents
from trajdiag.reporting.names import visible
from trajdiag.reporting.prose import prose
from trajdiag.reporting.svg import Figure


def render_markdown(board: Board, figures: list[Figure], title: str) -> str:
    """The report as GitHub-flavoured Markdown; figures are linked, not embedded."""
    environment = Environment(
        loader=PackageLoader("trajdiag.reporting"),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "md": escaped,
        "prose": _prose,
        "visible": visible,
        "table": _table,
        "fence": _fence,
    }
    text = environment.get_template("report.md").render(**contents(board, title), figures=figures)
    return re.sub(r"\n{3,}", "\n\n", text)


def escaped(text: str) -> str:
    """`text` with everything that Markdown or HTML would read as markup escaped."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&])", r"\\\1", visible(text))


def _prose(text: str) -> str:
    """Running text, its commands as code, in which nothing needs an escape."""
    return "".join(
        f"`{part.text}`" if part.is_command else escaped(part.text) for part in prose(text)
    )


def _table(table: Table) -> str:
    rule = "|".join([":--", *["--:"] * (len(table.head) - 1)])
    lines = [f"| {' | '.join(escaped(head) for head in table.head)} |", f"|{rule}|"]
    for row in table.rows:
        parts = [filter(None, (cell.text, cell.interval, *cell.notes)) for cell in row]
        cells = [escaped(" ".join(part)) for part in parts]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _fence(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}\n{text.rstrip()}\n{ticks}"
