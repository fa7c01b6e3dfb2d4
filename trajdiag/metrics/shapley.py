"""The gap between two systems, shared between the two things in which they differ.

A system is a trajectory and a readout, so that two of them make a table of four: value[trajectory,
readout]. What a change brings depends on which change comes first; the Shapley share is its mean
over both orders (Shapley 1953), the only split that is fair to both and sums to the gap.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Swap:
    """What going from the first trajectory and readout to the second brings, each [...]."""

    trajectory: NDArray[np.float64]
    """The share of the trajectory."""
    readout: NDArray[np.float64]
    """The share of the readout."""
    interaction: NDArray[np.float64]
    """What both changes bring together beyond the sum of each alone; either share holds half."""

    @property
    def total(self) -> NDArray[np.float64]:
        """The whole gap: the shares' sum, to the bit."""
        return self.trajectory + self.readout


def swap(value: NDArray[np.float64]) -> Swap:
    """Split the gap value[..., 1, 1] - value[..., 0, 0] of a table [..., trajectory, readout].

    With estimates [1 + resample] in front, so are the parts, and they sum in every resample. Raises
    ValueError unless the table is two by two.
    """
    if value.shape[-2:] != (2, 2):
        raise ValueError(f"a table must be [..., 2, 2], got {list(value.shape)}")
    old_old, old_new = value[..., 0, 0], value[..., 0, 1]
    new_old, new_new = value[..., 1, 0], value[..., 1, 1]
    return Swap(
        trajectory=((new_old - old_old) + (new_new - old_new)) / 2,
        readout=((old_new - old_old) + (new_new - new_old)) / 2,
        interaction=(new_new - new_old) - (old_new - old_old),
    )
