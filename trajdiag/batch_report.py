"""Stores to a report folder: diagnose them together and render what was found."""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from trajdiag.cachedir import reports_folder
from trajdiag.diagnosis.diagnosing import diagnose
from trajdiag.reporting.folder import write_report
from trajdiag.results import Results
from trajdiag.scoring.stores import StoreLike


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
    replaced, any other content refused. Arguments and errors are otherwise those of `diagnose`, and
    ReportError where the folder cannot be written.
    """
    results = diagnose(stores, reference, command=command, progress=progress, **options)
    if output is None:
        output = reports_folder(options.get("cache_dir")) / report_name(results)
    return write_report(results, output, title) / "report.html"


def report_name(results: Results) -> str:
    """The folder of a report in the cache: the store's name, or the number of stores and a hash of
    their names."""
    names = [row.store for row in results.stores]
    if len(names) == 1:
        return names[0]
    return f"{len(names)}-stores-{hashlib.sha256(' '.join(names).encode()).hexdigest()[:8]}"
