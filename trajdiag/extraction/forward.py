"""The only part of extraction that runs the model."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trajdiag.extraction.batching import batch_of
from trajdiag.extraction.config import Pool
from trajdiag.extraction.decisions import (
    HEAD_NUMBERS,
    Decisions,
    continuation_scores,
    spans_of,
)
from trajdiag.extraction.work import Continuations, Work, ranges
from trajdiag.models.base import LoopedModel, Positions
from trajdiag.store.recorder import Trajectories
from trajdiag.store.schema import CONTINUATION_GATE, GATE


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is read of every loop."""

    loops: int
    pool: Pool
    """Whether the state is that of the last token before the decision, or the mean up to it."""
    vocabulary: str | None
    """Which logits of the vocabulary are kept: see `vocabulary_arrays`."""
    most: int
    """Examples whose logits over the vocabulary fit in memory, all loops of them."""


@dataclass(frozen=True, kw_only=True)
class LoopReadings:
    """What the loops of a batch left, one tensor a loop."""

    numbers: np.ndarray
    """int64 [example]: the examples that were read."""
    loops: dict[str, list[Tensor]]
    """States and gates [example, ...] by array."""
    decision: list[Tensor]
    """What the head reads at each decision, [example, width]."""
    scores: list[dict[str, Tensor]]
    """Scores of the continuations, [example, class]; empty without."""


def run_loops(
    model: LoopedModel, work: Work, units: np.ndarray, examples: range, reading: Reading
) -> LoopReadings:
    """Run ascending `units` together and read those of their examples that are in `examples`."""
    numbers = ranges(work.unit_examples[units], work.unit_examples[units + 1])
    numbers = numbers[(numbers >= examples.start) & (numbers < examples.stop)]
    batch, count = batch_of(work, units), len(numbers)
    row = torch.from_numpy(np.searchsorted(batch.rows, work.row[numbers])).to(model.device)
    at = row, torch.from_numpy(work.at[numbers]).to(model.device)
    spans, places, classes = None, at, 0
    if isinstance(work.decision, Continuations):
        spans = spans_of(work.decision, numbers, batch.rows, model.device)
        classes = work.decision.entry.shape[1]
        # one call a loop: what follows the loop may have to run over whole rows for it
        places = torch.cat([at[0], spans.places[0]]), torch.cat([at[1], spans.places[1]])
    loops: dict[str, list[Tensor]] = defaultdict(list)
    decision, scores = [], []
    mask = None if batch.attention_mask is None else batch.attention_mask.to(model.device)
    state = model.begin(batch.input_ids.to(model.device), mask)
    for _ in range(reading.loops):
        state = model.step(state)
        loops["hidden"].append(_pooled(model, state, at, reading.pool))
        inputs = model.head_input(state, places)
        decision.append(inputs[:count])
        gate = model.gate_logit(state, places) if model.has_gate else None
        if gate is not None:
            loops[GATE].append(gate[:count])
        if spans is not None:
            scores.append(continuation_scores(model, inputs[count:], spans, count, classes))
            if gate is not None:
                of_example = spans.example[spans.entry]
                loops[CONTINUATION_GATE].append(_mean_by(gate[count:], of_example, count))
    return LoopReadings(numbers=numbers, loops=loops, decision=decision, scores=scores)


def trajectories(
    model: LoopedModel,
    work: Work,
    read: LoopReadings,
    reading: Reading,
    *,
    block: int,
    first: int,
) -> Iterator[Trajectories]:
    """What was read, with all that the head makes of it; at once unless its logits would take too
    much memory. `first` is the block's first example."""
    decisions = Decisions(model=model, work=work, vocabulary=reading.vocabulary)
    most = reading.most if decisions.holds_vocabulary else HEAD_NUMBERS // model.vocab_size
    for start in range(0, len(read.numbers), max(1, most)):
        piece = slice(start, start + max(1, most))
        loops = {name: [x[piece] for x in values] for name, values in read.loops.items()}
        scores = [{name: x[piece] for name, x in found.items()} for found in read.scores]
        inputs = [x[piece] for x in read.decision]
        for found in decisions.read(read.numbers[piece], inputs, scores):
            for name, values in found.items():
                loops.setdefault(name, []).append(values)
        yield Trajectories(block=block, at=read.numbers[piece] - first, loops=_home(loops))


def _pooled(model: LoopedModel, state: Any, at: Positions, pool: Pool) -> Tensor:
    """[example, d_model] in the model's dtype: the state at `at`, or the mean up to there."""
    if pool == "last":
        return model.hidden(state, at)
    row, position = at
    everywhere = model.hidden(state)
    places = zip(row.tolist(), position.tolist(), strict=True)
    means = [everywhere[r, : p + 1].mean(0, dtype=torch.float32) for r, p in places]
    return torch.stack(means).to(everywhere.dtype)


def _mean_by(values: Tensor, example: Tensor, count: int) -> Tensor:
    """The mean of `values` [read] by `example` [read]: [count]."""
    total = values.new_zeros(count).index_add_(0, example, values)
    reads = values.new_zeros(count).index_add_(0, example, torch.ones_like(values))
    return total / reads


def _home(loops: dict[str, list[Tensor]]) -> dict[str, list[Tensor]]:
    """On a device without float64 the books are kept on the CPU."""
    if loops["hidden"][0].device.type != "mps":
        return loops
    return {name: [x.cpu() for x in values] for name, values in loops.items()}
