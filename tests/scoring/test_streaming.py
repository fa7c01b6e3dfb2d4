"""Stores that are read part by part give what whole ones give, whoever runs the parts."""

import dataclasses
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tests.trajectories import planted, solved_from
from trajdiag.diagnosis.diagnosing import diagnose
from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.gates.frozen_fit import fit_gate
from trajdiag.metrics.frontier import exit_depth, frontier, right_at
from trajdiag.readout_registry import FIXED, ORACLES
from trajdiag.scoring import stores, streaming
from trajdiag.scoring.samples import cuts_between, outcomes
from trajdiag.scoring.stores import score

EXAMPLES, LOOPS = 3000, 5
LITTLE = 1e-6
"""GiB that no store fits into."""
OPTIONS = {"n_resamples": 40, "targets": (0.6, 0.8, 0.99), "threshold": {"entropy": 0.3}}


def noisy(path, *, groups=2000, seed=0):
    """Solved after 1 to 5 loops, 1 in 10 never; splits mixed, inputs repeated, some difficulties
    unknown, a gate that is noise."""
    rng = np.random.default_rng(seed)
    need = rng.integers(1, LOOPS + 1, EXAMPLES)
    right = solved_from(np.where(rng.random(EXAMPLES) < 0.1, 99, need), LOOPS)
    return planted(
        path,
        right,
        confidence=np.where(right, 6.0, 2.0) + rng.normal(0, 1.5, right.shape),
        gate_logit=rng.normal(size=right.shape),
        difficulty=need.astype(float),
        group=rng.integers(0, groups, EXAMPLES),
        split=rng.choice(["fit", "val", "test"], EXAMPLES, p=[0.2, 0.4, 0.4]),
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("streaming")


@pytest.fixture(scope="module")
def store(cache):
    store = noisy(cache / "stores" / "noisy.zarr")
    fit_gate(store, kind="linear", cache_dir=str(cache))
    return store


@pytest.fixture(scope="module")
def whole(store, cache):
    return score(store, cache_dir=str(cache), **OPTIONS)


@pytest.fixture
def in_parts(monkeypatch):
    """Every store is taken to be too large, and its parts are small."""
    monkeypatch.setattr(stores, "bytes_needed", lambda store: 2**50)
    monkeypatch.setattr(stores, "PART_EXAMPLES", 70)


def streamed(store, cache, **options):
    return score(store, cache_dir=str(cache), **OPTIONS | options)


def without_errors(results):
    return [row for row in results.scores if "grid-error" not in row.metric]


def test_scores_and_frontiers_of_kept_values_are_the_same_to_the_bit(store, cache, whole, in_parts):
    parts = streamed(store, cache)
    names = {*store.kept_signals, FIXED, *ORACLES}

    def kept(rows):
        return [row for row in rows if row.readout in names]

    assert kept(without_errors(parts)) == kept(whole.scores)
    assert kept(parts.frontier) == kept(whole.frontier)
    assert parts.readouts == whole.readouts
    assert parts.stores == whole.stores


def test_scores_of_values_computed_part_by_part_are_the_same_but_for_rounding(
    store, cache, whole, in_parts
):
    """In the last bit they may differ, and an example that is at a threshold with them."""
    parts = streamed(store, cache)
    few = 5 * LOOPS / len(store.rows("test"))
    for one, other in zip(without_errors(parts), whole.scores, strict=True):
        values = [getattr(row, name) for row in (one, other) for name in ("value", "low", "high")]
        assert one == dataclasses.replace(other, value=one.value, low=one.low, high=one.high)
        assert values[:3] == [None if v is None else pytest.approx(v, abs=few) for v in values[3:]]


def test_means_by_difficulty_are_the_same_but_for_rounding(store, cache, whole, in_parts):
    parts = streamed(store, cache)
    assert len(parts.profile) == len(whole.profile)
    for one, other in zip(parts.profile, whole.profile, strict=True):
        assert one == dataclasses.replace(other, value=one.value, low=None, high=None)
        assert one.value == pytest.approx(other.value, rel=1e-9, abs=1e-12)


def test_results_say_what_was_streamed_and_how_far_the_exact_frontier_may_be(
    store, cache, whole, in_parts
):
    parts = streamed(store, cache)
    assert parts.config["streamed"] == ["noisy"]
    assert "streamed" not in whole.config
    errors = {
        (row.readout, row.metric): row.value for row in parts.scores if "grid-error" in row.metric
    }
    assert errors["entropy", "depth/grid-error"] == 0
    assert errors["entropy", "accuracy/grid-error"] == 0
    assert errors["entropy", "area/grid-error"] == 0
    assert ("oracle", "area/grid-error") not in errors
    assert not any("grid-error" in row.metric for row in whole.scores)


def test_on_a_coarse_grid_each_readouts_val_area_is_within_the_error(
    store, cache, whole, in_parts, monkeypatch
):
    monkeypatch.setattr(streaming, "BINS", 60)
    parts = streamed(store, cache)
    val = {(row.readout, row.metric): row.value for row in parts.scores if row.split == "val"}
    exact = {row.readout: row.value for row in whole.scores if row.split == "val"}
    causal = [row.readout for row in whole.readouts if row.kind != "oracle"]
    assert max(val[name, "area/grid-error"] for name in causal) > 0
    for name in causal:
        assert -1e-9 <= exact[name] - val[name, "area"] <= val[name, "area/grid-error"] + 1e-9


def test_on_a_coarse_grid_every_point_is_measured_exactly(store, cache, in_parts, monkeypatch):
    monkeypatch.setattr(streaming, "BINS", 60)
    parts = streamed(store, cache)
    test = {(r.readout, r.metric): r.value for r in parts.scores if r.split == "test"}
    values, correct = store.signal("logit_margin", "test"), store.correct("test")
    exits = exit_depth(values, test["logit_margin", "threshold@final"], "high")
    assert test["logit_margin", "depth@final"] == pytest.approx(exits.mean())
    assert test["logit_margin", "accuracy@final"] == pytest.approx(right_at(correct, exits).mean())
    exact = frontier(values, correct, "high")
    told = [row for row in parts.frontier if row.readout == "logit_margin"][1:-1]
    assert 20 < len(told) <= 61
    for row in told:
        point = int(exact.at(np.array([row.threshold]), "high")[0])
        assert (row.depth, row.accuracy) == (exact.depth[point], exact.accuracy[point])


def test_readouts_that_are_measured_one_after_another_give_the_same(store, cache, whole):
    options = {**OPTIONS, "readouts": ("entropy", "native", "linear-ponder"), "memory": LITTLE}
    found = score(store, cache_dir=str(cache), **options)
    assert found.config["streamed"] == ["noisy"]
    scored = {row.readout for row in found.scores}
    assert without_errors(found) == [row for row in whole.scores if row.readout in scored]


def test_the_same_bytes_come_every_time(store, cache, in_parts):
    assert streamed(store, cache).to_json() == streamed(store, cache).to_json()


def test_parts_hold_whole_blocks_where_they_can(tmp_path):
    store = noisy(tmp_path / "a.zarr")
    for most in (1, 70, 400, 5000):
        sample = outcomes(store, most).test
        parts = list(sample.parts())
        np.testing.assert_array_equal(
            np.concatenate([part.store.rows("test") for part in parts]), store.rows("test")
        )
        assert max(map(len, parts)) <= most
        np.testing.assert_array_equal(
            np.concatenate([part.correct for part in parts]), store.correct("test")
        )


@pytest.mark.parametrize(
    ("most", "cuts"),
    [
        (2, [0, 2, 4, 6, 8, 10]),
        (3, [0, 3, 6, 8, 10]),
        (5, [0, 4, 8, 10]),
        (6, [0, 6, 10]),
        (100, [0, 10]),
    ],
)
def test_parts_end_where_blocks_do(most, cuts):
    assert cuts_between(np.repeat([0, 1, 2, 5], [4, 2, 2, 2]), most) == cuts


def test_what_scoring_a_whole_store_needs_grows_with_its_examples(store):
    some = store.only(store.rows()[: EXAMPLES // 2])
    needed = stores.bytes_needed(store)
    assert needed / 2 == pytest.approx(stores.bytes_needed(some), rel=0.1)


def test_diagnose_refuses_a_store_that_does_not_fit_in_one_line(store, cache):
    said = (
        rf"{store.name} is read whole here, which takes about \S+ GiB, and --memory is \S+: raise"
    )
    with pytest.raises(ConfigError, match=said):
        diagnose(store, cache_dir=str(cache), memory=LITTLE)


def test_only_score_has_a_launcher(store):
    with pytest.raises(UnknownNameError, match="unknown option of diagnose 'launcher'"):
        diagnose(store, launcher="ray")


@pytest.mark.parametrize(
    ("options", "said"),
    [({"memory": 0.0}, "memory must be above 0"), ({"launcher": "slurm"}, "local or ray")],
)
def test_other_options_are_refused(store, options, said):
    with pytest.raises(ConfigError, match=said):
        score(store, **options)


def test_without_ray_the_extra_is_named(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"trajdiag\[scale\]"):
        score(store, launcher="ray")


@pytest.mark.slow
def test_two_ray_workers_give_the_same_bytes(store, cache):
    pytest.importorskip("ray")
    options = {**OPTIONS, "cache_dir": str(cache), "readouts": ("entropy", "js", "linear-ponder")}
    program = f"""
        import ray
        from trajdiag.scoring import stores
        stores.PART_EXAMPLES, stores.bytes_needed = 300, lambda store: 2**50
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        here, there = (
            stores.score({str(store.path)!r}, launcher=launcher, **{options!r}).to_dict()
            for launcher in ("local", "ray")
        )
        assert here.pop("config")["streamed"] == there.pop("config")["streamed"]
        assert here == there
        print("the same")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "the same" in done.stdout
