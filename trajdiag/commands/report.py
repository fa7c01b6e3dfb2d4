"""`trajdiag report`."""

import shlex
import sys
from typing import Annotated

from cyclopts import Parameter

from trajdiag.batch_report import report as write_report
from trajdiag.commands.console import say_store, to_stderr
from trajdiag.diagnosis.diagnosing import DiagnoseConfig
from trajdiag.errors import CheckError
from trajdiag.names import options_of


def report(
    *stores: Annotated[str, Parameter(help="Names or paths; the newest complete one by default.")],
    reference: Annotated[
        str | None,
        Parameter(help="Store to compare with; of each task, the best oracle on val by default."),
    ] = None,
    output: Annotated[
        str | None, Parameter(help="Folder of the report; one in the cache by default.")
    ] = None,
    title: Annotated[str | None, Parameter(help="Title of the report.")] = None,
    fail_if: Annotated[
        tuple[str, ...],
        Parameter(
            help="Exit 1 where this is true of a store: [READOUT:]QUANTITY"
            ", <, <=, > or >=, and a number, such as 'readout > 0.05'; a name with blanks stands "
            "in quotes, as in '\"my gate\":depth > 3'. Repeat it for more."
        ),
    ] = (),
    options: Annotated[DiagnoseConfig, Parameter(name="*")] = DiagnoseConfig(),  # noqa: B008
) -> None:
    """Diagnose stores and write the report: HTML, Markdown, JSON, CSV tables and SVG figures.

    Fits the learned bound on each store by itself (half a minute for 10,000 examples). Prints the
    path of report.html, and on stderr the verdict.
    """
    say_store(stores, options.cache_dir)
    try:
        path = write_report(
            stores or None,
            reference,
            output=output,
            title=title,
            command=shlex.join(["trajdiag", *sys.argv[1:]]),
            fail_if=fail_if,
            progress=to_stderr,
            **options_of(options),
        )
    except CheckError as failed:
        print(failed.report)
        raise
    print(path)
