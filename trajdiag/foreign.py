"""A user's own code, named as package.module:Class: found, and run so that errors are one line."""

import importlib
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trajdiag.errors import ConfigError, TrajdiagError, UnknownNameError

_INSTALLED = tuple({sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")})


@contextmanager
def running(what: str, passing: tuple[type[BaseException], ...] = ()) -> Iterator[None]:
    """Turn whatever that code raises, an exit included, into a ConfigError that says where; but for
    what is `passing`."""
    try:
        yield
    except (TrajdiagError, OSError, MemoryError, *passing):
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{what} failed: {type(error).__name__}: {' '.join(str(error).split())} "
            f"({_place(error)})"
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
            module = importlib.import_module(module_name)
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


def _place(error: BaseException) -> str:
    """file:line of the innermost frame in code that is nobody's library, where there is one."""
    frames = list(traceback.extract_tb(error.__traceback__))
    own = [
        f for f in frames if Path(f.filename).is_file() and not f.filename.startswith(_INSTALLED)
    ]
    place = (own or frames)[-1]
    return f"{Path(place.filename).name}:{place.lineno}"
