"""A task's examples, all splits one after the other."""

import numpy as np

from trajdiag.errors import ConfigError
from trajdiag.store.columns import Columns
from trajdiag.store.schema import SPLITS
from trajdiag.tasks.base import Examples, Task


def examples_in_store_order(task: Task) -> tuple[Examples, np.ndarray]:
    """The examples of fit, val and test, in that order, and the split of each, str [example].

    Raises ConfigError where there is nothing to report on, or a split that nobody would read.
    """
    splits = task.examples()
    unknown = sorted(set(splits) - set(SPLITS))
    if unknown:
        known = ", ".join(SPLITS)
        raise ConfigError(f"task {task.name} has splits {', '.join(unknown)}; known are {known}")
    if "test" not in splits or not len(splits["test"]):
        raise ConfigError(f"task {task.name} has no test split, on which all results are reported")
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


def store_columns(examples: Examples, split: np.ndarray, *, inputs: bool) -> Columns:
    """What the store keeps of each example beside its trajectory."""
    return Columns(
        target=examples.target,
        difficulty=examples.difficulty,
        group=examples.group,
        split=split,
        id=examples.id,
        input=examples.input if inputs else None,
        covariates=examples.covariates,
    )
