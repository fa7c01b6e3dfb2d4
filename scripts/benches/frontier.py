"""Exact frontiers of 10 signals on 200,000 examples x 8 loops: under a second on two cores.

Signals are independent and numpy sorts outside the interpreter lock, so cores share them out.
"""

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from trajdiag.metrics.frontier import frontier

EXAMPLES, LOOPS, REPEATS = 200_000, 8, 5


def run() -> list[dict[str, object]]:
    """One row: the median time of all ten frontiers."""
    signals, correct = planted()
    seconds = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in range(REPEATS):
            start = time.perf_counter()
            list(pool.map(lambda signal: frontier(signal[0], correct, *signal[1:]), signals))
            seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    row = {"name": "frontier/10-signals", "value": round(median, 3), "unit": "seconds", "bar": 1.0}
    return [{**row, "holds": median < 1.0}]


def planted() -> tuple[list[tuple[np.ndarray, str, int]], np.ndarray]:
    """Ten signals (values float32 [example, loop], direction, first loop) and correctness [example,
    loop].

    Each example is solved after a loop of its own. Signals follow how far it is from solved:
    strictly monotone (every loop is a record, the most work), noisy, tied and saturated, from loop
    1 or 2.
    """
    rng = np.random.default_rng(0)
    margin = np.arange(1, LOOPS + 1) - rng.gamma(2.0, 1.5, (EXAMPLES, 1))
    correct = (margin > 0) ^ (rng.random((EXAMPLES, LOOPS)) < 0.03)
    signals = []
    for first_loop in (1, 2):
        noisy = margin + rng.normal(0, 1.0, margin.shape)
        for values, direction in [
            (margin, "high"),
            (-noisy, "low"),
            (np.round(4 * noisy), "high"),
            (np.exp(-np.maximum(margin, -3)), "low"),
            (np.tanh(4 * noisy.astype(np.float16)), "high"),
        ]:
            signals.append((values.astype(np.float32), direction, first_loop))
    return signals, correct
