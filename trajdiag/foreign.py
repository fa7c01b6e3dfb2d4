"""A user's own code, named as package.module:Class: found, and run so that errors are one line."""

import importlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from trajdiag.errors import ConfigError, TrajdiagError, UnknownNameError

_INSTALLED = tuple({sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")})


_HERE = f"{Path(__file__).parent}{os.sep}"


@contextmanager
def running(what: str, passing: tuple[type[BaseException], ...] = ()) -> Iterator[None]:
    """Turn whatever that code raises, an exit included, into a ConfigError that says where; but for
    what is `passing`."""
    try:
        yield
    except (TrajdiagError, OSError, MemoryError, *passing):
        raise
    except (Exception, SystemExit) as error:
        place = _place(error)
        raise ConfigError(
            f"{what} failed: {type(error).__name__}: {' '.join(str(error).split())}"
            + (f" ({place})" if place else "")
        ) from error


def import_class(kind: str, name: str) -> type:
    """The class that `name`, package.module:Class, means; the current folder is searched too.

    `kind` says what it is to be. Raises ConfigError for a module that cannot be imported,
    UnknownNameError for a class that it does not have.
    """
    module_name, _, class_name = name.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise ConfigError(
            f"{kind} {name}: {module_name!r} is no module's name; wanted package.module:Class"
        )
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        with running(f"{kind} {name}: importing {module_name}"):
            module = _imported(kind, name, module_name, here)
    finally:
        if added:
            sys.path.remove(here)
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        classes = [
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module_name
        ]
        raise UnknownNameError(f"class in module {module_name}", class_name, classes)
    return found


def _imported(kind: str, name: str, module: str, here: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # of what that code imports
        raise ConfigError(
            f"{kind} {name}: there is no module {error.name}, neither in {here} nor among the "
            "installed packages; run in the folder that holds it, or name that in PYTHONPATH"
        ) from error


def _place(error: BaseException) -> str:
    """file:line of the innermost frame in code that is nobody's library, where there is one; empty
    where all of it is this package's."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_HERE)
    ]
    own = [
        f for f in frames if Path(f.filename).is_file() and not f.filename.startswith(_INSTALLED)
    ]
    place = next(reversed(own or frames), None)
    return "" if place is None else f"{Path(place.filename).name}:{place.lineno}"
