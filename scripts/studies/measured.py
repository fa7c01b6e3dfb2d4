"""All finished runs, run live and diagnosed together: one batch report."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from studies.runs import Run, stores_of
from studies.settings import READOUTS, Scale

import trajdiag
from trajdiag.errors import TrajdiagError
from trajdiag.latency.saved import saved_latency

Say = Callable[[str], None]
RESULTS, PAGE = "results.json", "report.html"
"""Files of a report."""


def run_live(root: Path, scale: Scale, runs: Sequence[Run], say: Say) -> dict[str, str]:
    """Time the scale's `live` readouts on the models of seed 0, those that have not been; gives
    what stopped those that failed, by store and readout. The report takes the numbers up from the
    cache."""
    names, failed = {run.name for run in runs}, {}
    for task, setting, readout in scale.live:
        store = f"{task}-{setting}-s0"
        if store not in names:
            continue
        rows, _ = saved_latency(trajdiag.open(store, cache_dir=str(root)), str(root))
        if any(row.readout == readout for row in rows):
            continue
        say(f"{store}: {readout} live")
        try:
            trajdiag.measure_latency(store, readout, cache_dir=str(root), **scale.live_options)
        except TrajdiagError as error:
            failed[f"{store}, {readout} live"] = str(error)
    return failed


def report_all(root: Path, scale: Scale, runs: Sequence[Run], say: Say) -> dict[str, Any]:
    """The results of one report over all stores of `runs`, as plain values; the report is made
    again only where stores, gates, live runs or options have changed."""
    stores = [
        name for task in scale.tasks for run in runs if run.task == task.task
        for name in stores_of(task, run)
    ]  # fmt: skip
    options = {
        "readouts": READOUTS,
        "bound": scale.bound,
        "n_resamples": scale.resamples,
        "memory": 64.0,
    }
    folder, mark = root / "reports" / "all", root / "reports" / "all.made-of"
    made_of = _made_of(root, stores, options)
    if not _is_made_of(folder, mark, made_of):
        say(f"one report over {len(stores)} stores")
        if mark.is_file():  # a report of ours that has lost this file is still one
            folder.mkdir(exist_ok=True)
            (folder / RESULTS).touch()
        trajdiag.report(
            stores,
            output=folder,
            title=f"The study, scale {scale.name}: {len(stores)} stores",
            command=f"scripts/study --scale {scale.name}",
            progress=say,
            cache_dir=str(root),
            **_present(root, stores, options),
        )
        mark.write_text(f"{made_of} {_hash(folder / RESULTS)}", encoding="utf-8")
    return json.loads((folder / RESULTS).read_text("utf-8"))


def _is_made_of(folder: Path, mark: Path, made_of: str) -> bool:
    """Whether a report is there that follows from what `made_of` is the hash of, and its results
    are what was written."""
    try:
        kept = mark.read_bytes().decode(errors="replace")
        return (folder / PAGE).is_file() and kept == f"{made_of} {_hash(folder / RESULTS)}"
    except OSError:
        return False


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _present(root: Path, stores: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    """The options, with the fitted gates among the readouts."""
    gates = sorted({path.parent.name for s in stores for path in _gate_files(root, s)})
    has_native = any(trajdiag.open(store, cache_dir=str(root)).has_gate for store in stores)
    wanted = [name for name in options["readouts"] if name != "native" or has_native]
    return {**options, "readouts": (*wanted, *gates)}


def _gate_files(root: Path, store: str) -> list[Path]:
    return sorted((root / "gates" / store).glob("*/config.json"))


def _made_of(root: Path, stores: Sequence[str], options: dict[str, Any]) -> str:
    """A hash of everything that the report follows from."""
    parts = [json.dumps(options, sort_keys=True).encode()]
    for store in stores:
        parts.append(trajdiag.open(store, cache_dir=str(root)).fingerprint.encode())
        parts += [path.read_bytes() for path in _gate_files(root, store)]
    parts += [path.read_bytes() for path in sorted((root / "latency").glob("*/*.json"))]
    return hashlib.sha256(b"\n".join(parts)).hexdigest()
