"""Every table of Results as CSV: the rows as they are, one file a table.

A spreadsheet runs a cell that begins with = + - @, a tab or a line's end as a formula, and names
are whoever's: such a text stands behind an apostrophe, which tells a spreadsheet that it is one.
Numbers are written as they are.
"""

import csv
import dataclasses
import io
import json
from collections.abc import Iterable
from typing import Any

from trajdiag.results import ROW_TYPES, Results


def csv_files(results: Results) -> dict[str, str]:
    """The text of each file by its name; None is an empty field, lists and dicts are JSON."""
    return {f"{table}.csv": csv_table(results, table) for table in ROW_TYPES}


def csv_table(results: Results, table: str) -> str:
    """The text of one of them."""
    columns = [field.name for field in dataclasses.fields(ROW_TYPES[table])]
    rows = ([csv_field(getattr(row, name)) for name in columns] for row in getattr(results, table))
    return "".join(map(_line, [columns, *rows]))


def _line(fields: Iterable[Any]) -> str:
    """One row; the library quotes a carriage return only where lines end with one."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\r\n").writerow(fields)
    return stream.getvalue().removesuffix("\r\n") + "\n"


def csv_field(value: Any) -> Any:
    """What is written of a value: no formula."""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


_FORMULAS = (*"=+-@\t\r\n", *"＝＋－＠")
"""What a formula begins with; some spreadsheets read the wide forms too."""
