"""What it costs to keep everything: extraction with a durable store over the bare forward."""

import dataclasses
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch

from trajdiag.errors import UnknownNameError
from trajdiag.extraction import ExtractConfig, extract
from trajdiag.extraction.batching import TokenBudget, batch_of, batches
from trajdiag.extraction.examples import example_work
from trajdiag.models.base import LoopedModel, ModelRecord, logits
from trajdiag.models.config import OuroConfig
from trajdiag.models.ouro import OuroModel
from trajdiag.models.registry import create_model, load_model
from trajdiag.store.reader import Store
from trajdiag.tasks.base import Examples, Task
from trajdiag.tasks.registry import make_task

BAR = 1.10
REPEATS = 10
SHIPPED = "mano-fixed-geometric"


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A task whose examples are drawn already: neither side is charged for them."""

    task: Task

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    @cached_property
    def _examples(self) -> dict[str, Examples]:
        return self.task.examples()

    def examples(self) -> dict[str, Examples]:
        return self._examples


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prompts:
    """Random prompts of one length, all for test; the classes are the whole vocabulary."""

    prompts: int
    length: int
    vocab_size: int

    name = "prompts"
    class_ids = None
    class_names = None

    def parameters(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def examples(self) -> dict[str, Examples]:
        rng = np.random.default_rng(0)
        numbers = np.arange(self.prompts)
        return {
            "test": Examples(
                input_ids=rng.integers(0, self.vocab_size, (self.prompts, self.length), np.int32),
                length=np.full(self.prompts, self.length, np.int32),
                target=rng.integers(0, self.vocab_size, self.prompts),
                difficulty=np.ones(self.prompts),
                group=numbers,
                id=np.array([f"test-{i}" for i in numbers]),
                input=np.array([""] * self.prompts),
            )
        }

    def notes(self) -> dict[str, Any]:
        return {}


def run(repeats: int = REPEATS) -> list[dict[str, Any]]:
    """Both rows: extraction's time over the bare forward's, median of the ratios of pairs."""
    mano = Drawn(make_task("mano", fit=25_000, val=10_000, test=15_000))
    rows = [("extract-mano", _mano_model(), mano)]
    rows.append(("extract-ouro", _ouro_model(), Prompts(prompts=32, length=128, vocab_size=49152)))
    return [_row(name, model, task, repeats) for name, model, task in rows]


def _row(name: str, model: LoopedModel, task: Task, repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        fresh = itertools.count()

        def with_store() -> Store:
            return extract(model, task, cache_dir=f"{cache}/{next(fresh)}")

        block = with_store().block_examples
        sides: tuple[Callable[[], Any], ...] = (
            lambda: bare_forward(model, task, block),
            with_store,
        )
        seconds: list[list[float]] = [[], []]
        for repeat in range(repeats):
            for which in (0, 1) if repeat % 2 else (1, 0):
                began = time.perf_counter()
                sides[which]()
                seconds[which].append(time.perf_counter() - began)
    # each pair ran back to back, either side first, so that a machine that slows down slows both
    value = statistics.median(stored / bare for bare, stored in zip(*seconds, strict=True))
    return {"name": name, "value": value, "unit": "ratio", "bar": BAR, "holds": value <= BAR}


def bare_forward(model: LoopedModel, task: Task, block: int) -> None:
    """The logits of every loop at every decision, on extraction's own batches, kept nowhere."""
    work = example_work(task, inputs=False)
    budget = TokenBudget(ExtractConfig(model="").batch_tokens)
    length, ones = work.unit_length, np.ones(len(work), int)
    with torch.inference_mode():
        for start in range(0, len(work), block):
            units = work.units(range(start, min(start + block, len(work))))
            for places in batches(length[units], ones[units], budget, pads=True):
                batch = batch_of(work, units[places])
                row = torch.arange(len(batch.rows))
                last = row, torch.from_numpy(work.at[batch.rows])
                state = model.begin(batch.input_ids, batch.attention_mask)
                for _ in range(model.loops):
                    state = model.step(state)
                    logits(model, state, last)


def _mano_model() -> LoopedModel:
    try:
        return load_model(SHIPPED, device="cpu")
    except UnknownNameError:
        config = OuroConfig.from_sizes(
            vocab_size=13, d_model=64, layers=1, heads=4, loops=5, gate="none"
        )
        return _random_model(config)


def _ouro_model() -> LoopedModel:
    config = OuroConfig.from_sizes(
        vocab_size=49152, d_model=1024, layers=8, heads=16, loops=4, feed_forward=2816
    )
    return _random_model(config, torch.bfloat16)


def _random_model(config: OuroConfig, dtype: torch.dtype = torch.float32) -> LoopedModel:
    record = ModelRecord(
        name="random", family="ouro", source="local", revision=None, config={}, sha256="0" * 64
    )
    return OuroModel(create_model(config, 0).to(dtype), record)
