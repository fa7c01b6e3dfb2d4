"""The learned bound's rules: fitted on `fit`, valued on `val` and `test`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from trajdiag.bound.boosted import fit_boosted
from trajdiag.bound.features import Features, most_examples
from trajdiag.bound.mlp import fit_mlp
from trajdiag.bound.projection import fit_projection
from trajdiag.bound.ridge import fit_ridge
from trajdiag.bound.sample import Sample, folds, some_groups
from trajdiag.bound.stopping import PRICES, targets
from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.store.reader import Store

Regressor = Literal["ridge", "mlp", "boosted"]
REGRESSORS: tuple[Regressor, ...] = get_args(Regressor)

MOST_FITTED, MOST_HELD = 20_000, 10_000
"""Examples that rules are fitted on, and that strengths and stopping are chosen on, at most; fewer
where states and loops are many."""
_FOLDS = 5
_VALUED = ("val", "test")

Advantages = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""[loop < T, example, price] of features [loop < T, example, feature]."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A learned stopping rule: low values mean ready to stop, from loop 1, at or below 0."""

    name: str
    """REGRESSOR/PRICE."""
    values: Mapping[str, NDArray[np.float32]]
    """By split, `val` and `test`, [example, loop]: the advantage of going on, in accuracy. NaN
    before the minimum depth; at T, where nothing can go on, minus infinity."""


def fit_rules(
    store: Store,
    *,
    regressors: Sequence[str] = REGRESSORS,
    min_depth: int = 1,
    seed: int = 0,
) -> list[Rule]:
    """One rule for each regressor and each of PRICES. The store has val and test.

    Fitted on `fit`, with `val` to choose strengths and when to stop. A store without `fit` is
    cross-fitted: the values of each fifth of the groups of val and test are of rules fitted on the
    others. Raises UnknownNameError for an unknown regressor, ConfigError for none or for one given
    twice.
    """
    require_regressors(regressors)
    shape = {split: (len(store.rows(split)), store.loops) for split in _VALUED}
    found = {
        (regressor, price, split): np.full(shape[split], -np.inf, np.float32)
        for regressor in regressors
        for price in PRICES
        for split in _VALUED
    }
    rng = np.random.default_rng(seed)
    cost = np.array(PRICES, np.float32)
    for fit_rows, held_rows, valued in _parts(store, rng):
        features = Features(store, fit_rows, rng)
        fit, held = (_sample(store, features, rows) for rows in (fit_rows, held_rows))
        rules = _fit(fit, held, cost, features, regressors, min_depth, seed)
        del fit, held
        for split, at in valued.items():
            for part, read in features.pieces(
                store.rows(split)[at], most_examples(store, MOST_HELD)
            ):
                for regressor, rule in rules.items():
                    advantage = rule(read)
                    for k, price in enumerate(PRICES):
                        found[regressor, price, split][at[part], :-1] = advantage[:, :, k].T
    for values in found.values():
        values[:, : min_depth - 1] = np.nan
    return [
        Rule(
            name=f"{regressor}/{price:g}",
            values={split: found[regressor, price, split] for split in _VALUED},
        )
        for regressor in regressors
        for price in PRICES
    ]


def require_regressors(names: Sequence[str]) -> None:
    """Raise UnknownNameError for a name that no regressor bears, ConfigError for none or for one
    given twice."""
    for name in names:
        if name not in REGRESSORS:
            raise UnknownNameError("regressor", name, REGRESSORS)
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            f"the bound needs some of the regressors {', '.join(REGRESSORS)}, each once, got "
            f"{', '.join(names) or 'none'}"
        )


def _parts(
    store: Store, rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], dict[str, NDArray[np.int64]]]]:
    """Examples to fit on, examples to choose on, and by split which of its examples get values."""
    most_fitted, most_held = (most_examples(store, most) for most in (MOST_FITTED, MOST_HELD))

    def some(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        return some_groups(rows, store.group[rows], most, rng)

    def both(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        fold = folds(store.group[rows], _FOLDS, rng)
        inner, outer = rows[fold > 0], rows[fold == 0]
        if not len(inner):
            inner = outer
        return some(inner, most_fitted), some(outer, most_held)

    if "fit" in store.splits:
        everything = {split: np.arange(len(store.rows(split))) for split in _VALUED}
        fitted, held = some(store.rows("fit"), most_fitted), some(store.rows("val"), most_held)
        yield fitted, held, everything
        return
    rows = store.rows()
    fold = folds(store.group, _FOLDS, rng)
    for part in np.unique(fold):
        others = rows[fold != part]
        valued = {split: np.flatnonzero(fold[store.rows(split)] == part) for split in _VALUED}
        yield *both(others if len(others) else rows), valued


def _sample(store: Store, features: Features, rows: NDArray[np.int64]) -> Sample:
    correct = np.empty((len(rows), store.loops), bool)
    for split in store.splits:
        of_split = store.rows(split)
        at = np.isin(rows, of_split)
        if at.any():
            correct[at] = store.correct(split)[np.searchsorted(of_split, rows[at])]
    return Sample(features=features.read(rows), correct=correct, group=store.group[rows])


def _fit(
    fit: Sample,
    held: Sample,
    prices: NDArray[np.float32],
    features: Features,
    regressors: Sequence[str],
    min_depth: int,
    seed: int,
) -> dict[str, Advantages]:
    """The advantages by regressor. Ridge is always fitted: the others begin with its rule."""
    ridge = fit_ridge(fit, held, prices, min_depth=min_depth)
    start = ridge.rule(fit.features)
    rules: dict[str, Advantages] = {"ridge": ridge.rule}
    if "mlp" in regressors:
        rules["mlp"] = fit_mlp(fit, held, ridge.rule, prices, seed=seed, min_depth=min_depth)
    if "boosted" in regressors:
        goal, _ = targets(start, fit.correct, prices, min_depth=min_depth)
        fold = folds(fit.group, 3, np.random.default_rng(seed))
        projection, columns = fit_projection(
            fit, ridge, goal, fold, features.signals, features.apart
        )
        rules["boosted"] = fit_boosted(
            columns, fit, held, projection, start, prices,
            seed=seed, min_depth=min_depth,
        )  # fmt: skip
    return {name: rules[name] for name in regressors}
