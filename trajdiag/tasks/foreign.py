"""What a task says of itself, which may be a user's own code: checked before it is believed."""

import json
from collections.abc import Callable
from typing import Any

from trajdiag.errors import ConfigError, shown
from trajdiag.foreign import running
from trajdiag.tasks.base import Task
from trajdiag.tasks.questions import DocumentTask, NamedTask, QuestionTask
from trajdiag.whole_text import is_whole

AnyTask = Task | QuestionTask | DocumentTask


def require_task(task: object) -> AnyTask:
    """`task`. Raises ConfigError unless it has all that a task has, and a name that can be
    printed."""
    kind = task.__name__ if isinstance(task, type) else type(task).__name__
    if isinstance(task, type):
        raise ConfigError(f"{kind} is a class, not a task; give a task made of it: {kind}(...)")
    # asking whether an attribute is there runs the code of a property
    with running(f"task {kind}"):
        if not isinstance(task, AnyTask):
            raise ConfigError(
                f"{kind} is not a task: it must have what trajdiag.tasks.base.Task, or "
                "QuestionTask or DocumentTask of trajdiag.tasks.questions, lists"
            )
        name: object = task.name
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ConfigError(f"task {kind}: its name must be printable text, not {shown(name)}")
        return task


def facts(task: NamedTask, name: str) -> dict[str, Any]:
    """`task.parameters()` or `task.notes()`, which must be a dict of JSON values."""
    where = f"{name}() of task {task.name}"
    with running(where):
        call: Callable[[], Any] = getattr(task, name)
        found = call()
    try:
        plain = json.loads(json.dumps(found, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where} must give a dict of JSON values: {error}") from error
    if not isinstance(plain, dict):
        raise ConfigError(f"{where} must give a dict, not {type(found).__name__}")
    return plain


def require_classes(task: Task) -> None:
    """Raise ConfigError unless the task has a name, and its vocabulary and classes make sense."""
    require_task(task)
    with running(f"task {task.name}"):
        _require_classes(task)


def require_class_names(task: Task | QuestionTask, classes: int) -> None:
    """Raise ConfigError unless the classes have no names, or one each."""
    names: object = task.class_names
    if names is None:
        return
    if (
        not isinstance(names, tuple)
        or len(names) != classes
        or not all(isinstance(name, str) and is_whole(name) for name in names)
    ):
        raise ConfigError(
            f"task {task.name}: class_names must be a tuple of {classes} texts, or None, not "
            f"{shown(names)}"
        )


def named(value: object) -> str:
    """A name as it is where it can be printed, else as what came is shown."""
    return value if isinstance(value, str) and value.isprintable() else shown(value)


def _require_classes(task: Task) -> None:
    where = f"task {task.name}"
    if not isinstance(task.vocab_size, int) or isinstance(task.vocab_size, bool):
        raise ConfigError(f"{where}: vocab_size must be an integer, not {shown(task.vocab_size)}")
    ids: Any = task.class_ids
    if ids is not None:
        kind = getattr(getattr(ids, "dtype", None), "kind", "")
        if kind not in ("i", "u") or ids.ndim != 1:
            raise ConfigError(
                f"{where}: class_ids must be an integer array [class], not {shown(ids)}"
            )
        values = ids.tolist()
        if len(set(values)) < len(values) or any(not 0 <= i < task.vocab_size for i in values):
            raise ConfigError(
                f"{where}: class_ids must be different tokens below {task.vocab_size}, "
                f"got {shown(values)}"
            )
    require_class_names(task, task.vocab_size if ids is None else len(ids))
