"""The directions in which rows vary most."""

import numpy as np
from numpy.typing import NDArray


def centred_gram(x: NDArray[np.float32]) -> NDArray[np.float64]:
    """X'X of rows `x` [example, feature] less their mean."""
    mean = x.mean(0, dtype=np.float64)
    return (x.T @ x).astype(np.float64) - len(x) * np.outer(mean, mean)


def main_directions(x: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    """The first principal directions of rows `x`, [column, direction], those of rounding error left
    out."""
    value, vector = np.linalg.eigh(centred_gram(x) / len(x))
    kept = np.flatnonzero(value > max(1e-9 * value[-1], 1e-12))[-most:]
    return vector[:, kept].astype(np.float32)
