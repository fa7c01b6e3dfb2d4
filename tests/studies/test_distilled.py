"""A report's rows to a setting's numbers."""

import dataclasses
import json
from typing import Any

import pytest
from studies import distilled
from studies.distilled import distil, text_of
from studies.runs import runs_of
from studies.settings import TINY

SCALE = dataclasses.replace(TINY, tasks=TINY.tasks[:1])
STORES = ["mano-fixed-uniform-s0", "mano-fixed-uniform-s1"]
RUNS = [run for run in runs_of(SCALE) if run.name in STORES]
TRAINING = {
    "loops": 4,
    "layers": 1,
    "d_model": 16,
    "heads": 2,
    "feed_forward": 32,
    "steps": 12,
    "batch": 48,
    "lr": 0.1,
    "dense": True,
    "curriculum": True,
    "harder_rows": True,
    "precision": "fp32",
}


def score(store: str, metric: str, value: float | None, split: str = "test") -> dict[str, Any]:
    of = {"readout": "entropy", "metric": metric, "value": value, "low": 0.1, "high": 0.9}
    return {"store": store, "split": split, **of}


def rows(**tables: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    names = (
        *("scores", "frontier", "diagnosis", "comparisons", "quality", "profile"),
        *("replicas", "findings", "latency"),
    )
    config = {"trajdiag": {"training": {"config": TRAINING}}}
    stores = [
        {
            "store": store,
            "model": {"config": config},
            "task": {"parameters": {"modulus": 5, "min_difficulty": 1, "max_difficulty": 3}},
            "examples": {"test": 7},
        }
        for store in STORES
    ]
    return {"stores": stores, **{name: [] for name in names}, **tables}


def numbers(runs=RUNS, **tables: list[dict[str, Any]]) -> dict[str, Any]:
    return distil(rows(**tables), SCALE, runs, {}, None)["numbers"]["mano/fixed-uniform"]


@pytest.fixture(autouse=True)
def no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distilled, "cpu_seconds", lambda root, run: {"train": 2.0})


def test_a_number_of_every_seed_is_a_mean_with_its_least_and_greatest():
    found = numbers(
        scores=[score(STORES[0], "accuracy@95", 0.9), score(STORES[1], "accuracy@95", 0.96)]
    )
    assert found["entropy"]["accuracy@95"] == [0.93, 0.9, 0.96, "range", [0.9, 0.96]]


def test_seeds_that_miss_a_target_are_counted_beside_the_mean_of_the_others():
    found = numbers(scores=[score(STORES[0], "depth@95", 2.5), score(STORES[1], "depth@95", None)])
    assert found["entropy"]["depth@95/if-reached"] == [2.5, 2.5, 2.5, "range", [2.5, None]]


def test_the_report_s_own_interval_over_seeds_is_taken_where_there_is_one():
    replica = {"replicas": " + ".join(STORES), "readout": "entropy", "metric": "area"}
    replica |= {"value": 0.8, "low": 0.7, "high": 0.85, "n_reached": 2, "n": 2}
    found = numbers(
        replicas=[replica], scores=[score(STORES[0], "area", 0.1), score(STORES[1], "area", 0.2)]
    )
    assert found["entropy"]["area"] == [0.8, 0.7, 0.85, "interval", [0.1, 0.2]]


@pytest.mark.parametrize("all_reach", [True, False])
def test_a_depth_is_the_mean_where_every_seed_reaches_it_else_the_median(all_reach):
    def replica(metric: str, value: float, low: float | None) -> dict[str, Any]:
        of = {"replicas": " + ".join(STORES), "readout": "entropy", "metric": metric}
        return {**of, "value": value, "low": low, "high": low}

    depths = [2.0, 3.5 if all_reach else None]
    found = numbers(
        replicas=[
            replica("depth@95", 2.0, None),
            *[replica("mean-depth@95", 2.75, 1.0)][:all_reach],
        ],
        scores=[score(s, "depth@95", d) for s, d in zip(STORES, depths, strict=True)],
    )
    expected = [2.75, 1.0, 1.0] if all_reach else [2.0, None, None]
    assert found["entropy"]["depth@95"] == [*expected, "interval", depths]


def test_a_part_of_regret_that_some_seeds_lack_is_left_out():
    def part(store: str, at: str, value: float) -> dict[str, Any]:
        of = {"store": store, "readout": "native", "part": "misfit", "reference": None}
        return {**of, "at": at, "value": value}

    one = [part(STORES[0], "integrated", 0.1), part(STORES[0], "accuracy", 0.2)]
    two = [part(STORES[1], "accuracy", 0.4)]
    scores = [score(store, "accuracy@95", 0.9) for store in STORES]
    assert "native" not in numbers(diagnosis=one, scores=scores)
    found = numbers(diagnosis=one + two, scores=scores)["native"]
    assert found == {"misfit/loops": [pytest.approx(0.3), 0.2, 0.4, "range", [0.2, 0.4]]}


def test_a_seed_without_a_number_keeps_its_place():
    quality = [
        {
            "store": STORES[1],
            "readout": "native",
            "metric": "modal-exit",
            "loop": None,
            "value": 0.7,
        }
    ]
    found = numbers(quality=quality)["native"]["modal-exit"]
    assert found == [0.7, 0.7, 0.7, "range", [None, 0.7]]


def test_the_reference_of_a_task_is_named():
    row = {"store": STORES[0], "readout": "r", "part": "ok", "at": "point", "value": 1.0}
    found = [{**row, "reference": None}, {**row, "reference": STORES[1]}]
    assert distil(rows(diagnosis=found), SCALE, RUNS, {}, None)["references"] == {"mano": STORES[1]}


def test_a_single_seed_has_its_own_interval():
    found = numbers(runs=RUNS[:1], scores=[score(STORES[0], "area", 0.5)])
    assert found["entropy"]["area"] == [0.5, 0.1, 0.9, "interval", [0.5]]


def test_depths_chosen_on_test_are_those_of_the_scores_and_not_of_the_thinned_frontier():
    point = {"store": STORES[0], "readout": "entropy", "depth": 3.0, "accuracy": 0.99}
    scores = [
        score(STORES[0], "depth@95/test-chosen", 1.5),
        score(STORES[1], "depth@95/test-chosen", 1.7),
        score(STORES[0], "depth@98/test-chosen", None),
    ]
    found = numbers(scores=scores, frontier=[point])["entropy"]
    assert found["depth@95/test-chosen"] == [1.6, 1.5, 1.7, "range", [1.5, 1.7]]
    assert found["depth@98/test-chosen"] == [None, None, None, "range", [None, None]]
    assert "depth@99/test-chosen" not in found


def test_the_commonest_exit_is_a_share_of_all_examples():
    exits = {1.0: ((1, 0.5), (2, 0.5), 30), 2.0: ((1, 0.2), (2, 0.8), 10)}
    profile = [
        {
            "store": STORES[0],
            "readout": "native",
            "quantity": "exits",
            "loop": loop,
            "difficulty": difficulty,
            "value": share,
            "n": n,
        }
        for difficulty, (*shares, n) in exits.items()
        for loop, share in shares
    ]
    found = numbers(runs=RUNS[:1], profile=profile)
    # loop 1: 15 + 2 of 40; loop 2: 15 + 8 of 40
    assert found["native"]["commonest-exit"][0] == pytest.approx(23 / 40)


def test_the_text_is_the_same_json_with_a_readout_a_line():
    study = distil(rows(scores=[score(s, "accuracy@95", 0.9) for s in STORES]), SCALE, RUNS, {}, 0)
    text = text_of(study)
    assert json.loads(text) == study
    assert any(line.startswith('"entropy": {') for line in text.splitlines())


def test_a_curve_is_the_mean_over_seeds_of_lines_between_the_points_of_the_frontier():
    def point(store: str, readout: str, depth: float, accuracy: float) -> dict[str, Any]:
        return {"store": store, "readout": readout, "depth": depth, "accuracy": accuracy}

    first, second = STORES
    frontier = [
        *(point(store, "fixed", depth, 0.0) for store in STORES for depth in (1.0, 2.0)),
        *(point(first, "entropy", 1.0, 0.0), point(first, "entropy", 2.0, 1.0)),
        *(point(second, "entropy", 1.5, 1.0), point(second, "entropy", 1.0, 0.5)),
    ]
    study = distil(rows(frontier=frontier), SCALE, RUNS, {}, None)
    # the second seed's frontier ends at 1.5 loops, and is flat from there on
    expected = [(t + min(0.5 + t, 1.0)) / 2 for t in (i / 10 for i in range(11))]
    assert study["curves"]["mano/fixed-uniform"] == {"entropy": pytest.approx(expected)}
