"""Tables on terminals of any width."""

import io
import re

import pytest
from rich.table import Table

from trajdiag.commands import console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(monkeypatch, columns: int, keys: int | None) -> str:
    """A table of four readouts and six numbers, on a terminal of so many columns."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(console.sys, "stdout", terminal)
    table = Table(title="a store", title_justify="left")
    table.add_column("readout")
    for i in range(6):
        table.add_column(f"heading {i}", justify="right", no_wrap=True)
    for name in ("entropy", "top1", "oracle-stays", "oracle-saturation"):
        table.add_row(name, *(f"1.2{i} [1.10, 1.3{i}]" for i in range(6)))
    console.print_table(table, keys)
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())


@pytest.mark.parametrize("columns", [60, 80, 100, 140, 141, 200])
def test_every_name_and_number_is_there_in_full_and_no_line_is_too_long(monkeypatch, columns):
    text = printed(monkeypatch, columns, keys=1)
    assert max(map(len, text.splitlines())) <= columns
    assert text.count("a store") == 1
    for i in range(6):
        assert text.count(f"1.2{i} [1.10, 1.3{i}]") == 4
        assert text.count(f"heading {i}") == 1
    pieces = text.count("oracle-saturation")
    assert text.count("entropy") == pieces
    assert pieces == {60: 6, 80: 3, 100: 2, 140: 2, 141: 1, 200: 1}[columns]


def test_a_terminal_too_narrow_for_one_column_still_gets_them_one_by_one(monkeypatch):
    text = printed(monkeypatch, 20, keys=1)
    assert text.count("entropy") == 6 and max(map(len, text.splitlines())) <= 20


def test_other_tables_are_wrapped(monkeypatch):
    assert printed(monkeypatch, 80, keys=None).count("a store") == 1
