"""Tasks by name, and their options from the command line."""

import dataclasses
from typing import Any, get_args, get_origin, get_type_hints

from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.foreign import import_class, running
from trajdiag.tasks.base import Task
from trajdiag.tasks.mano import Mano
from trajdiag.tasks.parity import Parity

TASKS: dict[str, type] = {"mano": Mano, "parity": Parity}
"""The task classes by name; each is a frozen dataclass whose fields are the task's options."""


def task_names() -> list[str]:
    """The built-in tasks."""
    return sorted(TASKS)


def make_task(name: str, **options: Any) -> Task:
    """The task `name`, built in or `package.module:Class`, with `options` as its fields.

    An option may be a string, as on the command line, and is then converted to its field's type
    (`42,43,44` for a tuple). The current folder is searched for `package.module` too.
    Raises UnknownNameError for a name or an option that does not exist, ConfigError for a bad
    value or a class that is no Task.
    """
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
    if not isinstance(task, Task):
        raise ConfigError(f"{name} is not a task: it must have what trajdiag.tasks.base.Task lists")
    return task


_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _convert(option: str, value: Any, wanted: Any) -> Any:
    """`value` as the type `wanted`: int, float, bool, str, or a tuple of one of them."""
    if get_origin(wanted) is tuple:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise ConfigError(
                f"task option {option} must be a list such as 42,43,44, not {value!r}"
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
                f"task option {option} must be of type {wanted.__name__}, not {value!r}"
            ) from None
    if wanted is float and type(value) is int:
        return float(value)
    if wanted in (int, float, bool, str) and type(value) is not wanted:
        raise ConfigError(f"task option {option} must be of type {wanted.__name__}, not {value!r}")
    return value
