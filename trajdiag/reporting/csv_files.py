"""Every table of Results as CSV: the rows as they are, one file a table."""

import csv
import dataclasses
import io
import json
from typing import Any

from trajdiag.results import ROW_TYPES, Results


def csv_files(results: Results) -> dict[str, str]:
    """The text of each file by its name; None is an empty field, lists and dicts are JSON."""
    return {f"{table}.csv": _table(results, table) for table in ROW_TYPES}


def _table(results: Results, table: str) -> str:
    stream = io.StringIO()
    columns = [field.name for field in dataclasses.fields(ROW_TYPES[table])]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in getattr(results, table):
        writer.writerow([_field(getattr(row, column)) for column in columns])
    return stream.getvalue()


def _field(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
