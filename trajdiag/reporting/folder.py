"""A report is a folder, written whole or not at all."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import islice
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

_ANOTHER = "; name another --output"
_ADVICE = {
    errno.ENOSPC: "; free some space, or name another --output",
    errno.EDQUOT: "; free some space, or name another --output",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _ANOTHER),
}


def write_report(
    results: Results, folder: str | os.PathLike[str], title: str | None = None
) -> Path:
    """Renders `results` into `folder` and returns it: report.html, report.md, results.json,
    tables/*.csv and figures/*.svg. The same results give the same bytes.

    A report that is already there is replaced in one step, once the other one is complete on disk.
    Raises ReportError where `folder` holds anything else, or cannot be written."""
    target = require_usable(folder)
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


def require_usable(folder: str | os.PathLike[str]) -> Path:
    """The absolute path of `folder`, if a report can be written there: it is an earlier report, is
    empty, or is not there and can be made. Leaves nothing behind; raises ReportError otherwise."""
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise ReportError(f"a report needs a folder, got {folder!r}; name one as --output")
    try:
        target = Path(folder).resolve()
        if target.exists():
            _refuse_foreign(target)
        there = next(path for path in target.parents if path.exists())
        if not there.is_dir():
            raise ReportError(
                f"no report can lie in {visible(str(there))}, which is a file; name another "
                "--output"
            )
        if not os.access(there, os.W_OK | os.X_OK):
            raise ReportError(
                f"no report can be written to {visible(str(target))}: {visible(str(there))} is "
                "write-protected; name another --output"
            )
        _try(there, target)
    except (OSError, RuntimeError, ValueError) as error:
        raise _unwritable(Path(folder), error) from error
    return target


def _try(there: Path, target: Path) -> None:
    """Raise ReportError where the system makes no folder in `there`, whatever its mode says."""
    try:
        Path(tempfile.mkdtemp(prefix=".trajdiag-", dir=there)).rmdir()
    except OSError as error:
        raise ReportError(
            f"no report can be written to {visible(str(target))}: no folder can be made in "
            f"{visible(str(there))} ({error.strerror}){_ADVICE.get(error.errno or 0, _ANOTHER)}"
        ) from error


def _refuse_foreign(target: Path) -> None:
    if not target.is_dir():
        raise ReportError(
            f"a report is a folder, but {visible(str(target))} is a file; name another --output"
        )
    foreign = list(islice((name for name in _held(target) if name not in OWN), 3))
    held = list(islice(_held(target), 3))
    if foreign or (held and not (target / MARK).is_file()):
        others = ", ".join(foreign or held)
        raise ReportError(
            f"{visible(str(target))} holds what is not a report's ({visible(others)}); "
            "name an empty folder or an earlier report as --output"
        )


def _held(target: Path) -> Iterator[str]:
    """What is in the folder and is no folder, one after the other: nobody waits until all of a home
    folder was read."""

    def refuse(error: OSError) -> None:
        raise error

    for folder, folders, files in os.walk(target, onerror=refuse):
        folders.sort()
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        for name in sorted(files + links):
            yield (Path(folder) / name).relative_to(target).as_posix()


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


def _unwritable(target: Path, error: Exception) -> ReportError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    advice = _ADVICE.get(error.errno or 0, _ANOTHER) if isinstance(error, OSError) else _ANOTHER
    return ReportError(
        f"the report could not be written to {visible(str(target))}: {reason}{advice}"
    )
