"""`trajdiag` alone: what to do next, by what the cache holds."""

import shlex
from pathlib import Path
from typing import Any

from trajdiag.cachedir import (
    all_stores,
    gates_folder,
    latency_folder,
    reports_folder,
    store_name,
    store_record,
    stores_folder,
)

_FIRST, _SECOND = "mano-joint-linear", "mano-fixed-uniform"
"""Shipped models: one with a gate of its own, and one without to hold it against."""
_ARRAYS = "arrays"
"""The family of a store that no model made; `store.schema`, which says so, is slow to import."""
_SPLITS = ("fit", "val", "test")
_HELP = ("trajdiag --help", "all commands")

Step = tuple[str, str]
"""A command, and what it is for."""


def next_step() -> str:
    """What the cache holds, and the commands that are useful next, as text."""
    there, steps = _known()
    width = max(len(command) for command, _ in steps)
    lines = [f"    {command:<{width}}  {purpose}" for command, purpose in steps]
    return "\n".join([there, "Next:", *lines, ""])


def _known() -> tuple[str, list[Step]]:
    stores = all_stores()
    complete = [path for path, is_complete in stores if is_complete]
    if complete:
        return _of_store(complete[0], len(stores))
    if stores:
        return _of_unfinished(stores[0][0])
    return f"No store in {stores_folder()} so far.", [
        (f"trajdiag extract --model {_FIRST}", "run a shipped model once, and store every loop"),
        ("trajdiag import mine.npz", "or make a store of arrays of your own run"),
        ("trajdiag list models", "models that can be run, your own too"),
        _HELP,
    ]


def _of_unfinished(path: Path) -> tuple[str, list[Step]]:
    commands = (store_record(path) or {}).get("commands") or [""]
    again = str(commands[0])
    steps = [(again, "goes on where it stopped")] if again.startswith("trajdiag ") else []
    said = "" if steps else "; run the Python code that began it again, and it goes on"
    show = (f"trajdiag show {_word(path)}", "what is there")
    return f"Store {path} is unfinished{said}.", [*steps, show, _HELP]


def _of_store(path: Path, count: int) -> tuple[str, list[Step]]:
    name, word = store_name(path), _word(path)
    gates = len(list(gates_folder(name).glob("*/config.json")))
    page = _report_of(path)
    fit = (f"trajdiag fit-gate {word} --kind mlp", "fit a gate on its frozen states")
    score = (f"trajdiag score {word}", "every readout at all its thresholds, as a table")
    report = (f"trajdiag report {word}", "the diagnosis: trajectory or readout")
    others = [("trajdiag list stores", f"all {count} stores")] if count > 1 else []
    there = f"Newest store: {path}, with {gates} gate{'s' * (gates != 1)} fitted on it."
    absent = _absent_splits(path)
    if {"val", "test"} & set(absent):
        return _of_one_that_lacks(absent, path, there, others)
    fits = [] if gates or absent else [fit]
    if page is None:
        return there, [*fits, score, report, *others, _HELP]
    measured = any(latency_folder(name).glob("*.json"))
    latency = (f"trajdiag latency {word}", "run readouts live: what early exit saves")
    steps = [*fits]
    steps += [latency] if not _is_of_arrays(path) and not measured else []
    steps += others or [(f"trajdiag extract --model {_SECOND}", "another trajectory to compare")]
    compare = (f"trajdiag report {word} --reference OTHER", "the diagnosis against another store")
    whose = "Its report" if page.parent.name == name else "Newest report of several stores"
    return f"{there}\n{whose}: {page}", [*steps, compare, _HELP]


def _of_one_that_lacks(
    absent: list[str], path: Path, there: str, others: list[Step]
) -> tuple[str, list[Step]]:
    """A store without val or test can be neither scored nor diagnosed."""
    word = _word(path)
    made = "import its arrays" if _is_of_arrays(path) else "extract"
    said = (
        f"It has no example of split {' or '.join(absent)}, and thresholds are chosen on val, "
        f"numbers taken from test: {made} again with them, and --overwrite."
    )
    show = (f"trajdiag show {word}", "what it holds, and what made it")
    return f"{there}\n{said}", [show, *others, _HELP]


def _is_of_arrays(path: Path) -> bool:
    record: dict[str, Any] = store_record(path) or {}
    return (record.get("model") or {}).get("family") == _ARRAYS


def _absent_splits(path: Path) -> list[str]:
    """The splits of which the store has no example; none where that cannot be told. Read off its
    files: what reads stores is slow to import."""
    texts = b"".join(chunk.read_bytes() for chunk in (path / "split").glob("c.*"))
    # each is its length in four bytes, then itself
    there = {s for s in _SPLITS if len(s).to_bytes(4, "little") + s.encode() in texts}
    return [split for split in _SPLITS if split not in there] if there else []


def _report_of(path: Path) -> Path | None:
    """The page of the store's own report, else of the newest report over several stores that is not
    older than the store; None where there is neither."""
    own = reports_folder() / store_name(path) / "report.html"
    if own.is_file():
        return own
    pages = reports_folder().glob("*-stores-*/report.html")
    newest = max(pages, key=lambda page: page.stat().st_mtime, default=None)
    told = newest is not None and newest.stat().st_mtime >= path.stat().st_mtime
    return newest if told else None


def _word(path: Path) -> str:
    """The store at `path` as an argument: its name, unless a folder here bears that too."""
    name = store_name(path)
    return shlex.quote(str(path) if Path(name).is_dir() else name)
