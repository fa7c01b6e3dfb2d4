"""The command line: verbs are loaded when they are run, so that `trajdiag --help` imports nothing
heavy.

stdout carries results, stderr carries progress. Exit codes: 0 ok, 1 an error of the user's to fix,
in one line, 2 usage, 130 interrupted.
"""

import difflib
import errno
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError, convert

from trajdiag import __version__
from trajdiag.commands.misread import said_of_misread, whole_number
from trajdiag.errors import TrajdiagError, UsageError


def _convert(kind: Any, tokens: Any) -> Any:
    """As the library converts, which would round a fraction where a whole number is wanted."""
    if kind in (int, int | None):
        for token in tokens:
            if "." in token.value and not float(token.value).is_integer():
                raise ValueError(whole_number(token.value))
    return convert(kind, tokens)


app = App(
    name="trajdiag",
    version=__version__,
    # An empty list is given by naming nothing: no --empty-NAME flags.
    default_parameter=Parameter(negative_iterable=(), converter=_convert),
    suppress_keyboard_interrupt=False,
    help_format="plaintext",
    help="Diagnose adaptive depth in looped Transformers: is it the trajectory or the readout?",
)
_VERBS = {
    "train": "Train a small looped model on a synthetic task.",
    "extract": "Run a looped model over a task and store every loop.",
    "import": "Make a store of the arrays of your own run.",
    "fit-gate": "Fit a halting gate on a store's frozen states.",
    "score": "Score every readout of one or more stores.",
    "report": "Diagnose stores and write the report.",
    "latency": "Run a readout live and measure what early exit saves.",
    "show": "Show what a store holds.",
    "list": "List models, tasks, readouts, stores or gates.",
}
_FUNCTIONS = {
    "list": "list:list_names",
    "fit-gate": "fit_gate:fit_gate",
    "import": "import_arrays:import_arrays",
}
for _verb, _help in _VERBS.items():
    _function = _FUNCTIONS.get(_verb, f"{_verb}:{_verb}")
    # Only a verb's own help needs its texts reflowed: importing what does that would take half of
    # the time that the list of verbs does.
    app.command(f"trajdiag.commands.{_function}", name=_verb, help=_help, help_format="markdown")


_COMPLETION = (
    "Write it to a file once: "
    "`trajdiag completion bash > ~/.local/share/bash-completion/completions/trajdiag`; "
    "`trajdiag completion fish > ~/.config/fish/completions/trajdiag.fish`; "
    "`trajdiag completion zsh > ~/.zfunc/_trajdiag`, with `fpath+=~/.zfunc` before `compinit` in "
    "~/.zshrc."
)


@app.command
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help=_COMPLETION)], /
) -> None:
    """Print the completion script of bash, zsh or fish."""
    sys.stdout.write(app.generate_completion(shell=shell))


_FULL = "; free some space and run the same command again, it goes on where it was"
_NO_MEMORY = "not enough memory: {}; ask for less, or lower --memory"
_TRIED = re.compile(r"[Tt]ried to allocate [\d.,]+ \w+")
"""What torch, which raises RuntimeErrors, says of memory that is not there."""
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    warnings.showwarning = _warn
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
    try:
        if not tokens:
            from trajdiag.commands.next_step import next_step

            sys.stdout.write(next_step())
            sys.stdout.flush()
            return 0
        app(
            tokens,
            result_action="return_value",
            exit_on_error=False,
            print_error=False,
        )
        sys.stdout.flush()
    except UnknownCommandError:
        # The library's own message would import every verb to suggest one.
        verbs = [name for name in app if not name.startswith("-")]
        if tokens[0].startswith("-"):
            return _fail(
                f"options come after a command, as in trajdiag score {tokens[0]} ...; the commands "
                f"are {', '.join(verbs)}",
                2,
            )
        close = difflib.get_close_matches(tokens[0], verbs, 1)
        meant = f", did you mean {close[0]}?" if close else ";"
        return _fail(f"unknown command {tokens[0]!r}{meant} the commands are {', '.join(verbs)}", 2)
    except CycloptsError as error:
        return _fail(said_of_misread(error, tokens[0]), 2)
    except UsageError as error:
        return _fail(str(error), 2)
    except TrajdiagError as error:
        return _fail(str(error), 1)
    except BrokenPipeError:
        # Whoever read our output has left, as `| head` does: nothing more can be said, and nothing
        # is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        advice = _FULL if error.errno == errno.ENOSPC else ""
        if error.errno in _REFUSED:
            advice = f"; choose another {_places(tokens[0])}"
        return _fail(f"{error.strerror or error}{place}{advice}", 1)
    except MemoryError as error:
        return _fail(_NO_MEMORY.format(error), 1)
    except KeyboardInterrupt:
        return _fail(
            f"interrupted; run it again to go on: {shlex.join(['trajdiag', *tokens])}", 130
        )
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except Exception as error:
        wanted = _TRIED.search(str(error)) if isinstance(error, RuntimeError) else None
        if wanted is not None:
            return _fail(_NO_MEMORY.format(wanted[0]), 1)
        # The last resort: one line, never a wall of text.
        if os.environ.get("TRAJDIAG_TRACEBACK"):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        return _fail(
            f"a fault of trajdiag's own, please report it: {type(error).__name__}: {error} "
            f"({Path(place.filename).name}:{place.lineno}; TRAJDIAG_TRACEBACK=1 shows more)",
            1,
        )
    return 0


def _places(verb: str) -> str:
    """The options of a verb that say where it writes."""
    known = [name for x in app[verb].assemble_argument_collection() for name in x.names]
    return " or ".join(name for name in ("--cache-dir", "--output") if name in known)


def _warn(message: Warning | str, *_: object) -> None:
    print(f"trajdiag: {' '.join(str(message).split())}", file=sys.stderr)


def _fail(message: str, code: int) -> int:
    print(f"trajdiag: {' '.join(message.split())}", file=sys.stderr)
    return code
