"""Whether a halting gate sends nearly all examples to one loop, whatever its threshold."""

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.frontier import exit_depth

PROBABILITIES = np.arange(1, 20) / 20
"""Exit probabilities at which a gate is read; the middle one is 1/2."""


def exits_by_probability(values: NDArray[np.floating], direction: str) -> NDArray[np.integer]:
    """Exit loops [example, probability] of a gate's `values` [example, loop], -log(1 - CDF), read
    at PROBABILITIES."""
    return exit_depth(values, -np.log1p(-PROBABILITIES), direction, 1)


def at_modal_exit(exits: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Whether each example leaves at the loop at which most do, [example, probability]."""
    modal = [np.bincount(column).argmax() for column in exits.T]
    return exits == np.array(modal)
