"""The only part of extraction that runs the model."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from trajdiag.extraction.batching import Batch, batch_of
from trajdiag.extraction.config import Pool
from trajdiag.extraction.decisions import HEAD_NUMBERS, Decisions
from trajdiag.extraction.places import places_of
from trajdiag.extraction.work import Work
from trajdiag.models.base import LoopedModel, State
from trajdiag.store.recorder import Trajectories


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
    numbers = work.examples(units)
    numbers = numbers[(numbers >= examples.start) & (numbers < examples.stop)]
    batch = batch_of(work, units)
    places = places_of(work, numbers, batch.rows, model.device)
    loops: dict[str, list[Tensor]] = defaultdict(list)
    decision, scores = [], []
    state = begun(model, batch)
    for _ in range(reading.loops):
        state = model.step(state)
        loops["hidden"].append(places.states(model, state, reading.pool))
        read = places.head_inputs(model, state)
        decision.append(read.decision)
        scores += read.scores
        for name, values in places.gate_logits(model, state).items():
            loops[name].append(values)
    return LoopReadings(numbers=numbers, loops=loops, decision=decision, scores=scores)


def begun(model: LoopedModel, batch: Batch) -> State:
    """State 0 of a batch."""
    mask = None if batch.attention_mask is None else batch.attention_mask.to(model.device)
    return model.begin(batch.input_ids.to(model.device), mask)


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


def _home(loops: dict[str, list[Tensor]]) -> dict[str, list[Tensor]]:
    """On a device without float64 the books are kept on the CPU."""
    if loops["hidden"][0].device.type != "mps":
        return loops
    return {name: [x.cpu() for x in values] for name, values in loops.items()}
