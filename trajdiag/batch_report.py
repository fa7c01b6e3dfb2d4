"""Stores to a report folder: diagnose them together and render what was found."""

import dataclasses
import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trajdiag.cachedir import cache_option, reports_folder
from trajdiag.diagnosis.checks import Check, failures, parse_check, quantities, require_known
from trajdiag.diagnosis.diagnosing import DiagnoseConfig, diagnose, with_swap
from trajdiag.errors import CheckError, UsageError
from trajdiag.latency.saved import saved_latency
from trajdiag.names import checked_options, require_type
from trajdiag.progress import Progress
from trajdiag.readout import released_at
from trajdiag.readout_registry import BOUND
from trajdiag.reporting.folder import require_usable, write_report
from trajdiag.reporting.names import visible
from trajdiag.results import LatencyRow, Results
from trajdiag.scoring.stores import StoreLike, open_stores, readout_names
from trajdiag.store.reader import Store, open_store


def report(
    stores: StoreLike | Iterable[StoreLike] | None = None,
    reference: StoreLike | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    title: str | None = None,
    command: str | None = None,
    fail_if: str | Iterable[str] = (),
    progress: Progress = lambda line: None,
    **options: Any,
) -> Path:
    """Diagnose `stores` and write the report, with what `latency` has measured on them; gives the
    path of report.html.

    The folder is `output`, or one in the cache named after the stores; a report already there is
    replaced, any other content refused, before anything is computed. `progress` is told what is
    done, then the verdict. Arguments and errors are otherwise those of `diagnose`, and ReportError
    where the folder cannot be written. `fail_if` are conditions such as `readout > 0.05` (see
    trajdiag.diagnosis.checks): CheckError where one of them is true, when the report is written;
    UsageError, before anything is computed, for what is no condition and for a quantity or readout
    that there is not.
    """
    title = require_type("title", title, str | None)
    command = require_type("command", command, str | None)
    fail_if = require_type("fail_if", _listed(fail_if), tuple[str, ...])
    checks = list(map(parse_check, fail_if))
    cache_dir = options.get("cache_dir")
    opened = open_stores(stores, cache_dir)
    compared = opened if reference is None else [*opened, open_store(reference, cache_dir)]
    if output is None:
        output = reports_folder(cache_dir) / report_name(
            [s.name for s in opened], None if reference is None else compared[-1].name
        )
    require_usable(output)
    _require_known(checks, compared, options)
    latency = _latency(compared, cache_dir, progress)
    results = diagnose(opened, reference, command=command, progress=progress, **options)
    results = dataclasses.replace(results, latency=latency)
    progress(f"writing the report to {visible(os.fspath(output))}")
    for sentence in results.verdict:
        progress(visible(sentence))
    page = write_report(results, output, title) / "report.html"
    _require(results, checks, page)
    return page


def _require_known(
    checks: Sequence[Check], stores: Iterable[Store], options: Mapping[str, Any]
) -> None:
    """UsageError where a check is about what these options will not give."""
    if not checks:
        return
    stores = list(stores)
    config = DiagnoseConfig(**checked_options("diagnose", DiagnoseConfig, options))
    config = with_swap(stores, config)
    readouts = [name for store in stores for name in readout_names(store, config)]
    loops = max(store.loops for store in stores)
    released = {at for store in stores if (at := released_at(store)) is not None}
    known = quantities(loops, config.targets, sorted(released))
    require_known(checks, [*readouts, BOUND], known)


def _require(results: Results, checks: Iterable[Check], page: Path) -> None:
    """CheckError for what came true, with what names nothing beside it; UsageError where that is
    all."""
    failed, unknown = [], []
    for check in checks:
        try:
            failed += failures(results, [check])
        except UsageError as error:
            unknown.append(error)
    if failed:
        raise CheckError("; ".join(map(visible, [*failed, *map(str, unknown)])), str(page))
    if unknown:
        raise UsageError(f"{unknown[0]}. The report is {page}")


def _latency(
    stores: Iterable[Store],
    cache_dir: str | os.PathLike[str] | None,
    progress: Progress,
) -> list[LatencyRow]:
    """What was measured on the stores; `progress` is told what is left out."""
    found: list[LatencyRow] = []
    for store in {store.name: store for store in stores}.values():
        rows, stale = saved_latency(store, cache_dir)
        found += rows
        if stale:
            progress(
                f"left out, since it was measured on another store named {store.name} or cannot be "
                f"read: latency of {', '.join(stale)}; measure it again with `trajdiag latency "
                f"{shlex.quote(store.name)} --readout {stale[0]}{cache_option(cache_dir)}`"
            )
    return found


def report_name(stores: Iterable[str], reference: str | None = None) -> str:
    """The folder of a report in the cache: the store's name, or the number of stores and a hash of
    their names and of the reference that was asked for."""
    names = list(dict.fromkeys(stores))
    count = len({*names, reference} - {None})
    if count == 1:
        return names[0]
    text = " ".join(names) + ("" if reference is None else f" against {reference}")
    return f"{count}-stores-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _listed(texts: Any) -> Any:
    """One text as a list of it, and what can be gone through but once as one that can be again."""
    if isinstance(texts, str):
        return [texts]
    return list(texts) if isinstance(texts, Iterator) else texts
