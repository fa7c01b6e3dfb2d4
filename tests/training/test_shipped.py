"""The shipped checkpoints: as accurate as promised, and later loops solve harder inputs."""

import json
from pathlib import Path

import numpy as np
import pytest

from trajdiag.models.registry import SHIPPED, load_model, shipped_models
from trajdiag.tasks.registry import make_task
from trajdiag.training.evaluation import LoopAccuracy, evaluate

FLOOR = {"mano-fixed-uniform": 0.95, "mano-fixed-geometric": 0.95, "parity-fixed-uniform": 0.97}
RECORDED = json.loads(
    (Path(__file__).parents[2] / "docs" / "shipped.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module", params=sorted(RECORDED))
def shipped(request: pytest.FixtureRequest) -> tuple[str, LoopAccuracy]:
    model = load_model(request.param, device="cpu")
    named = model.record.config["trajdiag"]["task"]
    task = make_task(named["name"], **named["parameters"])
    return request.param, evaluate(model, task.examples()["test"], task.class_ids)


def test_every_recorded_checkpoint_is_shipped_and_together_they_are_small() -> None:
    assert shipped_models() == sorted(RECORDED)
    sizes = [path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()]
    assert sum(sizes) < 2**20


def test_fixed_priors_reach_their_floor(shipped: tuple[str, LoopAccuracy]) -> None:
    name, accuracy = shipped
    assert accuracy.overall[-1] >= FLOOR.get(name, 0.8)


def test_accuracy_is_the_recorded_one(shipped: tuple[str, LoopAccuracy]) -> None:
    name, accuracy = shipped
    recorded = RECORDED[name]["test_accuracy"]
    # Another machine's rounding may turn a few close calls out of 10,000.
    np.testing.assert_allclose(accuracy.overall, recorded["overall"], atol=2e-3)
    by_difficulty = list(recorded["by_difficulty"].values())
    np.testing.assert_allclose(accuracy.by_difficulty, by_difficulty, atol=1e-2)


def test_later_loops_solve_harder_inputs(shipped: tuple[str, LoopAccuracy]) -> None:
    _, accuracy = shipped
    # The first loop within 5 points of the last one's accuracy, by difficulty, easiest first.
    near = accuracy.by_difficulty >= accuracy.by_difficulty[:, -1:] - 0.05
    first_loop = near.argmax(axis=1)
    assert first_loop[0] < first_loop[-1]
    assert np.corrcoef(accuracy.difficulty, first_loop)[0, 1] > 0.5
