"""`trajdiag list`: the names that the other verbs take."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from trajdiag.cachedir import all_stores, gates_folder, store_name
from trajdiag.commands.console import print_table


def list_names(
    kind: Literal["models", "tasks", "readouts", "stores", "gates"],
    *,
    cache_dir: Annotated[
        str | None, Parameter(help="Cache root; $TRAJDIAG_CACHE or ./cache by default.")
    ] = None,
) -> None:
    """List models, tasks, readouts, stores or gates, a line each."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)  # what is to be typed
    for row in _LISTS[kind](cache_dir):
        table.add_row(*map(escape, row))
    if table.rows:
        print_table(table)


def _models(cache_dir: str | None) -> list[tuple[str, ...]]:
    from trajdiag.models.hub import ALIASES, is_cached
    from trajdiag.models.registry import FAMILIES, cached_models, shipped_models

    families = ", ".join(sorted(FAMILIES))
    return [
        *((name, "shipped", "") for name in shipped_models()),
        *((name, "in the cache", "") for name in cached_models(cache_dir)),
        *(
            (alias, "in the hub's cache" if is_cached(whole) else "on the hub", whole)
            for alias, whole in sorted(ALIASES.items())
        ),
        ("FOLDER", "config.json and safetensors", families),
        ("OWNER/NAME", "on the hub, of the same families", "--revision pins one commit"),
        ("package.module:Class", "your own", "trajdiag.models.base.LoopedModel says what it has"),
    ]


def _tasks(cache_dir: str | None) -> list[tuple[str, ...]]:
    from trajdiag.tasks.registry import TASKS

    return [
        *((name, (task.__doc__ or name).splitlines()[0]) for name, task in sorted(TASKS.items())),
        ("package.module:Class", "your own; trajdiag.tasks.base.Task says what it has"),
    ]


def _readouts(cache_dir: str | None) -> list[tuple[str, ...]]:
    from trajdiag.readout_registry import READOUTS

    return [(e.name, e.stops, e.formula, e.reference) for e in READOUTS.values()]


def _stores(cache_dir: str | None) -> list[tuple[str, ...]]:
    return [
        (store_name(path), "complete" if complete else "unfinished", str(path))
        for path, complete in all_stores(cache_dir)
    ]


def _gates(cache_dir: str | None) -> list[tuple[str, ...]]:
    found = []
    for folder in sorted(gates_folder("*", cache_dir).parent.glob("*/*/config.json")):
        gate: Path = folder.parent
        found.append((gate.name, f"on store {gate.parent.name}", str(gate)))
    return found


_LISTS = {
    "models": _models,
    "tasks": _tasks,
    "readouts": _readouts,
    "stores": _stores,
    "gates": _gates,
}
