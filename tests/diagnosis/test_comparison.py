"""Comparisons: McNemar and Holm from counts by hand, the swap from its four corners."""

import numpy as np
import pytest
from scipy.stats import binomtest

from tests.diagnosis.test_regret import noisy
from tests.planted_worlds import EXAMPLES, LOOPS, solved_from
from tests.trajectories import planted
from trajdiag import diagnose, fit_gate
from trajdiag.metrics.frontier import exit_depth, right_at
from trajdiag.readout import list_readouts

QUICK = {"n_resamples": 100, "bound": ("ridge",)}


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    stores = [noisy(folder / "own.zarr", late=1), noisy(folder / "reference.zarr")]
    for store in stores:
        fit_gate(store, kind="linear", epochs=3, cache_dir=str(folder))
    results = diagnose(stores, reference=stores[1], cache_dir=str(folder), **QUICK)
    return stores, results


def rows(results, **wanted):
    return [
        row
        for row in results.comparisons
        if all(getattr(row, key) == value for key, value in wanted.items())
    ]


def area(results, store, readout):
    [row] = [
        row
        for row in results.scores
        if (row.store, row.readout, row.metric, row.split) == (store, readout, "area", "test")
    ]
    return row.value


def test_every_readout_is_compared_with_the_best_of_its_own_trajectory(compared):
    _, results = compared
    own = rows(results, store="own", reference="own", metric="area")
    [top] = {row.reference_readout for row in own}
    kinds = {row.readout: row.kind for row in results.readouts if row.store == "own"}
    real = {name for name, kind in kinds.items() if kind in ("signal", "native", "gate", "fixed")}
    assert {row.readout for row in own} == real - {top}
    for row in own:
        difference = area(results, "own", row.readout) - area(results, "own", top)
        assert row.value == pytest.approx(difference, abs=1e-12)
        assert row.paired and row.low <= row.value <= row.high


def test_p_values_are_adjusted_over_the_readouts_of_one_metric(compared):
    _, results = compared
    family = rows(results, store="own", reference="own", metric="accuracy@equal-depth")
    ordered = sorted(family, key=lambda row: row.p)
    largest = 0.0
    for rank, row in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - rank) * row.p))
        assert row.p_adjusted == pytest.approx(largest)


@pytest.mark.parametrize(
    ("name", "distinct"), [("argmax_stability", False), ("native", True)], ids=["few", "many"]
)
def test_equal_depth_compares_both_within_one_val_depth(tmp_path, name, distinct):
    """Of few values every threshold is a candidate for resamples; of many only some are."""
    rng = np.random.default_rng(0)
    right = solved_from(rng.integers(1, 5, EXAMPLES)) ^ (rng.random((EXAMPLES, LOOPS)) < 0.1)
    margin = np.where(right, 4.0, 2.0) + rng.integers(-1, 2, right.shape)
    margin = margin + distinct * rng.random(right.shape)
    gate = np.where(right, 0.0, -1.0) + rng.normal(size=right.shape)
    store = planted(tmp_path / "own.zarr", right, confidence=margin, gate_logit=gate)
    results = diagnose(store, readouts=("logit_margin", name), **QUICK)
    [row] = rows(results, metric="accuracy@equal-depth", readout=name)
    assert row.reference_readout == "logit_margin"
    one, other = (
        next(r for r in list_readouts(store, gates=()) if r.name == wanted)
        for wanted in (name, "logit_margin")
    )
    [threshold] = [
        r.value
        for r in results.scores
        if (r.readout, r.metric) == ("logit_margin", "threshold@final")
    ]

    def exits(readout, at, split):
        at = np.nan if at is None else at
        values = readout.values(store, split)
        return exit_depth(values, at, readout.direction, readout.first_loop)

    def deepest(readout, budget):
        """The threshold with the deepest exits within the budget on val; None leaves at loop 1."""
        values = readout.values(store, "val")
        thresholds = np.append(np.unique(values[np.isfinite(values)]), np.nan)
        depths = exits(readout, thresholds, "val").mean(axis=0)
        inside = np.where(depths <= budget + 1e-9, depths, -np.inf)
        return thresholds[inside.argmax()] if inside.max() > 0 else None

    budget = exits(other, threshold, "val").mean()
    correct = store.correct("test")
    answers = []
    for readout in (one, other):
        at = deepest(readout, budget)
        leaves = np.ones(len(correct), int) if at is None else exits(readout, at, "test")
        answers.append(right_at(correct, leaves))
    assert row.value == pytest.approx(answers[0].mean() - answers[1].mean(), abs=1e-12)
    counts = [int((answers[k] & ~answers[1 - k]).sum()) for k in (0, 1)]
    assert sum(counts) > 0
    assert row.p == pytest.approx(binomtest(counts[0], sum(counts)).pvalue)


def test_gates_of_other_options_are_no_frozen_fit_test(tmp_path):
    stores = [noisy(tmp_path / "own.zarr", late=1), noisy(tmp_path / "reference.zarr")]
    for store, beta in zip(stores, (0.05, 0.5), strict=True):
        fit_gate(store, kind="linear", beta=beta, epochs=2, cache_dir=str(tmp_path))
    results = diagnose(stores, reference=stores[1], cache_dir=str(tmp_path), **QUICK)
    assert "frozen-fit/area" not in {row.metric for row in results.comparisons}


def test_mcnemar_counts_are_those_of_scipy():
    from trajdiag.diagnosis.comparison import _mcnemar

    rng = np.random.default_rng(0)
    net = rng.choice([-1, 0, 1], 300, p=[0.1, 0.7, 0.2]).astype(np.int8)
    only_first, only_second = int((net > 0).sum()), int((net < 0).sum())
    expected = binomtest(only_first, only_first + only_second).pvalue
    assert _mcnemar(net, np.arange(300)) == pytest.approx(expected)
    # Repeats of one input are one vote.
    assert _mcnemar(np.repeat(net, 4), np.repeat(np.arange(300), 4)) == pytest.approx(expected)


def test_the_swap_shares_the_gap_between_trajectory_and_readout(compared):
    _, results = compared
    found = {
        row.metric: row for row in rows(results, store="own") if row.metric.startswith("swap/")
    }
    gate, signal = found["swap/total"].readout, found["swap/total"].reference_readout
    v = {
        (store, readout): area(results, store, readout)
        for store in ("own", "reference")
        for readout in (gate, signal)
    }
    total = v["own", gate] - v["reference", signal]
    assert found["swap/total"].value == pytest.approx(total, abs=1e-12)
    trajectory = (
        v["own", gate] - v["reference", gate] + v["own", signal] - v["reference", signal]
    ) / 2
    assert found["swap/trajectory"].value == pytest.approx(trajectory, abs=1e-12)
    shares = found["swap/trajectory"].value + found["swap/readout"].value
    assert shares == pytest.approx(total, abs=1e-12)
    both = v["own", gate] - v["own", signal] - v["reference", gate] + v["reference", signal]
    assert found["swap/interaction"].value == pytest.approx(both, abs=1e-12)


def test_the_frozen_fit_test_compares_a_fresh_gate_on_both_trajectories(compared):
    _, results = compared
    [row] = rows(results, store="own", metric="frozen-fit/area")
    assert row.readout == row.reference_readout == "linear-ponder"
    difference = area(results, "own", "linear-ponder") - area(results, "reference", "linear-ponder")
    assert row.value == pytest.approx(difference, abs=1e-12)
