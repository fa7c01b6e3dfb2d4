"""Numbers over seeds of training, of trained models."""

import dataclasses

import numpy as np
import pytest

from tests.trajectories import planted, solved_from
from trajdiag.diagnosis.regret import LEARNABLE, MISFIT, REGRET, UNEXPOSED, regrets, under_diagnosis
from trajdiag.diagnosis.replicas import MEANS, replica_groups, replica_rows
from trajdiag.extraction.freeze import extract
from trajdiag.readout import NATIVE
from trajdiag.scoring.stores import ScoreConfig, score_stores
from trajdiag.training.config import train_config
from trajdiag.training.trainer import train

CONFIG = ScoreConfig(readouts=("entropy", NATIVE), targets=(0.01, 0.5, 1.0), n_resamples=60)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """Barely trained models: two that differ in the seed alone, each stored, one of them twice; one
    that differs in its learning rate too; and a store of arrays."""
    cache = tmp_path_factory.mktemp("cache")
    stores = []
    for seed, lr in ((0, 1e-3), (1, 1e-3), (2, 2e-3)):
        config = train_config(
            task="parity",
            loops=3,
            d_model=16,
            heads=2,
            feed_forward=32,
            steps=5,
            objective="joint",
            batch=32,
            lr=lr,
            seed=seed,
            task_options={"max_difficulty": 8, "fit": 40, "val": 60, "test": 80},
            name=f"seed{seed}",
            cache_dir=str(cache),
        )
        folder = train(config, lambda line: None)
        stores.append(extract(folder, device="cpu", cache_dir=str(cache)))
    stores.append(
        extract(cache / "checkpoints/seed0", device="cpu", cache_dir=str(cache), name="again")
    )
    stores.append(
        extract(
            cache / "checkpoints/seed1", device="cpu", cache_dir=str(cache), name="fewer", loops=2
        )
    )
    first = np.random.default_rng(0).integers(1, 5, 100)
    stores.append(planted(cache / "arrays.zarr", solved_from(first, 3)))
    return score_stores(stores, CONFIG)


def test_replicas_are_the_trainings_that_differ_in_the_seed_alone(scored):
    assert [[s.name for s in group] for group in replica_groups(scored)] == [["seed0", "seed1"]]


def test_stores_of_one_model_are_no_replicas(scored):
    of_one_seed = [s for s in scored if s.name in ("seed0", "again")]
    assert len(of_one_seed) == 2
    assert replica_groups(of_one_seed) == []


def test_runs_of_other_loops_are_no_replicas(scored):
    assert replica_groups([s for s in scored if s.name in ("seed0", "fewer")]) == []


def own_value(s, metric):
    evaluation = s.get("entropy")
    assert evaluation is not None
    return evaluation.estimates[metric][0]


def test_what_replicas_reach_is_told_for_every_readout_that_all_have(scored):
    (group,) = replica_groups(scored)
    rows = replica_rows(group, CONFIG.targets, CONFIG.spans)
    assert {row.replicas for row in rows} == {"seed0 + seed1"}
    assert {row.n for row in rows} == {2}
    by = {(row.readout, row.metric): row for row in rows}
    assert len(by) == len(rows)
    for metric in MEANS:
        assert ("entropy", metric) in by
    for s in group:
        assert {e.readout.name for e in s.evaluations} == {readout for readout, _ in by}
    area = by["entropy", "area"]
    own = [own_value(s, "area") for s in group]
    assert area.value == pytest.approx(np.mean(own))
    assert area.n_reached == 2
    assert area.low is not None and area.high is not None and area.low <= area.high


def test_a_mean_depth_is_told_only_where_all_seeds_reach_it(scored):
    (group,) = replica_groups(scored)
    rows = replica_rows(group, CONFIG.targets, CONFIG.spans)
    by = {(row.readout, row.metric): row for row in rows}
    always, never = by["entropy", "depth@1"], by["entropy", "depth@100"]
    own = [own_value(s, "depth@1") for s in group]
    assert always.value == pytest.approx(np.median(own))
    assert always.n_reached == 2
    assert by["entropy", "mean-depth@1"].value == pytest.approx(np.mean(own))
    assert (never.value, never.low, never.high, never.n_reached) == (None, None, None, 0)
    assert ("entropy", "mean-depth@100") not in by


def reaching(s, depth):
    """The same scores, but for the depth at which entropy reaches 1%."""
    evaluations = [
        dataclasses.replace(e, estimates={**e.estimates, "depth@1": np.full(61, depth)})
        if e.readout.name == "entropy"
        else e
        for e in s.evaluations
    ]
    return dataclasses.replace(s, evaluations=evaluations)


@pytest.mark.parametrize(
    ("depths", "median", "mean"),
    [((1.0, 2.0, 6.0), 2.0, 3.0), ((1.0, 2.0, np.inf), 2.0, None), ((1.0, np.inf), None, None)],
)
def test_depths_are_told_as_medians_beside_a_mean_if_none_is_missed(scored, depths, median, mean):
    group = [reaching(s, depth) for s, depth in zip(scored, depths, strict=False)]
    rows = replica_rows(group, (0.01,), CONFIG.spans)
    by = {row.metric: row for row in rows if row.readout == "entropy"}
    assert by["depth@1"].value == median
    assert (by["depth@1"].n_reached, by["depth@1"].n) == (np.isfinite(depths).sum(), len(depths))
    assert (by["mean-depth@1"].value if "mean-depth@1" in by else None) == mean


def test_a_jackknife_at_the_end_of_estimates_is_left_out(scored):
    config = dataclasses.replace(CONFIG, intervals="bca")
    stores = [s.outcomes.store for s in scored if s.name in ("seed0", "seed1")]
    (group,) = replica_groups(score_stores(stores, config))
    (plain,) = replica_groups(score_stores(stores, CONFIG))
    assert replica_rows(group, CONFIG.targets, config.spans) == replica_rows(
        plain, CONFIG.targets, CONFIG.spans
    )


def test_the_parts_of_regret_sum_over_seeds_too(scored):
    stores = [s.outcomes.store for s in scored if s.name in ("seed0", "seed1")]
    # Without further rules the bound is the best of the readouts.
    (group,) = replica_groups(score_stores(stores, CONFIG, lambda store: []))
    rows = replica_rows(group, CONFIG.targets, CONFIG.spans)
    by = {row.metric: row for row in rows if row.readout == NATIVE}
    values = {}
    for part in (UNEXPOSED, LEARNABLE, MISFIT, REGRET):
        row = by[f"{part}/integrated"]
        assert row.value is not None and row.low is not None and row.high is not None
        values[part] = row.value
    assert values[REGRET] == pytest.approx(sum(values.values()) - values[REGRET])
    own = [regrets(s, None, e)[0] for s in group if (e := s.get(NATIVE)) is not None]
    assert values[REGRET] == pytest.approx(np.mean([regret.regret[0] for regret in own]))


def test_without_a_bound_replicas_have_no_regret(scored):
    (group,) = replica_groups(scored)
    rows = replica_rows(group, CONFIG.targets, CONFIG.spans)
    assert not [row for row in rows if row.metric.endswith("/integrated")]


def test_against_a_common_reference_the_trajectory_has_its_part(scored):
    stores = [s.outcomes.store for s in scored if s.name in ("seed0", "seed1", "again")]
    *group, reference = score_stores(stores, CONFIG, lambda store: [])
    assert reference.name == "again"
    references = {s.name: reference for s in group}
    rows = replica_rows(group, (), CONFIG.spans, references)
    by = {row.metric: row.value for row in rows}
    own = [
        x.parts["trajectory_regret"][0]
        for s in group
        for x in regrets(s, reference, under_diagnosis(s))
        if x.at == "integrated"
    ]
    assert by["trajectory_regret/integrated"] == pytest.approx(np.mean(own))
    alone = replica_rows(group, (), CONFIG.spans, {group[0].name: reference})
    assert "trajectory_regret/integrated" not in {row.metric for row in alone}
