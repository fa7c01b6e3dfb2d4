"""Tasks by name, and their options from the command line."""

import dataclasses
import difflib
from importlib.util import find_spec
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from trajdiag.errors import ConfigError, UnknownNameError, shown
from trajdiag.foreign import import_class, running
from trajdiag.names import require_type
from trajdiag.option_kinds import in_words, plain
from trajdiag.tasks.arithmetic import Arithmetic
from trajdiag.tasks.choices import Choices
from trajdiag.tasks.foreign import AnyTask, require_task
from trajdiag.tasks.harness import Harness
from trajdiag.tasks.mano import Mano
from trajdiag.tasks.parity import Parity
from trajdiag.tasks.text import Text

TASKS: dict[str, type] = {
    "arithmetic": Arithmetic,
    "choices:PATH": Choices,
    "lm-eval:NAME": Harness,
    "mano": Mano,
    "parity": Parity,
    "text:PATH": Text,
}
"""The task classes by name; each is a frozen dataclass whose fields are the task's options. What
stands for the word in capitals is the task's first option."""

_SPELLED = {spelling.partition(":")[0]: spelling for spelling in TASKS if ":" in spelling}


def task_names() -> list[str]:
    """The built-in tasks."""
    return sorted(TASKS)


def make_task(name: str, **options: Any) -> AnyTask:
    """The task `name`, built in or `package.module:Class`, with `options` as its fields.

    An option may be a string, as on the command line, and is then converted to its field's type
    (`42,43,44` for a tuple). The current folder is searched for `package.module` too.
    Raises UnknownNameError for a name or an option that does not exist, ConfigError for a bad
    value or a class that is no task.
    """
    name = require_type("a task's name", name, str)
    head, _, subject = name.partition(":")
    if head in _SPELLED:
        task_class = TASKS[_SPELLED[head]]
        first = dataclasses.fields(task_class)[0].name
        if not subject:
            raise ConfigError(f"task {head} is spelled {_SPELLED[head]}, not {shown(name)}")
        if first in options:
            raise ConfigError(f"task option {first} is given by the name already: {shown(name)}")
        options = {first: subject, **options}
    else:
        if subject and (meant := _misspelt(head)):
            raise UnknownNameError("task", name, task_names(), f"Is it {meant}:{subject}")
        task_class = import_class("task", name) if ":" in name else TASKS.get(name)
    if task_class is None:
        raise UnknownNameError("task", name, task_names(), "Name your own as package.module:Class")
    if dataclasses.is_dataclass(task_class):
        hints = get_type_hints(task_class)
        fields = {f.name: hints[f.name] for f in dataclasses.fields(task_class) if f.init}
        for option in options:
            if option not in fields:
                raise UnknownNameError(f"option of task {name}", option, fields)
        options = {key: _convert(key, value, fields[key]) for key, value in options.items()}
    with running(f"making task {name}"):
        task = task_class(**options)
    return require_task(task)


def _misspelt(head: str) -> str | None:
    """The kind of task that `head`, which names no module, is nearly spelled as."""
    close = difflib.get_close_matches(head, _SPELLED, 1)
    is_module = not head.isidentifier() or find_spec(head) or Path(f"{head}.py").is_file()
    return close[0] if close and not is_module else None


_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _convert(option: str, value: Any, wanted: Any) -> Any:
    """`value` as the type `wanted`: int, float, bool, str, a tuple of one of them, or None too."""
    value = plain(value)
    if get_origin(wanted) in (Union, UnionType):
        if value is None:
            return None
        wanted = next(kind for kind in get_args(wanted) if kind is not NoneType)
    if get_origin(wanted) is tuple:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise ConfigError(
                f"task option {option} must be a list such as 42,43,44, not {shown(value)}"
            )
        return tuple(_convert(option, item, get_args(wanted)[0]) for item in items)
    if isinstance(value, str):
        try:
            if wanted is bool:
                return _BOOLEANS[value.strip().lower()]
            if wanted in (int, float):
                return wanted(value)
        except (ValueError, KeyError):
            raise ConfigError(
                f"task option {option} must be {in_words(wanted)}, not {shown(value)}"
            ) from None
    if wanted is float and type(value) is int:
        return float(value)
    if wanted in (int, float, bool, str) and type(value) is not wanted:
        raise ConfigError(f"task option {option} must be {in_words(wanted)}, not {shown(value)}")
    return value
