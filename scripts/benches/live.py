"""Early exit that really stops, over the forwards that it is to save.

One threshold on the logit margin, through the head, on a random model; inputs are drawn until those
whose margin first crosses it at each loop are as many as wanted, so that the exits spread over all
six loops with a mean of two. Every side runs the same rows, 256 a batch.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trajdiag.extraction.batching import TokenBudget, batch_of, batches
from trajdiag.extraction.examples import example_work
from trajdiag.extraction.work import Work
from trajdiag.latency.rule import live_rule
from trajdiag.latency.runner import run_live
from trajdiag.models.base import LoopedModel, ModelRecord, logits
from trajdiag.models.config import OuroConfig
from trajdiag.models.ouro import OuroModel
from trajdiag.models.registry import create_model
from trajdiag.tasks.base import Examples

BATCH, LENGTH, VOCABULARY, LOOPS = 256, 8, 512, 6
EXITS = (940, 592, 264, 136, 68, 48)
"""Examples that leave at each loop: mean depth 1.996, less than half at any loop."""
NEAR = 1e-3
"""Logits: inputs whose margin comes so near the threshold are not taken, so that last bits decide
nothing."""
REPEATS = 7
BARS = {
    "live/share-of-ideal": 0.95,
    "live/full-depth": 1.03,
    "live/run-all-then-select": 2.7,
    "live/slowest-of-batch": 2.5,
}


class Prompts:
    """The given prompts, int32 [example, position], all for test."""

    name, class_ids, class_names, vocab_size = "prompts", None, None, VOCABULARY

    def __init__(self, input_ids: np.ndarray) -> None:
        self.input_ids = input_ids

    def parameters(self) -> dict[str, Any]:
        return {}

    def notes(self) -> dict[str, Any]:
        return {}

    def examples(self) -> dict[str, Examples]:
        numbers = np.arange(len(self.input_ids))
        return {
            "test": Examples(
                input_ids=self.input_ids,
                length=np.full(len(numbers), LENGTH, np.int32),
                target=np.zeros(len(numbers), np.int64),
                difficulty=np.ones(len(numbers)),
                group=numbers,
                id=np.array([f"test-{i}" for i in numbers]),
                input=np.array([""] * len(numbers)),
            )
        }


def run(repeats: int = REPEATS) -> list[dict[str, Any]]:
    """Four rows; each is the median of the ratios of runs that stood side by side."""
    model = _model()
    work, threshold = _chosen(model)
    rule = live_rule(model, "logit_margin", threshold)
    never = live_rule(model, "logit_margin", np.inf)
    depth = run_live(model, work, rule, batch_tokens=BATCH * LENGTH).exit_depth
    counts = np.bincount(depth, minlength=LOOPS + 1)[1:]
    if tuple(counts) != EXITS:
        raise SystemExit(f"exits by loop are {counts.tolist()}, not {EXITS}")
    sides: dict[str, Callable[[], Any]] = {
        "live": lambda: run_live(model, work, rule, batch_tokens=BATCH * LENGTH),
        "full": lambda: full_depth(model, work),
        "full-live": lambda: run_live(model, work, never, batch_tokens=BATCH * LENGTH),
        "select": lambda: run_all_then_select(model, work, threshold),
        "slowest": lambda: slowest_of_batch(model, work, threshold),
    }
    ideal = LOOPS / depth.mean()
    pairs = {
        "live/share-of-ideal": ("full", "live"),
        "live/full-depth": ("full-live", "full"),
        "live/run-all-then-select": ("select", "live"),
        "live/slowest-of-batch": ("slowest", "live"),
    }
    values = {
        name: _ratio(sides[over], sides[under], repeats) for name, (over, under) in pairs.items()
    }
    values["live/share-of-ideal"] /= ideal
    return [_row(name, float(value), BARS[name]) for name, value in values.items()]


def _ratio(over: Callable[[], Any], under: Callable[[], Any], repeats: int) -> float:
    """The time of one over another's, which ran before and after it: a machine's speed wanders."""
    seconds = []
    for side in (over, under, *[over, under] * repeats):
        began = time.perf_counter()
        side()
        seconds.append(time.perf_counter() - began)
    # the first of all is warm-up
    flanked = zip(seconds[1::2], seconds[2::2], seconds[3::2], strict=False)
    return statistics.median(2 * x / (before + after) for before, x, after in flanked)


def _row(name: str, value: float, bar: float) -> dict[str, Any]:
    holds = value <= bar if name == "live/full-depth" else value >= bar
    return {"name": name, "value": value, "unit": "ratio", "bar": bar, "holds": holds}


@torch.inference_mode()
def full_depth(model: LoopedModel, work: Work) -> list[Tensor]:
    """The predictions of the last loop: nothing is read before it."""
    found = []
    for state, at in _begun(model, work):
        for _ in range(LOOPS):
            state = model.step(state)
        found.append(logits(model, state, at).argmax(1))
    return found


@torch.inference_mode()
def run_all_then_select(model: LoopedModel, work: Work, threshold: float) -> list[Tensor]:
    """As Ouro's released code: all loops, then the prediction of the first that crosses."""
    found = []
    for state, at in _begun(model, work):
        every = []
        for _ in range(LOOPS):
            state = model.step(state)
            every.append(logits(model, state, at))
        crossed = torch.stack([_margin(z) >= threshold for z in every])
        crossed[-1] = True
        left = crossed.int().argmax(0)
        found.append(torch.stack(every)[left, torch.arange(len(left))].argmax(1))
    return found


@torch.inference_mode()
def slowest_of_batch(model: LoopedModel, work: Work, threshold: float) -> list[Tensor]:
    """As Huginn's: a batch stops once its last row has crossed."""
    found = []
    for state, at in _begun(model, work):
        prediction, left = None, torch.zeros(len(at[0]), dtype=torch.bool)
        for _ in range(LOOPS):
            state = model.step(state)
            z = logits(model, state, at)
            top = z.argmax(1)
            prediction = top if prediction is None else torch.where(left, prediction, top)
            left |= _margin(z) >= threshold
            if left.all():
                break
        assert prediction is not None
        found.append(prediction)
    return found


def _begun(model: LoopedModel, work: Work) -> Any:
    """Every batch's state 0 and the places of its decisions."""
    ones = np.ones(len(work), int)
    for units in batches(work.unit_length, ones, TokenBudget(BATCH * LENGTH), pads=True):
        batch = batch_of(work, units)
        at = torch.arange(len(units)), torch.from_numpy(work.at[batch.rows])
        yield model.begin(batch.input_ids, batch.attention_mask), at


def _margin(z: Tensor) -> Tensor:
    first, second = z.topk(2, dim=1).values.unbind(1)
    return first - second


@torch.inference_mode()
def _chosen(model: LoopedModel) -> tuple[Work, float]:
    """Inputs whose margin first crosses the threshold at each loop as often as EXITS says."""
    rng = np.random.default_rng(0)
    wanted, threshold = np.array(EXITS), None
    inputs: list[np.ndarray] = []
    while wanted.any():
        drawn = rng.integers(0, VOCABULARY, (BATCH, LENGTH), np.int32)
        work = example_work(Prompts(drawn), inputs=False)
        margins = []
        for state, at in _begun(model, work):
            for _ in range(LOOPS):
                state = model.step(state)
                margins.append(_margin(logits(model, state, at)).numpy())
        margin = np.stack(margins, 1)
        if threshold is None:
            # about half of what is random crosses at any loop
            threshold = float(np.quantile(margin, 0.55))
        sure = (np.abs(margin - threshold) > NEAR).all(1)
        crossed = margin >= threshold
        crossed[:, -1] = True
        for loop in range(LOOPS):
            found = np.flatnonzero(sure & (crossed.argmax(1) == loop))[: wanted[loop]]
            inputs.append(drawn[found])
            wanted[loop] -= len(found)
    assert threshold is not None
    chosen = np.concatenate(inputs)
    return example_work(Prompts(rng.permutation(chosen)), inputs=False), threshold


def _model() -> LoopedModel:
    config = OuroConfig.from_sizes(
        vocab_size=VOCABULARY, d_model=512, layers=4, heads=8, loops=LOOPS, gate="none"
    )
    record = ModelRecord(
        name="random", family="ouro", source="local", revision=None, config={}, sha256="0" * 64
    )
    return OuroModel(create_model(config, 0), record)
