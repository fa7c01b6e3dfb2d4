"""A task of tokens into work: its examples, all splits one after the other, a row each."""

from collections.abc import Mapping

import numpy as np

from trajdiag.errors import ConfigError, shown
from trajdiag.extraction.work import Classes, Work, one_row_each, starts
from trajdiag.foreign import running
from trajdiag.names import require_name
from trajdiag.store.columns import Columns
from trajdiag.store.schema import SPLITS
from trajdiag.tasks.base import Examples, Task
from trajdiag.tasks.foreign import named

_KINDS = {
    "length": "iu",
    "target": "iu",
    "difficulty": "iuf",
    "group": "iu",
    "id": "UOT",
    "input": "UOT",
}
"""The per-example columns, and the kinds of dtype that each may have."""
_SPOKEN = {"iu": "integers", "iuf": "numbers", "UOT": "text"}


def examples_in_store_order(task: Task) -> tuple[Examples, np.ndarray]:
    """The examples of fit, val and test, in that order, and the split of each, str [example].

    Raises ConfigError where there is nothing to report on, or a split that nobody would read.
    """
    with running(f"examples() of task {task.name}"):
        splits = task.examples()
    if not isinstance(splits, Mapping):
        raise ConfigError(f"examples() of task {task.name} must give a dict, not {shown(splits)}")
    if unknown := [name for name in splits if name not in SPLITS]:
        names, known = ", ".join(map(named, unknown)), ", ".join(SPLITS)
        raise ConfigError(f"task {task.name} has splits {names}; known are {known}")
    for name, part in splits.items():
        require_valid(task, name, part)
    if "test" not in splits or not len(splits["test"]):
        held = ", ".join(name for name, part in splits.items() if len(part)) or "none"
        raise ConfigError(
            f"task {task.name} has no test split, on which all results are reported; it has {held}"
        )
    if len({frozenset(part.covariates) for part in splits.values()}) > 1:
        held = [f"{name}: {', '.join(part.covariates) or 'none'}" for name, part in splits.items()]
        raise ConfigError(
            f"task {task.name}: its splits must have the same covariates, got {'; '.join(held)}"
        )
    parts = [splits[name] for name in SPLITS if name in splits]
    split = np.concatenate([np.full(len(splits[n]), n) for n in SPLITS if n in splits])
    width = max(part.input_ids.shape[1] for part in parts)
    input_ids = [
        np.pad(part.input_ids, ((0, 0), (0, width - part.input_ids.shape[1]))) for part in parts
    ]
    joined = {
        field: np.concatenate([getattr(part, field) for part in parts])
        for field in ("length", "target", "difficulty", "group", "id", "input")
    }
    covariates = {
        name: np.concatenate([part.covariates[name] for part in parts])
        for name in parts[0].covariates
    }
    return Examples(input_ids=np.concatenate(input_ids), covariates=covariates, **joined), split


def require_valid(task: Task, split: str, part: Examples) -> None:
    """Raise ConfigError unless the columns of a split fit together and its values are in range."""
    where = f"task {task.name}, split {split}"
    if not isinstance(part, Examples):
        raise ConfigError(f"{where}: must be Examples, not {type(part).__name__}")
    if not isinstance(part.covariates, Mapping):
        raise ConfigError(f"{where}: covariates must be a mapping, not {shown(part.covariates)}")
    # the target first, since the others are to be as many
    columns = {name: getattr(part, name) for name in ("target", "input_ids", *_KINDS)}
    columns |= {
        f"covariate {require_name('covariate', name)}": values
        for name, values in part.covariates.items()
    }
    for name, values in columns.items():
        kinds = _KINDS.get(name, "iuf") if name != "input_ids" else "iu"
        dimensions = 2 if name == "input_ids" else 1
        if not isinstance(values, np.ndarray) or values.ndim != dimensions:
            raise ConfigError(
                f"{where}: {name} must be a numpy array of {dimensions} dimensions, not "
                f"{shown(values)}"
            )
        if values.dtype.kind not in kinds:
            raise ConfigError(
                f"{where}: {name} cannot be of dtype {values.dtype}; give {_SPOKEN[kinds]}"
            )
        if len(values) != len(part.target):
            raise ConfigError(
                f"{where}: {len(values)} {name} for {len(part.target)} targets; give one for each"
            )
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            raise ConfigError(
                f"{where}: {name} of example {named(part.id[at])} is {values[at]}, and must be "
                "finite"
            )
    classes = task.vocab_size if task.class_ids is None else len(task.class_ids)
    if classes < 2:
        raise ConfigError(f"task {task.name}: a decision needs at least 2 classes, got {classes}")
    _require_between(where, part, "target", part.target, 0, classes - 1)
    _require_between(where, part, "length", part.length, 1, part.input_ids.shape[1])
    _require_between(where, part, "a token of the input", part.input_ids, 0, task.vocab_size - 1)


def _require_between(
    where: str, part: Examples, name: str, values: np.ndarray, least: int, most: int
) -> None:
    bad = np.argwhere((values < least) | (values > most))
    if len(bad):
        at = tuple(bad[0])
        raise ConfigError(
            f"{where}: {name} of example {named(part.id[at[0]])} is {values[at]}, not in "
            f"{least}..{most}"
        )


def example_work(task: Task, *, inputs: bool) -> Work:
    """The work of a task of tokens; `inputs` keeps each example's input as text."""
    examples, split = examples_in_store_order(task)
    length = examples.length.astype(np.int64)
    real = np.arange(examples.input_ids.shape[1]) < length[:, None]
    names = task.class_names
    return Work(
        tokens=examples.input_ids[real].astype(np.int32),
        row_start=starts(length),
        unit_rows=one_row_each(len(examples)),
        unit_examples=one_row_each(len(examples)),
        row=np.arange(len(examples)),
        at=length - 1,
        decision=Classes(ids=task.class_ids),
        columns=Columns(
            target=examples.target.astype(np.int64),
            difficulty=examples.difficulty,
            group=examples.group,
            split=split,
            id=examples.id,
            input=examples.input if inputs else None,
            covariates=examples.covariates,
        ),
        class_names=None if names is None else tuple(names),
    )
