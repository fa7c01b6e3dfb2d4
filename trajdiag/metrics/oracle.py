"""The hindsight oracle: leave at the earliest loop that is right.

It is an upper bound for every readout of the trajectory, inflated by luck: of guesses among 4
classes at 4 loops, 68% have some loop that is right.
"""

import numpy as np
from numpy.typing import NDArray


def first_right(correct: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first loop that is right in `correct` [example, loop]: [example]; T + 1 where none is."""
    return np.where(correct.any(axis=1), correct.argmax(axis=1) + 1, correct.shape[1] + 1)


def oracle_depth(correct: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Exit depths of the oracle's T policies, [example, policy]: policy k waits for the first right
    loop up to loop k, and leaves at loop 1 where that does not help.

    Mixtures of neighbouring policies are optimal at every budget of mean depth: an example whose
    first right loop is t costs t - 1 further loops for one right answer, so the small t come first.
    """
    first = first_right(correct)[:, None]
    return np.where(first <= np.arange(1, correct.shape[1] + 1), first, 1)
