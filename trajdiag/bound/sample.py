"""Examples that advantages are fitted on, or that choices of the fit are made on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Features and correctness of examples."""

    features: NDArray[np.float32]
    """[loop < T, example, feature]."""
    correct: NDArray[np.bool_]
    """[example, loop]."""
    group: NDArray[np.int64]
    """[example]."""

    def __len__(self) -> int:
        return len(self.correct)


def some_groups(
    rows: NDArray[np.int64], group: NDArray[np.int64], most: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """At most `most` of `rows`, in order, drawn as whole groups; `group` [row] is theirs. One group
    at least, if only its first `most` rows."""
    if len(rows) <= most:
        return rows
    found, index, count = np.unique(group, return_inverse=True, return_counts=True)
    order = rng.permutation(len(found))
    kept = np.zeros(len(found), bool)
    kept[order[: max(1, int((count[order].cumsum() <= most).sum()))]] = True
    return rows[kept[index]][:most]


def folds(group: NDArray[np.int64], parts: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Each example's fold, 0..parts - 1, [example]: whole groups at random."""
    found, index = np.unique(group, return_inverse=True)
    return rng.permutation(len(found))[index] % parts
