"""Diagnoses of planted stores whose cause is known."""

import warnings

import numpy as np
import pytest

from tests.trajectories import planted, solved_from
from trajdiag.diagnosis.diagnosing import DiagnoseConfig, diagnose
from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.scoring.stores import score

LOOPS, EXAMPLES = 5, 2000
QUICK = {"n_resamples": 200, "bound": ("ridge",)}


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


def blamed(results, store):
    """Codes of the findings that blame, about a store."""
    return [f.code for f in results.findings if f.store == store and f.severity != "info"]


def parts(results, store, at, readout="native"):
    """The regret rows of a readout in one unit, by part."""
    rows = [row for row in results.diagnosis if (row.store, row.at) == (store, at)]
    return {row.part: row for row in rows if row.readout == readout}


def test_a_slower_trajectory_is_blamed_on_the_trajectory(tmp_path):
    fixed = store(tmp_path / "fixed.zarr", need())
    joint = store(tmp_path / "joint.zarr", np.minimum(need() + 1, 99), gate=1.0)
    results = diagnose([joint, fixed], **QUICK)
    assert results.config["references"] == {"joint": "fixed"}
    assert blamed(results, "joint") == ["trajectory-bound"]
    assert parts(results, "joint", "accuracy")["trajectory_regret"].low > 0.5
    assert parts(results, "joint", "integrated")["trajectory_regret"].low > 0.05
    assert parts(results, "joint", "accuracy")["misfit"].value < 0.1
    assert "the trajectory's" in results.verdict[0]
    assert "hindsight on fixed" in results.verdict[0]
    assert any(line.startswith("On fixed use ") for line in results.verdict)


def test_a_blind_gate_on_a_good_trajectory_is_blamed_on_the_readout(tmp_path):
    fixed = store(tmp_path / "fixed.zarr", need())
    joint = store(tmp_path / "joint.zarr", need(), gate=0.3)
    results = diagnose([fixed, joint], reference=fixed, **QUICK)
    assert "readout-behind" in blamed(results, "joint")
    assert "trajectory-bound" not in blamed(results, "joint")
    found = parts(results, "joint", "integrated")
    assert found["misfit"].low > 0
    assert "the readout's" in results.verdict[0]
    said = " ".join(results.verdict)
    assert "instead of its own gate" in said, "the model is kept, and read otherwise"


def test_a_blind_gate_is_found_without_a_reference_too(tmp_path):
    results = diagnose(store(tmp_path / "joint.zarr", need(), gate=0.3), **QUICK)
    assert "readout-behind" in blamed(results, "joint")
    assert results.verdict[0].startswith(
        "The own gate of joint falls short of hindsight on its own"
    )
    assert "trajectory_regret" not in parts(results, "joint", "integrated")
    assert {row.reference for row in results.comparisons} == {"joint"}


def test_each_store_names_the_readout_under_diagnosis_and_scores_alone_name_none(tmp_path):
    with_gate = store(tmp_path / "with-gate.zarr", need(), gate=0.3)
    without = store(tmp_path / "without.zarr", need())
    results = diagnose([with_gate, without], **QUICK)
    kinds = {(row.store, row.readout): row.kind for row in results.readouts}
    rules = ("signal", "gate", "fixed")
    areas = {
        row.readout: row.value
        for row in results.scores
        if (row.store, row.metric, row.split) == ("without", "area", "val")
        and kinds["without", row.readout] in rules
    }
    told = {row.store: row.diagnosed for row in results.stores}
    assert told == {"with-gate": "native", "without": max(areas, key=areas.__getitem__)}
    assert [row.diagnosed for row in score(without, n_resamples=20).stores] == [None]


def test_a_twin_of_the_reference_loses_nothing_to_its_trajectory(tmp_path):
    joint = store(tmp_path / "joint.zarr", need(), gate=1.0)
    twin = store(tmp_path / "twin.zarr", need(), gate=1.0)
    results = diagnose([joint, twin], reference=joint, **QUICK)
    assert results.config["references"] == {"twin": "joint"}
    assert not {"trajectory-bound", "readout-behind"} & set(blamed(results, "twin"))
    found = parts(results, "twin", "integrated")["trajectory_regret"]
    assert (found.value, found.low, found.high) == (0, 0, 0)


@pytest.mark.parametrize("intervals", ["percentile", "bca"])
def test_the_parts_of_regret_sum_to_the_whole_and_the_whole_to_its_ends(tmp_path, intervals):
    fixed = store(tmp_path / "fixed.zarr", need())
    joint = store(tmp_path / "joint.zarr", need() + 1, gate=0.5)
    results = diagnose([fixed, joint], reference=fixed, intervals=intervals, **QUICK)
    scores = {(r.store, r.readout, r.metric): r.value for r in results.scores if r.split == "test"}
    for at, metric, worse in (("integrated", "area", 1), ("accuracy", "depth@matched", -1)):
        found = parts(results, "joint", at)
        names = ("trajectory_regret", "unexposed", "learnable", "misfit")
        assert found["regret"].value == pytest.approx(
            sum(found[name].value for name in names), abs=1e-12
        )
        [lucky] = [
            row.value
            for row in results.diagnosis
            if (row.store, row.at, row.part) == ("fixed", at, "lucky")
        ]
        lead = worse * (scores["fixed", "oracle", metric] - scores["joint", "native", metric])
        assert found["regret"].value == pytest.approx(lead - lucky, abs=1e-9)
        assert all(row.low <= row.value <= row.high for row in found.values())
    matched = parts(results, "joint", "matched")["regret"]
    assert matched.depth == pytest.approx(scores["joint", "native", "depth@final"])


def test_shares_are_those_of_a_count_by_hand(tmp_path):
    fixed = store(tmp_path / "fixed.zarr", need())
    results = diagnose(fixed, threshold={"entropy": 0.3}, **QUICK)
    rows = [row for row in results.diagnosis if row.readout == "entropy"]
    assert [row.part for row in rows] == ["ok", "trajectory", "early", "late", "readout"]
    assert {row.at for row in rows} == {"threshold"}
    assert {row.at for row in results.diagnosis if row.readout == "top1"} == {"point"}
    assert sum(row.value for row in rows[:4]) == pytest.approx(1)
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
    counts["readout"] = counts["early"] + counts["late"]
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
    for alike in ("comparable", "kindred"):
        monkeypatch.setattr(f"trajdiag.diagnosis.diagnosing.{alike}", lambda store: store.name)
    assert diagnose([fixed, joint], **QUICK).config["references"] == {}
    monkeypatch.setattr(
        "trajdiag.diagnosis.diagnosing.fit_rules", lambda *_, **__: pytest.fail("fit")
    )
    home = tmp_path / "cache"
    with pytest.raises(ConfigError, match=r"joint shares its task with none .* extract one of"):
        diagnose(fixed, reference=joint, cache_dir=str(home), **QUICK)
    (home / "stores").mkdir(parents=True)
    for name in ("fixed", "third"):
        store(home / "stores" / f"{name}.zarr", need())
    monkeypatch.setattr(
        "trajdiag.diagnosis.diagnosing.kindred", lambda store: store.name.replace("third", "fixed")
    )
    with pytest.raises(ConfigError, match=r"stores of that task are third$"):
        diagnose(fixed, reference=joint, cache_dir=str(home), **QUICK)


def test_a_reference_alone_is_refused(tmp_path):
    fixed = store(tmp_path / "fixed.zarr", need())
    with pytest.raises(ConfigError, match="reference fixed is the only store"):
        diagnose(fixed, reference=fixed, **QUICK)


def test_arrays_of_other_examples_are_compared_only_where_the_user_says_so(tmp_path):
    fixed = store(tmp_path / "fixed.zarr", need())
    ids = np.array([f"other-{i}" for i in range(EXAMPLES)])
    other = store(tmp_path / "other.zarr", need(1) + 1, gate=1.0, ids=ids)
    assert diagnose([fixed, other], **QUICK).config["references"] == {}
    results = diagnose([fixed, other], reference=fixed, **QUICK)
    assert results.config["references"] == {"other": "fixed"}
    assert "hold other examples" in results.verdict[-1]


def test_one_group_has_no_interval_and_nothing_is_told_from_it(tmp_path):
    alone = store(tmp_path / "alone.zarr", need(), gate=0.3, group=np.zeros(EXAMPLES, int))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = diagnose(alone, **QUICK)
    codes = {finding.code for finding in results.findings}
    assert "too-few-examples" in codes
    assert not codes & {"readout-behind", "no-clear-cause", "chance"}
    (sentence,) = results.verdict
    assert sentence.startswith("Of alone nothing can be told: 1 independent test input")


@pytest.mark.parametrize(("groups", "told"), [(2, False), (29, False), (30, True)])
def test_a_verdict_needs_test_groups_enough_for_its_intervals(tmp_path, groups, told):
    few = store(tmp_path / "few.zarr", need(), gate=0.3, group=np.arange(EXAMPLES) % groups)
    results = diagnose(few, **QUICK)
    assert (results.verdict[0] != few_sentence(groups)) is told
    if not told:
        assert [finding.code for finding in results.findings] == ["too-few-examples"]
        assert len(results.verdict) == 1


def test_a_verdict_needs_as_many_val_groups_too(tmp_path):
    split = np.where(np.arange(EXAMPLES) % 3 == 0, "fit", "test")
    split[[1, 2]] = "val"
    few = store(tmp_path / "few.zarr", need(), gate=0.3, split=split)
    (sentence,) = diagnose(few, **QUICK).verdict
    assert sentence.startswith("Of few nothing can be told: 2 independent val inputs, and ")


def test_a_reference_of_too_few_groups_tells_nothing_either(tmp_path):
    much = store(tmp_path / "much.zarr", need(), gate=0.3)
    ids = np.array([f"other-{i}" for i in range(EXAMPLES)])
    few = store(tmp_path / "few.zarr", need(1), ids=ids, group=np.arange(EXAMPLES) % 3)
    verdict = diagnose(much, reference=few, **QUICK).verdict
    assert [line.split(" can be told: ")[0] for line in verdict] == [
        "Of much nothing",
        "Of few nothing",
    ]
    assert "3 independent test (few) inputs" in verdict[0]


def few_sentence(groups: int) -> str:
    return (
        f"Of few nothing can be told: {groups} independent test inputs, and intervals over "
        "fewer than 30 are too narrow."
    )


def test_every_store_has_a_finding_and_the_verdict_a_sentence_a_store(tmp_path):
    stores = [
        store(tmp_path / f"store-{i}.zarr", need(i) + i % 3, gate=0.5 if i % 2 else None)
        for i in range(4)
    ]
    results = diagnose(stores, **QUICK)
    for one in stores:
        assert any(finding.store == one.name for finding in results.findings)
    assert sum(line.startswith("On store-") for line in results.verdict) == 4
    assert len(diagnose(stores[:1], **QUICK).verdict) <= 3
    for sentence in results.verdict:
        assert sentence.endswith(".")
        assert "nan" not in sentence
        assert "None" not in sentence
        assert "0.00 [0.00, 0.00]" not in sentence


def test_an_unknown_regressor_or_swap_is_refused_by_name(tmp_path):
    fixed = store(tmp_path / "fixed.zarr", need())
    with pytest.raises(UnknownNameError, match="unknown regressor 'forest'"):
        diagnose(fixed, bound=("forest",))
    with pytest.raises(UnknownNameError, match="unknown readout 'entropi'"):
        diagnose(fixed, swap=("entropi", "fixed"), **QUICK)
    with pytest.raises(ConfigError, match="both are entropy; give two that differ"):
        diagnose(fixed, swap=("entropy", "entropy"), **QUICK)
    with pytest.raises(ConfigError, match=r"fixed is the only one; name another, as by --referenc"):
        diagnose(fixed, swap=("entropy", "fixed"), **QUICK)
    gated = store(tmp_path / "gated.zarr", need(), gate=0.5)
    with pytest.raises(ConfigError, match=r"that have native and js, and gated has both; give two"):
        diagnose([fixed, gated], swap=("native", "js"), **QUICK)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bound": "ridge"}, "bound must be a list, each entry a text, got 'ridge'"),
        ({"bound": ()}, "the bound needs some of the regressors .*, each once, got none"),
        ({"bound": ("ridge", "ridge")}, "each once, got ridge, ridge"),
        ({"swap": "entropy"}, "swap must be a list of 2, each entry a text or None, got 'entropy'"),
        ({"swap": ("a", "b", "c")}, "swap must be a list of 2, each entry a text or None, got"),
        ({"targets": 0.9}, "targets must be a list, each entry a number, got 0.9"),
        ({"threshold": 0.5}, "threshold must be a number by name, got 0.5"),
        ({"seed": "0"}, "seed must be a whole number"),
        ({"n_resamples": 50.5}, "n_resamples must be a whole number"),
        ({"n_resamples": 1}, "n_resamples must be from 2 to 100,000, got 1; 1000 are"),
        ({"n_resamples": 10**30}, "n_resamples must be from 2 to 100,000, got 1000"),
        ({"n_resamples": 10**12}, "n_resamples must be from 2 to 100,000, got 1000"),
        ({"seed": 2**63}, "seed must be from 0 to 2.63 - 1, got 9223372036854775808"),
        ({"confidence": 95}, r"confidence must be a share .*, got 95.0; did you mean 0\.95\?"),
        ({"confidence": 1.0}, r"confidence must be a share between 0 and 1, got 1\.0$"),
        ({"targets": (0.9, 98)}, r"targets must be shares .*, got 98.0; did you mean 0\.98\?"),
        ({"slack": 2}, r"slack must be a share .*, got 2\.0; did you mean 0\.02\?"),
        ({"confidence": "0.9"}, "confidence must be a number"),
        ({"min_depth": True}, "min_depth must be a whole number"),
        ({"intervals": "basic"}, "intervals must be percentile or bca"),
    ],
)
def test_odd_options_are_one_line(options, words):
    with pytest.raises(ConfigError, match=words):
        DiagnoseConfig(**options)


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    one = store(tmp_path / "one.zarr", need(), gate=0.5)
    twice = [diagnose(one, n_resamples=50, bound=("ridge", "boosted")).to_json() for _ in range(2)]
    assert twice[0] == twice[1]
