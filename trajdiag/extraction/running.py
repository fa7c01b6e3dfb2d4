"""Running the blocks of a store that are still to be made."""

import dataclasses
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from trajdiag.errors import ConfigError
from trajdiag.extraction.batching import TokenBudget, batches
from trajdiag.extraction.forward import LoopReadings, Reading, run_loops, trajectories
from trajdiag.extraction.work import Work
from trajdiag.models.base import LoopedModel
from trajdiag.models.checked import Checked
from trajdiag.progress import Progress
from trajdiag.store.recorder import Recorder
from trajdiag.store.writer import StoreWriter

Written = Callable[[int], None]
"""Called with the number of a block once it is durable."""

WAITING = 2
"""Batches held between the model and the recorder."""


def probe(model: LoopedModel, work: Work, reading: Reading) -> None:
    """Run the shortest unit through one loop, so that a model that answers wrongly is met before
    anything is written. Raises ConfigError where it does."""
    unit = np.array([work.unit_length.argmin()])
    first = int(work.unit_examples[unit[0]])
    examples = range(first, first + 1)
    reading = dataclasses.replace(reading, loops=1)
    model, rows = Checked(model), TokenBudget(1)
    with torch.inference_mode():
        for read in _within_memory(model, work, unit, examples, reading, rows, lambda line: None):
            for _ in trajectories(model, work, read, reading, block=0, first=first):
                pass


def run(
    model: LoopedModel,
    work: Work,
    writer: StoreWriter,
    reading: Reading,
    batch_tokens: int,
    progress: Progress,
    written: Written | None = None,
) -> None:
    """Compute and write the pending blocks, each told to `written`, else in a line of progress."""
    pending = writer.pending
    total = sum(len(writer.rows(block)) for block in pending)
    began, done = time.monotonic(), 0

    def say(block: int) -> None:
        nonlocal done
        done += len(writer.rows(block))
        speed = done / (time.monotonic() - began)
        left = (total - done) / speed
        progress(f"{done:,} of {total:,} examples, {speed:,.0f}/s, {left:.0f} s left")

    model = Checked(model)
    budget = TokenBudget(batch_tokens)
    length, rows = work.unit_length, np.diff(work.unit_rows)
    pads = "right" in model.padding
    recorder = Recorder(writer, work.columns.id, waiting=WAITING, written=written or say)
    with torch.inference_mode(), recorder:
        for block in pending:
            examples = writer.rows(block)
            units = work.units(examples)
            for places in batches(length[units], rows[units], budget, pads=pads):
                for read in _within_memory(
                    model, work, units[places], examples, reading, budget, progress
                ):
                    for part in trajectories(
                        model, work, read, reading, block=block, first=examples.start
                    ):
                        recorder.put(part)


def _within_memory(
    model: LoopedModel,
    work: Work,
    units: np.ndarray,
    examples: range,
    reading: Reading,
    budget: TokenBudget,
    progress: Progress,
) -> Iterator[LoopReadings]:
    """`run_loops`, in two halves where the device runs out of memory, and so on."""
    try:
        read = run_loops(model, work, units, examples, reading)
    except torch.OutOfMemoryError:
        read = None  # outside the handler, where what the loops held is let go
    if read is not None:
        yield read
        return
    if model.device.type == "cuda":
        torch.cuda.empty_cache()
    rows, longest = int(np.diff(work.unit_rows)[units].sum()), int(work.unit_length[units].max())
    if len(units) == 1:
        raise ConfigError(
            f"{model.device} has not the memory for {rows} rows of {longest} tokens at once; use a "
            "larger device, or extract with --dtype bfloat16"
        )
    budget.halve(rows * longest)
    progress(f"{model.device} is out of memory: --batch-tokens {budget.tokens:,} from here on")
    for half in np.array_split(units, 2):
        yield from _within_memory(model, work, half, examples, reading, budget, progress)
