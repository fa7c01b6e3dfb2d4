"""The pooled curve of many rules: its vertices are chosen on val and evaluated on test."""

import numpy as np
from numpy.typing import NDArray

from trajdiag.bound.rules import Rule
from trajdiag.metrics.curve import accuracy_at, budget_curve
from trajdiag.metrics.frontier import Frontier, exit_depth, frontier, right_at


def pooled_curve(
    rules: list[Rule],
    correct: dict[str, NDArray[np.bool_]],
    budgets: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Test accuracy at each budget of the best mixtures on val of all rules at all thresholds."""
    right = correct["val"]
    depth, accuracy, owner, threshold = ([np.empty(0)] for _ in range(4))
    for index, rule in enumerate(rules):
        found = budget_curve(frontier(rule.values["val"], right, "low"), right[:, 0].mean())
        depth.append(found.depth[1:])
        accuracy.append(found.accuracy[1:])
        owner.append(np.full(len(found) - 1, index))
        threshold.append(found.threshold[1:])
    columns = [np.concatenate(x) for x in (depth, accuracy, owner, threshold)]
    order = np.lexsort((columns[1], -columns[0]))
    d, a, own, cut = (x[order] for x in columns)
    # where depths are equal, the last is the most accurate, and the frontier wants only one
    last = np.append(d[1:] != d[:-1], True)
    d, a, own, cut = (x[last] for x in (d, a, own, cut))
    index = np.arange(len(d), dtype=np.float64)
    chosen = budget_curve(Frontier(threshold=index, depth=d, accuracy=a), right[:, 0].mean())
    test = correct["test"]
    points = [(1.0, test[:, 0].mean())]
    for vertex in chosen.threshold[1:].astype(int):
        exits = exit_depth(rules[int(own[vertex])].values["test"], float(cut[vertex]), "low")
        points.append((exits.mean(), right_at(test, exits).mean()))
    at, reached = np.array(sorted(points)).T
    return accuracy_at(at, np.maximum.accumulate(reached), budgets)
