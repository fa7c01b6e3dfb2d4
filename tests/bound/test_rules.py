"""The learned rules: as good as the best there are, the same each time, at ease with odd stores."""

import numpy as np
import pytest
import torch

from tests.bound.hull import pooled_curve
from tests.bound.worlds import exclusive_or, store_of
from tests.store.planted import planted
from trajdiag.bound import rules as rules_of_bound
from trajdiag.bound.rules import REGRESSORS, fit_rules
from trajdiag.bound.stopping import PRICES
from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.store.from_arrays import from_arrays

FEW = (0.0, 0.05)


@pytest.fixture
def few_prices(monkeypatch):
    """Fewer rules, which are as good for what is asked of each."""
    monkeypatch.setattr(rules_of_bound, "PRICES", FEW)


def odd(tmp_path, examples=90, name="odd", **changes):
    arrays = planted(examples=examples, loops=3)
    arrays = vars(arrays) | {"split": np.repeat(["fit", "val", "test"], examples // 3)} | changes
    return from_arrays(tmp_path / f"{name}.zarr", **arrays)


def everywhere_valued(rules, store, min_depth=1):
    for rule in rules:
        for split, values in rule.values.items():
            assert values.shape == (len(store.rows(split)), store.loops)
            assert values.dtype == np.float32
            assert np.isnan(values[:, : min_depth - 1]).all()
            assert np.isfinite(values[:, min_depth - 1 : -1]).all()
            assert np.all(np.isneginf(values[:, -1]))


def test_the_rules_reach_the_best_frontier_of_an_exclusive_or(tmp_path):
    world = exclusive_or()
    sizes = {"fit": 3000, "val": 4000, "test": 20_000}
    store = store_of(world, tmp_path / "xor.zarr", sizes=sizes, d_model=16, seed=1)
    rules = fit_rules(store, regressors=("ridge", "mlp"))
    budgets = np.linspace(1, store.loops, 51)
    correct = {split: store.correct(split) for split in ("val", "test")}
    short = world.best_frontier(budgets) - pooled_curve(rules, correct, budgets)
    assert short.max() < 0.01
    linear = [rule for rule in rules if rule.name.startswith("ridge")]
    assert (world.best_frontier(budgets) - pooled_curve(linear, correct, budgets)).max() > 0.05


def test_there_is_a_rule_for_each_regressor_and_price(tmp_path):
    store = odd(tmp_path)
    rules = fit_rules(store, regressors=("ridge", "boosted"))
    assert [rule.name for rule in rules] == [
        f"{regressor}/{price:g}" for regressor in ("ridge", "boosted") for price in PRICES
    ]
    assert set(rules[0].values) == {"val", "test"}
    everywhere_valued(rules, store)


def test_the_same_seed_gives_the_same_rules(tmp_path, few_prices):
    store = odd(tmp_path, examples=240)
    for one, two in zip(*(fit_rules(store, seed=3) for _ in range(2)), strict=True):
        np.testing.assert_array_equal(one.values["test"], two.values["test"])


def test_no_target_of_test_is_looked_at(tmp_path, few_prices):
    """Where they are redrawn, rules fitted on `fit` and chosen on `val` stay."""
    store = odd(tmp_path, examples=240)
    target = store.target.copy()
    target[store.rows("test")] = (target[store.rows("test")] + 1) % 5
    other = odd(tmp_path, examples=240, name="redrawn", target=target)
    for one, two in zip(*(fit_rules(s) for s in (store, other)), strict=True):
        for split in ("val", "test"):
            np.testing.assert_array_equal(one.values[split], two.values[split])


@pytest.mark.parametrize("split", ["val", "test"])
def test_without_a_fit_split_no_value_tells_of_its_own_group_s_targets(tmp_path, few_prices, split):
    group = np.arange(240) // 20
    changes = {"group": group, "split": np.where(group % 2 == 0, "val", "test")}
    store = odd(tmp_path, examples=240, **changes)
    own = store.group[store.rows(split)] == store.group[store.rows(split)[0]]
    target = store.target.copy()
    redrawn = store.rows(split)[own]
    target[redrawn] = (target[redrawn] + 1) % 5
    other = odd(tmp_path, examples=240, name="redrawn", target=target, **changes)
    for one, two in zip(*(fit_rules(s) for s in (store, other)), strict=True):
        before, after = one.values[split], two.values[split]
        np.testing.assert_array_equal(before[own], after[own])
        assert not np.array_equal(before, after)


def test_without_a_fit_split_each_group_is_valued_by_rules_fitted_on_the_others(
    tmp_path, few_prices
):
    """Where being right is a coin that states do not tell of, no rule can do better than chance."""
    examples = 400
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(examples // 4), 4)
    arrays = planted(examples=examples, loops=2, classes=2)
    coin = rng.integers(0, 2, examples // 4)[group]
    shown = torch.tensor(rng.normal(size=(examples // 4, 8))[group])  # tells the group
    store = from_arrays(
        tmp_path / "cross.zarr",
        hidden=shown[:, None].repeat(1, 2, 1).float(),
        logits=arrays.logits * 0 + torch.tensor([[[2.0, 0.0], [0.0, 2.0]]]),
        target=coin,
        group=group,
        split=np.where(group % 2 == 0, "val", "test"),
    )
    for rule in fit_rules(store):
        if not rule.name.endswith("/0"):
            continue
        goes_on = rule.values["test"][:, 0] > 0
        pays = store.correct("test")[:, 1] & ~store.correct("test")[:, 0]
        assert abs((goes_on == pays).mean() - 0.5) < 0.2
        assert rule.values["val"].shape == (len(store.rows("val")), 2)


@pytest.mark.parametrize("target", ["right", "wrong"])
def test_where_all_is_right_or_all_is_wrong_rules_leave_at_once(tmp_path, few_prices, target):
    arrays = planted(examples=90, loops=3)
    arrays.logits[:] = torch.tensor([2.0, 0, 0, 0, 0])
    goal = torch.full((90,), 0 if target == "right" else 1)
    store = odd(tmp_path, logits=arrays.logits, target=goal)
    rules = [rule for rule in fit_rules(store) if rule.name.endswith("/0.05")]
    assert len(rules) == len(REGRESSORS)
    everywhere_valued(rules, store)
    for rule in rules:
        assert (rule.values["test"][:, 0] <= 0).all()


@pytest.mark.parametrize("loops", [2, 3])
def test_few_loops_examples_and_states_do_no_harm(tmp_path, few_prices, loops):
    arrays = planted(examples=90, loops=loops)
    hidden = arrays.hidden * 0 + 1.5
    store = odd(tmp_path, hidden=hidden, logits=arrays.logits, gate_logit=arrays.gate_logit)
    rules = fit_rules(store)
    assert len(rules) == len(FEW) * len(REGRESSORS)
    everywhere_valued(rules, store)


def test_duplicated_features_do_no_harm(tmp_path, few_prices):
    hidden = planted(examples=90, loops=3).hidden
    store = odd(tmp_path, hidden=torch.cat([hidden, hidden, hidden], 2))
    everywhere_valued(fit_rules(store), store)


def test_states_in_bfloat16_are_read(tmp_path, few_prices):
    store = odd(tmp_path, hidden=planted(examples=90, loops=3).hidden.bfloat16())
    everywhere_valued(fit_rules(store, regressors=("ridge",)), store)


def test_a_minimum_depth_leaves_nothing_to_cross_before_it(tmp_path, few_prices):
    store = odd(tmp_path)
    everywhere_valued(fit_rules(store, min_depth=2), store, min_depth=2)


def test_an_unknown_regressor_is_refused(tmp_path):
    with pytest.raises(UnknownNameError, match="existing: boosted, mlp, ridge"):
        fit_rules(odd(tmp_path), regressors=("forest",))


@pytest.mark.parametrize("regressors", [(), ("ridge", "ridge")])
def test_regressors_are_some_and_each_once(tmp_path, regressors):
    with pytest.raises(ConfigError, match="each once"):
        fit_rules(odd(tmp_path), regressors=regressors)
