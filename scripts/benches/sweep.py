"""The exact frontier of 10 readouts against the usual sweep over 51 thresholds, one thread each.

200,000 examples x 8 loops. Signals drift as real ones do: what an example is short of being solved
shrinks loop by loop, so that 6 to 7 of its 7 usable values are record highs; independent noise
would have 2.6 and flatter the frontier, which sorts records. The sweep is what people write: for
each quantile the first loop that crosses, its depth and accuracy. Exactness is checked: at each of
the 51 thresholds both sides give the same depth and accuracy.
"""

import statistics
import time

import numpy as np
from numpy.typing import NDArray

from trajdiag.metrics.frontier import frontier

EXAMPLES, LOOPS, REPEATS, BAR = 200_000, 8, 3, 4.0
QUANTILES = np.linspace(0.005, 0.995, 51)


def run() -> list[dict[str, object]]:
    """One row: how many times faster the frontier is, the median over readouts and repeats."""
    ratios = []
    correct, signals = planted()
    for _ in range(REPEATS):
        for values, direction in signals:
            start = time.perf_counter()
            depth, accuracy = swept(values, correct, direction)
            usual = time.perf_counter() - start
            start = time.perf_counter()
            found = frontier(values, correct, direction)
            ours = time.perf_counter() - start
            at = found.at(thresholds(values), direction)
            assert np.allclose(found.depth[at], depth) and np.allclose(found.accuracy[at], accuracy)
            ratios.append(usual / ours)
    value = statistics.median(ratios)
    row = {"name": "sweep/frontier-over-grid", "value": round(value, 2), "unit": "times"}
    return [{**row, "bar": BAR, "holds": value >= BAR}]


def thresholds(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """The 51 quantiles of all values."""
    return np.quantile(values, QUANTILES).astype(np.float64)


def swept(
    values: NDArray[np.float32], correct: NDArray[np.bool_], direction: str
) -> tuple[list[float], list[float]]:
    """Mean depth and accuracy at each threshold, one threshold after the other."""
    rows, depths, accuracies = np.arange(len(values)), [], []
    for threshold in thresholds(values):
        crossed = values >= threshold if direction == "high" else values <= threshold
        crossed[:, -1] = True
        exit_loop = crossed.argmax(axis=1)
        depths.append(float(exit_loop.mean()) + 1)
        accuracies.append(float(correct[rows, exit_loop].mean()))
    return depths, accuracies


def planted() -> tuple[NDArray[np.bool_], list[tuple[NDArray[np.float32], str]]]:
    """Correctness [example, loop], and 10 drifting signals (values, direction)."""
    rng = np.random.default_rng(0)
    margin = np.arange(1, LOOPS + 1) - rng.gamma(2.0, 1.5, (EXAMPLES, 1))
    correct = (margin > 0) ^ (rng.random(margin.shape) < 0.03)
    signals = []
    for index in range(10):
        noisy = (margin + rng.normal(0, 0.5, margin.shape)).astype(np.float32)
        signals.append((noisy, "high") if index % 2 else (np.exp(-noisy), "low"))
    return correct, signals
