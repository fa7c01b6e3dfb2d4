"""How the command line talks: results on stdout, as wide as they need to be where no terminal
limits them; progress on stderr."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from trajdiag.cachedir import find_store

_UNLIMITED = 10_000
"""Columns; in a pipe or a file nothing is cut or wrapped."""


def print_table(table: Table) -> None:
    """One table on stdout."""
    width = None if sys.stdout.isatty() else _UNLIMITED
    Console(file=sys.stdout, width=width, highlight=False).print(table)


def say_store(stores: Sequence[str], cache_dir: str | None) -> None:
    """Where no store was named, which one is meant."""
    if not stores:
        to_stderr(f"newest complete store: {find_store(None, cache_dir)}")


def to_stderr(line: str) -> None:
    """One line of progress."""
    print(line, file=sys.stderr, flush=True)
