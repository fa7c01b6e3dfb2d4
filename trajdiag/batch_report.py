"""Stores to a report folder: diagnose them together and render what was found."""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from trajdiag.cachedir import reports_folder
from trajdiag.diagnosis.diagnosing import diagnose
from trajdiag.reporting.folder import require_usable, write_report
from trajdiag.reporting.names import visible
from trajdiag.scoring.stores import StoreLike, open_stores
from trajdiag.store.reader import open_store


def report(
    stores: StoreLike | Iterable[StoreLike] | None = None,
    reference: StoreLike | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    title: str | None = None,
    command: str | None = None,
    progress: Callable[[str], None] = lambda line: None,
    **options: Any,
) -> Path:
    """Diagnose `stores` and write the report; gives the path of report.html.

    The folder is `output`, or one in the cache named after the stores; a report already there is
    replaced, any other content refused, before anything is computed. `progress` is told what is
    done, then the verdict. Arguments and errors are otherwise those of `diagnose`, and ReportError
    where the folder cannot be written.
    """
    cache_dir = options.get("cache_dir")
    opened = open_stores(stores, cache_dir)
    if output is None:
        compared = opened if reference is None else [*opened, open_store(reference, cache_dir)]
        output = reports_folder(cache_dir) / report_name([s.name for s in compared])
    require_usable(output)
    results = diagnose(opened, reference, command=command, progress=progress, **options)
    for sentence in results.verdict:
        progress(visible(sentence))
    return write_report(results, output, title) / "report.html"


def report_name(stores: Iterable[str]) -> str:
    """The folder of a report in the cache: the store's name, or the number of stores and a hash of
    their names."""
    names = list(dict.fromkeys(stores))
    if len(names) == 1:
        return names[0]
    return f"{len(names)}-stores-{hashlib.sha256(' '.join(names).encode()).hexdigest()[:8]}"
