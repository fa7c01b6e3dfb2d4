"""Ridge against scikit-learn and against what was planted."""

import numpy as np
from sklearn.linear_model import Ridge

from trajdiag.bound.directions import centred_gram
from trajdiag.bound.ridge import centred_product, fit_ridge, solve
from trajdiag.bound.sample import Sample


def test_weights_are_those_of_ridge_regression_with_a_free_intercept():
    rng = np.random.default_rng(0)
    x = (3 + rng.normal(size=(300, 12))).astype(np.float32)
    y = (x @ rng.normal(size=(12, 4)) + 5 + rng.normal(size=(300, 4))).astype(np.float32)
    found = solve(centred_gram(x), centred_product(x, y), 7.0)
    expected = Ridge(alpha=7.0).fit(x.astype(np.float64), y).coef_.T
    np.testing.assert_allclose(found, expected, atol=2e-4)


def planted(examples, rng, flips):
    """Feature 0 says whether loop 3 will be right, at loop 2 with the other sign if `flips`."""
    features = rng.normal(size=(2, examples, 6)).astype(np.float32)
    features[1, :, 0] = (-1 if flips else 1) * features[0, :, 0]
    right = np.zeros((examples, 3), bool)
    right[:, 2] = features[0, :, 0] > 0
    return Sample(features=features, correct=right, group=np.arange(examples))


def test_a_feature_whose_meaning_flips_with_the_loop_is_told_apart():
    rng = np.random.default_rng(0)
    fit, held = planted(2000, rng, True), planted(2000, rng, True)
    rule = fit_ridge(fit, held, np.array([0.1], np.float32)).rule
    found = rule(held.features)[:, :, 0]
    for t in range(2):
        assert np.corrcoef(found[t], held.correct[:, 2])[0, 1] > 0.75


def test_few_examples_borrow_from_other_loops():
    """With the same meaning at both loops, 40 examples do better than each loop's alone would."""
    gains = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        fit, held = planted(40, rng, False), planted(1000, rng, False)
        rule = fit_ridge(fit, held, np.array([0.1], np.float32)).rule
        goal = held.correct[:, 2] - 0.1
        fitted = rule(held.features)[1, :, 0]
        x, y = fit.features[1], fit.correct[:, 2] - 0.1
        alone = min(
            np.square(Ridge(alpha=a).fit(x, y).predict(held.features[1]) - goal).mean()
            for a in np.geomspace(4e-3, 1200, 9)
        )
        gains.append(alone - np.square(fitted - goal).mean())
    assert np.mean(gains) > 0
