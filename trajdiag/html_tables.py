"""Small tables in HTML, for notebooks: plain markup that takes the page's own style.

Texts may come from anywhere: they are escaped, and what would turn or hide the text around them
stands in a `<bdi>` of its own.
"""

from collections.abc import Iterable, Sequence
from html import escape

Cell = str | None
"""A text; None is an empty cell."""


def html_facts(title: str, facts: Iterable[tuple[str, Cell]]) -> str:
    """Labels with what they say; those of None are left out."""
    rows = [
        f'<tr><th style="text-align:left">{escape(label)}</th>'
        f'<td style="text-align:left">{_text(value)}</td></tr>'
        for label, value in facts
        if value is not None
    ]
    return f"<table>{_caption(title)}<tbody>{''.join(rows)}</tbody></table>"


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A row's first cell is its heading; the others are numbers, flush right."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{_text(row[0])}</th>'
        + "".join(f'<td style="text-align:right">{_text(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"<table>{_caption(title)}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_list(title: str, lines: Iterable[str]) -> str:
    """Sentences under a heading."""
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f"<p><b>{_text(title)}</b></p><ul>{items}</ul>"


def _caption(title: str) -> str:
    return f'<caption style="text-align:left"><b>{_text(title)}</b></caption>'


def _text(value: Cell) -> str:
    return "" if value is None else f"<bdi>{escape(value)}</bdi>"
