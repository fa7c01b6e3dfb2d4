"""A report is a folder, written whole or not at all."""

import os
import shutil
import tempfile
from pathlib import Path

from trajdiag.errors import ReportError
from trajdiag.reporting.board import board
from trajdiag.reporting.csv_files import csv_files
from trajdiag.reporting.figures import draw_figures
from trajdiag.reporting.html import render_html
from trajdiag.reporting.markdown import render_markdown
from trajdiag.reporting.names import visible
from trajdiag.reporting.svg import standalone
from trajdiag.results import ROW_TYPES, Results

MARK = "results.json"
FIGURES = ("regret", "attribution", "frontier", "accuracy", "signals", "exits", "reliability")
OWN = {
    "report.html",
    "report.md",
    MARK,
    *(f"tables/{table}.csv" for table in ROW_TYPES),
    *(f"figures/{figure}.svg" for figure in FIGURES),
}
"""What a report folder may hold; anything else in it is somebody's own."""


def write_report(
    results: Results, folder: str | os.PathLike[str], title: str | None = None
) -> Path:
    """Renders `results` into `folder` and returns it: report.html, report.md, results.json,
    tables/*.csv and figures/*.svg. The same results give the same bytes.

    A report that is already there is replaced in one step, once the other one is complete on disk.
    Raises ReportError where `folder` holds anything else, or cannot be written."""
    target = Path(folder).resolve()
    _refuse_foreign(target)
    files = report_files(results, title or default_title(results))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        whole = Path(tempfile.mkdtemp(prefix=f".{target.name[:40]}.", dir=target.parent))
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        for name, text in files.items():
            _write(whole / name, text)
        # mkdtemp's folders are private; a report has the mode that the user's umask gives.
        whole.chmod(0o777 & ~_umask())
        _swap(whole, target)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        shutil.rmtree(whole, ignore_errors=True)
    return Path(folder)


def report_files(results: Results, title: str) -> dict[str, str]:
    """The text of every file of the report by its path in the folder."""
    indexed = board(results)
    figures = draw_figures(indexed)
    return {
        "report.html": render_html(indexed, figures, title),
        "report.md": render_markdown(indexed, figures, title),
        MARK: results.to_json(),
        **{f"tables/{name}": text for name, text in csv_files(results).items()},
        **{f"figures/{figure.name}.svg": standalone(figure) for figure in figures},
    }


def default_title(results: Results) -> str:
    """What the report is about, in a line."""
    names = [row.store for row in results.stores]
    about = " and ".join(names) if len(names) < 3 else f"{len(names)} stores"
    return f"Trajectory or readout? {about}"


def _refuse_foreign(target: Path) -> None:
    try:
        if not target.exists():
            return
        if not target.is_dir():
            raise ReportError(
                f"a report is a folder, but {visible(str(target))} is a file; name another --output"
            )
        held = sorted(p.relative_to(target).as_posix() for p in target.rglob("*") if not p.is_dir())
    except OSError as error:
        raise _unwritable(target, error) from error
    foreign = [name for name in held if name not in OWN]
    if held and (foreign or MARK not in held):
        others = ", ".join((foreign or held)[:3])
        raise ReportError(
            f"{visible(str(target))} holds what is not a report's ({visible(others)}); "
            "name an empty folder or an earlier report as --output"
        )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _swap(whole: Path, target: Path) -> None:
    """Puts `whole` in the place of `target`, keeping the earlier report until the other one stands
    there."""
    if not target.exists():
        whole.rename(target)
        return
    earlier = Path(tempfile.mkdtemp(prefix=f".{target.name[:40]}.", dir=target.parent))
    target.rename(earlier / "report")
    try:
        whole.rename(target)
    except OSError:
        (earlier / "report").rename(target)
        raise
    finally:
        shutil.rmtree(earlier, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _unwritable(target: Path, error: OSError) -> ReportError:
    return ReportError(
        f"the report could not be written to {visible(str(target))}: {error.strerror or error}"
    )
