"""The commonest exit loop of a gate, against plain loops."""

from collections import Counter

import numpy as np

from trajdiag.metrics.modal_exit import PROBABILITIES, at_modal_exit, exits_by_probability


def test_exits_are_those_at_which_the_cdf_reaches_the_probability():
    rng = np.random.default_rng(0)
    hazard = rng.uniform(0, 0.6, (200, 5))
    cdf = 1 - np.cumprod(1 - hazard, axis=1)
    values = -np.log1p(-cdf)
    values[:, -1] = np.inf  # at T nothing is left
    exits = exits_by_probability(values, "high")
    there = at_modal_exit(exits)
    for k, p in enumerate(PROBABILITIES):
        expected = [next((t for t in range(1, 5) if row[t - 1] >= p), 5) for row in cdf]
        assert exits[:, k].tolist() == expected
        ((_, most),) = Counter(expected).most_common(1)
        assert there[:, k].sum() == most
    assert PROBABILITIES[len(PROBABILITIES) // 2] == 0.5
