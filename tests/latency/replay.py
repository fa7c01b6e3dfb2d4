"""Stores, and the work that they were made of: what is run live has an answer offline."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.looped import Letters
from trajdiag.extraction import extract
from trajdiag.extraction.config import Pool
from trajdiag.extraction.documents import document_work
from trajdiag.extraction.encoder import Encoder
from trajdiag.extraction.examples import example_work
from trajdiag.extraction.prompts import LengthRule
from trajdiag.extraction.questions import question_work
from trajdiag.extraction.work import Work
from trajdiag.latency.rule import live_rule
from trajdiag.latency.runner import LiveRun, run_live
from trajdiag.metrics.frontier import exit_depth
from trajdiag.models.base import LoopedModel
from trajdiag.readout import Readout
from trajdiag.store.reader import Store

LOOPS, BATCH_TOKENS = 6, 90


@dataclass(frozen=True)
class Frozen:
    """A model, some work, and the store of the one's trajectories on the other."""

    model: LoopedModel
    work: Work
    store: Store
    loops: int = LOOPS
    batch_tokens: int = BATCH_TOKENS

    def offline(self, readout: Readout, threshold: float, min_depth: int = 1) -> np.ndarray:
        """The exit depths by the store, [example]."""
        values = readout.values(self.store, None)
        first = max(readout.first_loop, min_depth)
        return exit_depth(values, threshold, readout.direction, first)

    def live(self, readout: Readout, threshold: float, min_depth: int = 1, **how: Any) -> LiveRun:
        named = readout.name if readout.gate is None else readout.gate
        rule = live_rule(self.model, named, threshold, min_depth=min_depth, loops=self.loops)
        return run_live(self.model, self.work, rule, batch_tokens=self.batch_tokens, **how)

    def predicted(self, depth: np.ndarray) -> np.ndarray:
        """The store's predictions at these depths, [example]."""
        return self.store.predictions()[np.arange(len(depth)), depth - 1]


def frozen(
    model: LoopedModel,
    task: Any,
    work: Work,
    path: Path,
    loops: int = LOOPS,
    batch_tokens: int = BATCH_TOKENS,
    pool: Pool = "last",
) -> Frozen:
    store = extract(model, task, store=str(path), batch_tokens=batch_tokens, loops=loops, pool=pool)
    return Frozen(model, work, store, loops, batch_tokens)


def letters(
    model: LoopedModel,
    path: Path,
    loops: int = LOOPS,
    batch_tokens: int = BATCH_TOKENS,
    pool: Pool = "last",
    **sizes: int,
) -> Frozen:
    """Examples of one row each, of mixed lengths."""
    task = Letters(**({"fit": 24, "val": 10, "test": 14} | sizes))
    work = example_work(task, inputs=False)
    return frozen(model, task, work, path, loops, batch_tokens, pool)


def questions(model: LoopedModel, path: Path, **how: Any) -> Frozen:
    """Questions with 2 to 5 choices: a row each, or one for all."""
    from tests.extraction.test_questions import Quiz

    task = Quiz(**how)
    encode = Encoder(model.tokenizer, model.vocab_size)
    rule = LengthRule(longest=model.max_positions, rule="refuse")
    return frozen(model, task, question_work(task, encode, rule, inputs=False), path, 4)


def documents(model: LoopedModel, path: Path) -> Frozen:
    """Documents, every token of which is an example."""
    from tests.extraction.test_documents import Notes

    encode = Encoder(model.tokenizer, model.vocab_size)
    return frozen(model, Notes(), document_work(Notes(), encode, 512, inputs=False), path, 4)


def thresholds(readout: Readout, store: Store, seed: int = 0) -> list[float]:
    """Some between observed values, some that are observed, one that nothing and one that
    everything crosses."""
    values = readout.values(store, None)[:, readout.first_loop - 1 : -1].astype(np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return [np.nan]
    rng = np.random.default_rng(seed)
    between = np.quantile(values, [0.3, 0.7])
    return [*between.tolist(), *rng.choice(values, 3).tolist(), np.nan, np.inf, -np.inf]
