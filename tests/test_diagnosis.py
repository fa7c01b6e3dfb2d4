"""Diagnoses of planted stores whose cause is known."""

import numpy as np
import pytest

from tests.trajectories import planted, solved_from
from trajdiag.diagnosis import diagnose
from trajdiag.errors import ConfigError

LOOPS, EXAMPLES = 5, 2000
QUICK = {"n_resamples": 200}


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAJDIAG_CACHE", str(tmp_path / "cache"))


def need(seed=0):
    """The loop after which each example is solved; 1 in 20 never is."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(EXAMPLES) < 0.05, 99, rng.integers(1, LOOPS, EXAMPLES))


def store(path, loops_needed, *, gate=None, **options):
    """Confident where right; `gate` is the probability that the native gate sees that too."""
    right = solved_from(loops_needed, LOOPS)
    confidence = np.where(right, 5.0, 1.0) + np.random.default_rng(7).normal(size=right.shape)
    gate_logit = None
    if gate is not None:
        rng = np.random.default_rng(8)
        sees = np.where(rng.random(right.shape) < gate, right, rng.random(right.shape) < 0.5)
        gate_logit = np.where(sees, 3.0, -3.0) + rng.normal(0, 0.3, right.shape)
    return planted(path, right, confidence=confidence, gate_logit=gate_logit, **options)


def compared(results, **wanted):
    """The comparison rows with these fields, by metric."""
    chosen = [
        row
        for row in results.comparisons
        if all(getattr(row, key) == value for key, value in wanted.items())
    ]
    return {row.metric: row for row in chosen}


def codes(results, store):
    return [finding.code for finding in results.findings if finding.store == store]


def test_a_slower_trajectory_is_blamed_on_the_trajectory(tmp_path):
    fixed = store(tmp_path / "fixed.zarr", need())
    joint = store(tmp_path / "joint.zarr", np.minimum(need() + 1, 99), gate=1.0)
    results = diagnose([joint, fixed], **QUICK)
    assert results.config["references"] == {"joint": "fixed"}
    assert codes(results, "joint") == ["trajectory-bound"]
    gaps = compared(results, store="joint", readout="native", reference="fixed")
    assert gaps["gap/depth@matched"].value > 0.5
    assert gaps["trajectory_gap/depth@matched"].low > 0.5
    assert abs(gaps["readout_gap/depth@matched"].value) < 0.1
    assert "trajectory's" in results.verdict[0]
    assert results.verdict[1].startswith("Use ")
    assert "on fixed" in results.verdict[1]


def test_a_blind_gate_on_a_good_trajectory_is_blamed_on_the_readout(tmp_path):
    fixed = store(tmp_path / "fixed.zarr", need())
    joint = store(tmp_path / "joint.zarr", need(), gate=0.3)
    results = diagnose([fixed, joint], reference=fixed, **QUICK)
    assert codes(results, "joint") == ["readout-misfit"]
    gaps = compared(results, store="joint", readout="native", reference="fixed")
    assert gaps["readout_gap/area"].low > 0
    assert gaps["trajectory_gap/area"].value == 0
    assert (gaps["trajectory_gap/area"].low, gaps["trajectory_gap/area"].high) == (0, 0)
    assert "readout's" in results.verdict[0]


def test_a_blind_gate_is_found_without_a_reference_too(tmp_path):
    results = diagnose(store(tmp_path / "joint.zarr", need(), gate=0.3), **QUICK)
    assert codes(results, "joint") == ["readout-misfit"]
    assert results.verdict[0].startswith("The own gate of joint falls short of ")
    assert {row.reference for row in results.comparisons} == {"joint"}


def test_where_no_shortfall_shows_the_verdict_says_so(tmp_path):
    joint = store(tmp_path / "joint.zarr", need(), gate=1.0)
    twin = store(tmp_path / "twin.zarr", need(), gate=1.0)
    results = diagnose([joint, twin], reference=joint, **QUICK)
    assert results.config["references"] == {"twin": "joint"}
    assert codes(results, "twin") == ["no-clear-cause"]
    assert results.verdict[0].startswith("The own gate of twin does not fall short by an amount")


def test_a_gap_is_exactly_the_sum_of_its_parts_and_differences_are_paired(tmp_path):
    fixed = store(tmp_path / "fixed.zarr", need())
    joint = store(tmp_path / "joint.zarr", need() + 1, gate=0.5)
    results = diagnose([fixed, joint], reference=fixed, **QUICK)
    gaps = compared(results, store="joint", readout="native", reference="fixed")
    test = [row for row in results.scores if row.split == "test"]
    scores = {(r.store, r.readout, r.metric): r.value for r in test}
    for metric, worse in (("area", -1), ("depth@matched", 1)):
        total = gaps[f"gap/{metric}"]
        parts = gaps[f"readout_gap/{metric}"].value + gaps[f"trajectory_gap/{metric}"].value
        assert total.value == pytest.approx(parts, abs=1e-12)
        difference = (
            scores["joint", "native", metric] - scores["fixed", total.reference_readout, metric]
        )
        assert total.value == pytest.approx(worse * difference, abs=1e-12)
    assert all(row.paired for row in results.comparisons)
    assert all(row.low <= row.value <= row.high for row in results.comparisons)


def test_shares_are_those_of_a_count_by_hand(tmp_path):
    fixed = store(tmp_path / "fixed.zarr", need())
    results = diagnose(fixed, threshold={"entropy": 0.3}, **QUICK)
    rows = [row for row in results.diagnosis if row.readout == "entropy"]
    assert [row.part for row in rows] == ["ok", "trajectory", "early", "late"]
    assert {row.at for row in rows} == {"threshold"}
    assert {row.at for row in results.diagnosis if row.readout == "top1"} == {"point"}
    assert sum(row.value for row in rows) == pytest.approx(1)
    counts = dict.fromkeys(("ok", "trajectory", "early", "late"), 0)
    depths = []
    for right, signal in zip(fixed.correct("test"), fixed.signal("entropy", "test"), strict=True):
        exit_loop = next((t for t in range(1, LOOPS) if signal[t - 1] <= 0.3), LOOPS)
        depths.append(exit_loop)
        if right[exit_loop - 1]:
            counts["ok"] += 1
        elif not right.any():
            counts["trajectory"] += 1
        else:
            counts["early" if not right[:exit_loop].any() else "late"] += 1
    for row in rows:
        assert row.value == pytest.approx(counts[row.part] / len(depths))
        assert row.depth == pytest.approx(np.mean(depths))


def test_other_examples_are_compared_unpaired_and_other_tasks_not_at_all(tmp_path):
    fixed = store(tmp_path / "fixed.zarr", need())
    ids = np.array([f"other-{i}" for i in range(EXAMPLES)])
    other = store(tmp_path / "other.zarr", need(1), ids=ids, group=np.arange(EXAMPLES) + 10**6)
    results = diagnose([fixed, other], reference=fixed, **QUICK)
    rows = compared(results, store="other", readout="entropy", reference="fixed")
    assert not rows["area"].paired
    test = [row for row in results.scores if row.split == "test"]
    own = [row for row in test if (row.readout, row.metric) == ("entropy", "area")]
    width = np.hypot(*(row.high - row.low for row in own))
    assert rows["area"].high - rows["area"].low == pytest.approx(width, rel=0.3)


def test_a_reference_of_another_task_is_refused(tmp_path, monkeypatch):
    fixed = store(tmp_path / "fixed.zarr", need())
    joint = store(tmp_path / "joint.zarr", need())
    monkeypatch.setattr("trajdiag.scoring.comparable", lambda store: store.name)
    assert diagnose([fixed, joint], **QUICK).config["references"] == {}
    with pytest.raises(ConfigError, match="reference joint shares its task with none"):
        diagnose(fixed, reference=joint, **QUICK)


def test_every_store_has_a_finding_and_the_verdict_is_three_sentences_at_most(tmp_path):
    stores = [
        store(tmp_path / f"store-{i}.zarr", need(i) + i % 3, gate=0.5 if i % 2 else None)
        for i in range(4)
    ]
    results = diagnose(stores, **QUICK)
    for one in stores:
        assert codes(results, one.name)
    assert 1 <= len(results.verdict) <= 3
    for sentence in results.verdict:
        assert sentence.endswith(".")
        assert "nan" not in sentence
        assert "None" not in sentence
