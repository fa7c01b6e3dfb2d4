"""A store as a tidy table: a row an example and loop."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trajdiag.store.schema import COVARIATE, GATE, SPLITS

if TYPE_CHECKING:
    from pandas import DataFrame

    from trajdiag.store.reader import Store


def to_pandas(
    store: "Store", split: str | None = None, signals: Sequence[str] | None = None
) -> "DataFrame":
    """A DataFrame of the examples of `split`, or of all, in store order, loops 1..T of each.

    | column | |
    |---|---|
    | `example`, `id`, `split`, `group`, `difficulty`, `target` | of the example |
    | `loop` | from 1 |
    | `prediction`, `correct` | of the loop, as the task decides |
    | `cross_entropy`, `target_probability` | -log p(target) in nats, and p(target) |
    | `gate_logit` | of the model's own gate; where it has one |
    | a signal's name | its value, NaN before its first loop |
    | `covariate/NAME` | of the example |

    `signals` are the names of those to give, kept or derived (see `Store.signal_names`); the kept
    ones when None. States and logits are not in it: `Store.numpy` reads them, and `example` is what
    its `rows` take.

    Takes about 85 bytes a row, 4 more a signal and 8 a covariate: 1 GB for a million examples of 8
    loops with ten signals, and up to twice that while it is made; a split at a time takes less.
    Raises UnknownNameError for a split or a signal that the store does not have.
    """
    import pandas as pd

    rows, loops = store.rows(split), store.loops
    names = store.kept_signals if signals is None else signals

    def each(values: np.ndarray) -> np.ndarray:
        return np.repeat(values[rows], loops)

    loss, predictions = store.cross_entropy(split).ravel(), store.predictions(split)
    columns: dict[str, Any] = {
        "example": np.repeat(rows, loops),
        "id": each(store.ids.astype(object)),
        "split": pd.Categorical(each(store.split), categories=SPLITS),
        "group": each(store.group),
        "difficulty": each(store.difficulty),
        "target": each(store.target),
        "loop": np.tile(np.arange(1, loops + 1), len(rows)),
        "prediction": predictions.ravel(),
        "correct": (predictions == store.target[rows, None]).ravel(),
        "cross_entropy": loss,
        "target_probability": np.exp(-loss),
    }
    if store.has_gate:
        columns[GATE] = store.numpy(GATE, rows=rows).ravel()
    columns |= {name: store.signal(name, split).ravel() for name in names}
    columns |= {COVARIATE + name: each(values) for name, values in store.covariates.items()}
    return pd.DataFrame(columns)
