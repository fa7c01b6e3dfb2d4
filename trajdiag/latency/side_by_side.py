"""Full depth, live exits, and fixed depths with and without reading: everything timed in turn."""

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from trajdiag.errors import ConfigError
from trajdiag.extraction.work import Work
from trajdiag.latency.agreement import Offline
from trajdiag.latency.chosen import Chosen
from trajdiag.latency.flops import count_flops
from trajdiag.latency.full_depth import run_full_depth
from trajdiag.latency.measured import CostRuns, Measured
from trajdiag.latency.reopening import Reopened
from trajdiag.latency.rule import LiveRule, live_rule
from trajdiag.latency.runner import LiveRun, run_live
from trajdiag.latency.timing import timed
from trajdiag.models.base import LoopedModel
from trajdiag.progress import Progress
from trajdiag.readout_registry import FIXED

DEPTHS = 6
"""Depths at which the cost of loops and readings is measured, at most."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """Examples, and how many go through the model together."""

    batch: str
    """`batched` or `one`."""
    work: Work
    examples: NDArray[np.int64]
    """[example]: their numbers in the store."""
    batch_tokens: int


def measure_side(
    again: Reopened,
    side: Side,
    chosen: Sequence[Chosen],
    offline: Sequence[Offline],
    repeats: int,
    progress: Progress,
) -> list[Measured]:
    """Every readout of `chosen`, of which `offline` is what the store says of the examples."""
    model, loops = again.model, again.loops

    def full(on: LoopedModel) -> NDArray[np.int64]:
        return run_full_depth(on, side.work, loops, batch_tokens=side.batch_tokens)

    def live(on: LoopedModel, rule: LiveRule) -> LiveRun:
        return run_live(
            on, side.work, rule, batch_tokens=side.batch_tokens, state_pool=again.state_pool
        )

    rules = [each.rule(model, loops) for each in chosen]
    fixed = {t: live_rule(model, FIXED, float("nan"), loops=t) for t in _depths(loops)}
    reading = [
        {t: rule for t in fixed if readings_by(rule := _never_crossed(each.rule(model, t)), t)}
        for each in chosen
    ]
    runs: dict[tuple[str, int, int], Callable[[], object]] = {}

    def add(what: str, number: int, depth: int, rule: LiveRule) -> None:
        runs[what, number, depth] = lambda: live(model, rule)

    with memory_for(side, model.device):
        found, full_prediction = [live(model, rule) for rule in rules], full(model)
        full_flops, _ = count_flops(model, full)
        live_flops = [count_flops(model, lambda on, rule=rule: live(on, rule))[0] for rule in rules]
        runs["full", 0, loops] = lambda: full(model)
        for number, rule in enumerate(rules):
            add("live", number, loops, rule)
        for depth, rule in fixed.items():
            add("fixed", 0, depth, rule)
        for number, of_readout in enumerate(reading):
            for depth, rule in of_readout.items():
                add("reading", number, depth, rule)
        seconds = timed(runs, repeats, model.device, progress)
    for each, run in zip(chosen, found, strict=True):
        if run.batch_tokens < side.batch_tokens:
            progress(
                f"{each.readout.name}: {model.device} is out of memory, live batches hold "
                f"{run.batch_tokens:,} tokens, those of full depth {side.batch_tokens:,}"
            )
    of_example = {key: values / len(side.work) for key, values in seconds.items()}
    measured = []
    for number, (each, rule, of_readout) in enumerate(zip(chosen, rules, reading, strict=True)):
        keys = [("fixed", 0, t) for t in fixed] + [("reading", number, t) for t in of_readout]
        measured.append(
            Measured(
                chosen=each,
                batch=side.batch,
                loops=loops,
                live=found[number],
                offline=offline[number],
                full_prediction=full_prediction,
                readings=float(readings_by(rule, found[number].exit_depth).mean()),
                token_depth=token_depth(side.work, found[number].exit_depth),
                full_flops=full_flops,
                live_flops=live_flops[number],
                full_seconds=of_example["full", 0, loops],
                live_seconds=of_example["live", number, loops],
                cost_runs=CostRuns(
                    loops=np.array([t for _, _, t in keys]),
                    readings=np.array(
                        [0] * len(fixed) + [int(readings_by(r, t)) for t, r in of_readout.items()]
                    ),
                    seconds=np.array([of_example[key] for key in keys]),
                ),
            )
        )
    return measured


@contextmanager
def memory_for(side: Side, device: torch.device) -> Iterator[None]:
    """What is inside runs the batches of `side`; ConfigError where the device cannot hold them."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        longest = int(side.work.row_length.max())
        raise ConfigError(
            f"{device} has not the memory for full depth in batches of {side.batch_tokens:,} "
            "tokens; give fewer as --batch-tokens"
            if side.batch_tokens > longest
            else f"{device} has not the memory for full depth of one row of {longest:,} tokens; "
            "use a larger device, or extract with --dtype bfloat16"
        ) from error


def readings_by(rule: LiveRule, depth: NDArray[np.integer] | int) -> NDArray[np.int64]:
    """How many loops `rule` reads of an example that leaves at `depth` (of each, where they are
    several): the last loop is never read."""
    if rule.never_leaves:
        return np.zeros_like(depth, np.int64)
    last = np.minimum(depth, rule.loops - 1)
    return np.maximum(0, last - rule.meter.first_read + 1).astype(np.int64)


def token_depth(work: Work, depth: NDArray[np.integer]) -> float:
    """The loops that a token of `work` runs on average, where examples leave at `depth` [example]:
    all rows of a unit run until its last example has left."""
    of_unit = np.maximum.reduceat(depth, work.unit_examples[:-1])
    of_row = np.repeat(of_unit, np.diff(work.unit_rows))
    return float(np.average(of_row, weights=work.row_length))


def _never_crossed(rule: LiveRule) -> LiveRule:
    """The same rule, which reads all that it would and never leaves."""
    most = sys.float_info.max
    return dataclasses.replace(rule, threshold=most if rule.direction == "high" else -most)


def _depths(loops: int) -> list[int]:
    """Depths from 1 to T, evenly spaced."""
    return np.unique(np.linspace(1, loops, min(loops, DEPTHS)).round().astype(int)).tolist()
