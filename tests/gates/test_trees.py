"""Our evaluation of boosted trees, against scikit-learn's and against walking them."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from trajdiag.gates.trees import BLOCK, Trees


def data(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features with ties, NaN and infinities, and a noisy label that depends on what is
    missing."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 5))
    x[:, 1] = rng.integers(0, 4, rows)
    for column, value in ((0, np.nan), (2, np.nan), (2, np.inf), (3, -np.inf), (3, np.inf)):
        x[rng.random(rows) < 0.1, column] = value
    drive = np.where(np.isnan(x[:, 0]), 1.0, x[:, 0]) * (x[:, 1] - 1.5) + (x[:, 3] > 0)
    return x, drive + rng.normal(size=rows)


def fitted(kind: type, **options):
    x, y = data(3000)
    y = y > 0 if kind is HistGradientBoostingClassifier else y
    weight = np.random.default_rng(1).random(len(y))
    with np.errstate(invalid="ignore"):  # a midpoint between the infinities
        return kind(max_iter=25, early_stopping=False, **options).fit(x, y, weight)


@pytest.fixture(scope="module")
def classifier():
    return fitted(HistGradientBoostingClassifier)


def test_outputs_equal_the_classifiers_to_the_last_bit(classifier):
    x, _ = data(2 * BLOCK + 7, seed=2)
    assert np.array_equal(Trees.from_sklearn(classifier)(x), classifier.decision_function(x))


@pytest.mark.parametrize("leaves", [2, 31])
def test_outputs_equal_the_regressors_to_the_last_bit(leaves):
    model = fitted(HistGradientBoostingRegressor, max_leaf_nodes=leaves, min_samples_leaf=2)
    x, _ = data(1000, seed=3)
    assert np.array_equal(Trees.from_sklearn(model)(x), model.predict(x))


def test_a_value_on_a_threshold_goes_where_scikit_learn_sends_it(classifier):
    trees = Trees.from_sklearn(classifier)
    inner = trees.feature >= 0
    x = np.zeros((inner.sum(), 5))
    x[np.arange(len(x)), trees.feature[inner]] = trees.threshold[inner]
    for moved in (x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)):
        assert np.array_equal(trees(moved), classifier.decision_function(moved))


def test_the_first_trees_alone_are_the_stages_on_the_way(classifier):
    x, _ = data(100, seed=4)
    trees = Trees.from_sklearn(classifier)
    every = list(classifier.staged_decision_function(x))
    staged = trees.staged(x, 10)
    assert staged.shape == (100, 3)
    assert np.array_equal(staged[:, 0], np.full(100, classifier._baseline_prediction[0, 0]))
    assert np.array_equal(staged[:, 2], every[19])
    for count in (1, 20, 25):
        assert np.array_equal(trees.first(count)(x), every[count - 1])
    assert np.array_equal(trees.first(0)(x), staged[:, 0])


def by_hand() -> dict[str, np.ndarray]:
    """Two trees: one sends only missing values right, with an infinite threshold; in the other the
    left child splits again."""
    return {
        "start": np.array([0, 3]),
        "feature": np.array([0, -1, -1, 1, 0, -1, -1, -1], np.int32),
        "threshold": np.array([np.inf, 0, 0, 0.5, -1.0, 0, 0, 0]),
        "left": np.array([1, 0, 0, 4, 5, 0, 0, 0], np.int32),
        "right": np.array([2, 0, 0, 7, 6, 0, 0, 0], np.int32),
        "missing_left": np.array([0, 0, 0, 1, 0, 0, 0, 0], bool),
        "leaf_value": np.array([0, 1.0, 2.0, 0, 0, 10.0, 20.0, 40.0]),
        "baseline": np.array([100.0]),
    }


def walk(arrays: dict[str, np.ndarray], row: list[float]) -> float:
    total = float(arrays["baseline"][0])
    for node in arrays["start"]:
        while arrays["feature"][node] >= 0:
            value = row[arrays["feature"][node]]
            missing = bool(arrays["missing_left"][node])
            goes_left = missing if value != value else value <= arrays["threshold"][node]
            node = arrays["left" if goes_left else "right"][node]
        total += float(arrays["leaf_value"][node])
    return total


def test_every_leaf_is_reached_as_by_walking():
    values = [-np.inf, -2.0, -1.0, 0.5, 0.6, np.inf, np.nan]
    rows = [[a, b] for a in values for b in values]
    want = [walk(by_hand(), row) for row in rows]
    assert len(set(want)) == 5
    assert Trees.from_arrays(by_hand(), 2)(np.array(rows)).tolist() == want


def test_a_constant_has_no_trees():
    trees = Trees.constant(-1.5)
    assert (len(trees), trees(np.zeros((3, 2))).tolist()) == (0, [-1.5] * 3)
    assert Trees.from_arrays(trees.arrays(), 1)(np.zeros((2, 1))).tolist() == [-1.5] * 2


@pytest.mark.parametrize(
    ("name", "at", "value", "words"),
    [
        ("left", 3, 3, "not each one root"),
        ("right", 0, 9, "not each one root"),
        ("right", 0, -1, "not each one root"),
        ("start", 1, 2, "not each one root"),
        ("left", slice(3, 5), [5, 4], "out of order"),
        ("right", slice(0, 4), [7, 0, 0, 2], "out of order"),
        ("feature", 3, 2, "more than 2 features"),
        ("threshold", 3, np.nan, "NaN"),
        ("leaf_value", 1, np.inf, "NaN or infinity"),
        ("baseline", 0, np.nan, "NaN or infinity"),
    ],
)
def test_unsound_trees_are_refused(name, at, value, words):
    arrays = by_hand()
    arrays[name][at] = value
    with pytest.raises(ValueError, match=words):
        Trees.from_arrays(arrays, 2)


def test_a_child_in_another_tree_is_refused():
    arrays = by_hand()
    arrays["feature"][[1, 4]] = [0, -1]
    arrays["left"][[0, 1, 3]] = [1, 2, 4]
    arrays["right"][[0, 1, 3]] = [5, 6, 7]
    with pytest.raises(ValueError, match="out of order"):
        Trees.from_arrays(arrays, 2)


def test_arrays_that_are_no_trees_are_refused():
    for name, array, words in (
        ("feature", np.zeros(8), "feature is no row of int32"),
        ("threshold", np.zeros(7), "differ in length"),
        ("baseline", np.zeros(2), "not one baseline"),
    ):
        with pytest.raises(ValueError, match=words):
            Trees.from_arrays({**by_hand(), name: array}, 2)
    with pytest.raises(ValueError, match="trees are the arrays"):
        Trees.from_arrays({"output.bias": np.zeros(1)}, 2)


def test_a_tree_of_too_many_leaves_is_refused():
    model = fitted(HistGradientBoostingRegressor, max_leaf_nodes=40)
    with pytest.raises(ValueError, match="more than 32 leaves"):
        Trees.from_arrays(Trees.from_sklearn(model).arrays(), 5)
