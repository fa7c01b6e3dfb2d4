"""How the command line talks: results on stdout, as wide as they need to be where no terminal
limits them; progress on stderr."""

import sys

from rich.console import Console
from rich.table import Table

_UNLIMITED = 10_000
"""Columns; in a pipe or a file nothing is cut or wrapped."""


def print_table(table: Table) -> None:
    """One table on stdout."""
    width = None if sys.stdout.isatty() else _UNLIMITED
    Console(file=sys.stdout, width=width, highlight=False).print(table)


def to_stderr(line: str) -> None:
    """One line of progress."""
    print(line, file=sys.stderr, flush=True)
