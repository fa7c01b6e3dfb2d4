"""Whose fault a wrong exit is: the trajectory's, or the readout's."""

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.frontier import right_at
from trajdiag.metrics.oracle import first_right

PARTS = ("ok", "trajectory", "early", "late")
"""`ok`: right at the exit. `trajectory`: no loop is right. `early`: left before the first right
loop. `late`: wrong at the exit, after a loop that was right (overthinking)."""


def part_of(exit_depth: NDArray[np.integer], correct: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The index in PARTS of each example, from its exit loop [example] and `correct` [example,
    loop]."""
    first = first_right(correct)
    return np.select(
        [right_at(correct, exit_depth), first > correct.shape[1], exit_depth < first],
        [0, 1, 2],
        default=3,
    )
