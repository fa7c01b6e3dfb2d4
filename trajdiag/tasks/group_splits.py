"""Splits drawn by group: half fit, a fifth val, three tenths test."""

from collections.abc import Sequence

import numpy as np

VAL, TEST = 0.2, 0.3
"""Shares of the groups; the rest is fit."""


def draw_by_group(groups: Sequence[str], seed: int) -> list[str]:
    """The split of each group's name in `groups`, the same for equal names, whatever their order.

    Of few groups test gets the first, then val, then fit.
    """
    names = sorted(set(groups))
    test = max(1, round(TEST * len(names)))
    val = min(len(names) - test, max(1, round(VAL * len(names))))
    split = ["test"] * test + ["val"] * val + ["fit"] * (len(names) - test - val)
    order = np.random.default_rng(seed).permutation(len(names))
    of_group = {names[index]: split[place] for place, index in enumerate(order)}
    return [of_group[group] for group in groups]
