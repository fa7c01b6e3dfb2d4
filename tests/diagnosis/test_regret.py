"""Regret from its definition: oracles, luck and the bound computed a second time, plainly."""

import numpy as np
import pytest

from tests.planted_worlds import EXAMPLES, LOOPS, solved_from, world
from trajdiag import diagnose
from trajdiag.bound.rules import fit_rules
from trajdiag.diagnosis.regret import ACCURACY, INTEGRATED, MATCHED, REGRET, regrets
from trajdiag.metrics.luck import null_first_right
from trajdiag.readout_registry import BOUND, NATIVE, ORACLE
from trajdiag.scoring.evaluation import best
from trajdiag.scoring.stores import ScoreConfig, score_stores


def noisy(path, seed=0, late=0):
    """Right answers that come, go and come back; a gate that half sees them."""
    rng = np.random.default_rng(seed)
    needed = np.where(rng.random(EXAMPLES) < 0.1, 99, rng.integers(1, 5, EXAMPLES) + late)
    right = solved_from(needed) ^ (rng.random((EXAMPLES, LOOPS)) < 0.05)
    sees = np.where(rng.random(right.shape) < 0.5, right, rng.random(right.shape) < 0.5)
    return world(
        path,
        right,
        margin=np.where(right, 4.0, 1.0) + rng.normal(0, 1.0, right.shape),
        shown=np.where(right, 1.0, -1.0),
        gate_logit=np.where(sees, 2.0, -2.0) + rng.normal(0, 0.3, right.shape),
        difficulty=np.minimum(needed, LOOPS).astype(float),
        seed=seed,
    )


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regret")
    stores = [noisy(folder / "own.zarr", late=1), noisy(folder / "reference.zarr")]
    config = ScoreConfig(n_resamples=60)
    return score_stores(stores, config, lambda store: fit_rules(store, regressors=("ridge",)))


@pytest.mark.parametrize("at", [INTEGRATED, MATCHED, ACCURACY])
def test_the_parts_sum_to_the_whole_in_every_resample(scored, at):
    own, reference = scored
    for e in own.evaluations:
        if e.exits is None:
            continue
        [found] = [x for x in regrets(own, reference, e) if x.at == at]
        total = sum(found.parts.values())
        assert list(found.parts) == ["trajectory_regret", "unexposed", "learnable", "misfit"]
        np.testing.assert_array_equal(total, found.regret)
        # The ends alone give the same whole: what lies between cancels.
        [of_reference] = [
            x for x in regrets(reference, None, best(reference.evaluations)) if x.at == at
        ]
        if at == INTEGRATED:
            ends = (
                reference.get(ORACLE).estimates["area"] - of_reference.lucky - e.estimates["area"]
            )
            np.testing.assert_allclose(found.regret, ends, atol=1e-9)
        if at == ACCURACY:
            m = "depth@matched"
            ends = e.estimates[m] - reference.get(ORACLE).estimates[m] - of_reference.lucky
            np.testing.assert_allclose(found.regret, ends, atol=1e-9)


def test_luck_is_capped_by_what_the_bound_does_not_reach(scored):
    own, _ = scored
    [found] = [x for x in regrets(own, None, own.get(NATIVE)) if x.at == INTEGRATED]
    area = {name: own.get(name).estimates["area"] for name in (ORACLE, "oracle-stays", BOUND)}
    test = own.outcomes.test
    first = null_first_right(test.predictions, test.target)
    # Policy k waits for the first right loop up to k; here on the whole sample, without the hull,
    # whose vertices are all policies since the earliest right loops are concave.
    depth = 1 + np.cumsum(np.arange(LOOPS) * first.mean(axis=0))
    accuracy = np.cumsum(first.mean(axis=0))
    width = np.diff(np.append(depth, LOOPS))
    heights = np.append((accuracy[1:] + accuracy[:-1]) / 2, accuracy[-1])
    null = (width * heights).sum() / (LOOPS - 1)
    assert own.null.area(LOOPS)[0] == pytest.approx(null, abs=1e-6)
    by_luck = max(0.0, null - area["oracle-stays"][0])
    expected = min(area[ORACLE][0] - area[BOUND][0], by_luck)
    assert found.lucky[0] == pytest.approx(expected, abs=1e-9)


def test_the_bound_is_at_least_every_readout_on_val(scored):
    for s in scored:
        bound = s.get(BOUND)
        for e in s.evaluations:
            if e.exits is not None and e.readout.kind != "variant":
                assert bound.val_area >= e.val_area - 1e-9


def test_without_a_reference_the_trajectory_has_no_part(scored):
    own, _ = scored
    for found in regrets(own, None, own.get(NATIVE)):
        assert "trajectory_regret" not in found.parts
        assert found.reference is None
        names = [row.part for row in found.rows("own", ScoreConfig().spans)]
        assert names[-2:] == [REGRET, "lucky"]


def test_a_reference_with_other_examples_is_said_to_be_unpaired(tmp_path):
    own, other = noisy(tmp_path / "own.zarr", late=1), noisy(tmp_path / "other.zarr", seed=5)
    results = diagnose([own, other], reference=other, n_resamples=50, bound=("ridge",))
    finding = next(f for f in results.findings if f.code == "trajectory-bound" and f.store == "own")
    assert "unpaired: it holds other examples" in finding.message
    across = [row for row in results.comparisons if (row.store, row.reference) == ("own", "other")]
    assert across and not any(row.paired for row in across)
