"""Fitting boosted trees to a gate's labels, their number chosen by val."""

from typing import Any

import numpy as np
import torch

from trajdiag.gates.objectives import Objective
from trajdiag.gates.reader import Progress
from trajdiag.gates.trees import MOST_LEAVES, Trees

TREES_PER_PASS = 10
"""Trees between two looks at val."""
LEARNING_RATE = 0.1
FIRST_PASSES = 5
"""Passes before the first look at whether more are needed; each later look adds half as many."""


def fit_trees(
    fit: tuple[np.ndarray, Objective],
    val: tuple[np.ndarray, Objective],
    *,
    regress: bool,
    seed: int,
    epochs: int,
    patience: int,
    progress: Progress,
) -> tuple[Trees, list[float]]:
    """The trees, whole passes of them or none, with the least val loss; the loss after each pass.

    Each of `fit` and `val` is features [example, used loop, feature], pooled over loops, with the
    objective of the same examples. Trees are added until `patience` passes have not bettered the
    least loss, `epochs` passes at most.
    """
    from threadpoolctl import threadpool_limits

    x, x_val = (features.reshape(-1, features.shape[-1]) for features in (fit[0], val[0]))
    # scikit-learn cannot bin a feature without values; one of a single value is never split on.
    x = np.where(np.isnan(x).all(0), 0.0, x)
    y = fit[1].evidence.double().numpy().ravel()
    model = _model(regress, seed)
    trees, passes, history = Trees.constant(0.0), 0, [0.0]
    # One thread: a sum over several depends on their number in its last bits, and so would trees.
    # Only what is loaded by then is limited, as scikit-learn is with the model.
    with threadpool_limits(limits=1, user_api="openmp"):
        while passes < epochs and int(np.argmin(history)) + patience > passes:
            passes = min(epochs, passes * 3 // 2 or FIRST_PASSES)
            model.set_params(max_iter=passes * TREES_PER_PASS).fit(x, y)
            trees = Trees.from_sklearn(model)
            history = [_loss(raw, val[1]) for raw in trees.staged(x_val, TREES_PER_PASS).T]
            least = f"val loss {min(history):.5f} {val[1].unit}"
            progress(f"{passes * TREES_PER_PASS} trees: {least}")
    return trees.first(int(np.argmin(history)) * TREES_PER_PASS), history[1:]


def _model(regress: bool, seed: int) -> Any:
    """A regressor of further loops, or of logits. Under its binomial loss a label w between 0 and 1
    is worth a row of class 1 that weighs w and one of class 0 that weighs 1 - w."""
    from sklearn._loss import HalfBinomialLoss
    from sklearn.ensemble import HistGradientBoostingRegressor

    kind: Any = HistGradientBoostingRegressor
    return kind(
        loss="squared_error" if regress else HalfBinomialLoss(),
        learning_rate=LEARNING_RATE,
        max_leaf_nodes=MOST_LEAVES - 1,
        early_stopping=False,
        warm_start=True,
        random_state=seed % 2**32,
    )


def _loss(raw: np.ndarray, objective: Objective) -> float:
    label = objective.evidence.double()
    outputs = torch.from_numpy(np.ascontiguousarray(raw)).reshape(label.shape)
    return float(objective.loss(outputs, label))
