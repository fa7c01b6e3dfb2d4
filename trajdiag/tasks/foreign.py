"""What a task says of itself, which may be a user's own code: checked before it is believed."""

import json
from collections.abc import Callable
from typing import Any

from trajdiag.errors import ConfigError
from trajdiag.foreign import running
from trajdiag.tasks.base import Task
from trajdiag.tasks.questions import NamedTask


def facts(task: NamedTask, name: str) -> dict[str, Any]:
    """`task.parameters()` or `task.notes()`, which must be a dict of JSON values."""
    where = f"{name}() of task {task.name}"
    call: Callable[[], Any] = getattr(task, name)
    with running(where):
        found = call()
    try:
        plain = json.loads(json.dumps(found, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where} must give a dict of JSON values: {error}") from error
    if not isinstance(plain, dict):
        raise ConfigError(f"{where} must give a dict, not {type(found).__name__}")
    return plain


def require_classes(task: Task) -> None:
    """Raise ConfigError unless the task's vocabulary and classes make sense."""
    where = f"task {task.name}"
    if not isinstance(task.name, str):
        raise ConfigError(f"a task's name must be text, not {task.name!r}")
    if not isinstance(task.vocab_size, int):
        raise ConfigError(f"{where}: vocab_size must be an integer, not {task.vocab_size!r}")
    ids = task.class_ids
    if ids is not None:
        kind = getattr(getattr(ids, "dtype", None), "kind", "")
        if kind not in ("i", "u") or ids.ndim != 1:
            raise ConfigError(f"{where}: class_ids must be an integer array [class], not {ids!r}")
        if len(set(ids.tolist())) < len(ids) or min(ids) < 0 or max(ids) >= task.vocab_size:
            raise ConfigError(
                f"{where}: class_ids must be different tokens below {task.vocab_size}, "
                f"got {ids.tolist()}"
            )
    classes = task.vocab_size if ids is None else len(ids)
    names = task.class_names
    if names is not None and (len(names) != classes or not all(isinstance(n, str) for n in names)):
        raise ConfigError(f"{where}: class_names must be {classes} texts, got {names!r}")
