"""The learned rules come within a point of the best rule of worlds where that is known."""

import numpy as np
import pytest

from tests.bound import worlds
from tests.bound.hull import pooled_curve
from trajdiag.bound.rules import REGRESSORS, fit_rules

SIZES = {"fit": 10_000, "val": 10_000, "test": 100_000}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "d_model"),
    [
        (worlds.known_at_once, 24),
        (worlds.exclusive_or, 16),
        (worlds.overthinking, 64),
        (worlds.half_hidden, 16),
        (worlds.told_first, 24),
        (worlds.drifting, 32),
    ],
)
def test_within_a_point_of_the_best_rule_at_every_depth(tmp_path, world, d_model):
    planted = world()
    store = worlds.store_of(planted, tmp_path / "w.zarr", sizes=SIZES, d_model=d_model, seed=0)
    rules = fit_rules(store)
    budgets = np.linspace(1, store.loops, 101)
    correct = {split: store.correct(split) for split in ("val", "test")}
    for regressors in (REGRESSORS, ("ridge", "boosted")):
        of_these = [rule for rule in rules if rule.name.split("/")[0] in regressors]
        short = planted.best_frontier(budgets) - pooled_curve(of_these, correct, budgets)
        assert short.max() < 0.01
        assert short.min() > -0.01  # nothing beats the best but by luck
