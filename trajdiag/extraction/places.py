"""Where a batch is read after a loop, and the reading: extraction and live exits share it."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trajdiag.extraction.config import Pool
from trajdiag.extraction.decisions import Decisions, Spans, continuation_scores, spans_of
from trajdiag.extraction.work import Continuations, Work, found_in
from trajdiag.models.base import LoopedModel, Positions, State
from trajdiag.store.schema import CONTINUATION_GATE, GATE


@dataclass(frozen=True, kw_only=True)
class HeadInputs:
    """What the head reads of one loop."""

    decision: Tensor
    """[example, width]."""
    scores: list[dict[str, Tensor]]
    """One: the scores of the continuations, [example, class]; none without."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """The places of some examples in a batch; what is read there after a loop."""

    work: Work
    numbers: np.ndarray
    """int64 [example]: their numbers in the work."""
    at: Positions
    """[example] each: where the decision is read."""
    spans: Spans | None
    """Where the continuations are; None without."""

    def states(self, model: LoopedModel, state: State, pool: Pool) -> Tensor:
        """[example, d_model] in the model's dtype: the state at the decision, or the mean up to
        there."""
        if pool == "last":
            return model.hidden(state, self.at)
        row, position = self.at
        everywhere = model.hidden(state)
        places = zip(row.tolist(), position.tolist(), strict=True)
        means = [everywhere[r, : p + 1].mean(0, dtype=torch.float32) for r, p in places]
        return torch.stack(means).to(everywhere.dtype)

    def head_inputs(self, model: LoopedModel, state: State) -> HeadInputs:
        """What the head reads, and what it makes of the continuations."""
        inputs, count = model.head_input(state, self._everywhere), len(self.numbers)
        scores = []
        if self.spans is not None:
            assert isinstance(self.work.decision, Continuations)
            classes = self.work.decision.entry.shape[1]
            scores.append(continuation_scores(model, inputs[count:], self.spans, count, classes))
        return HeadInputs(decision=inputs[:count], scores=scores)

    def gate_logits(self, model: LoopedModel, state: State) -> dict[str, Tensor]:
        """The logits of the model's own gate, [example], by array; empty without a gate."""
        gate = model.gate_logit(state, self._everywhere) if model.has_gate else None
        if gate is None:
            return {}
        count = len(self.numbers)
        found = {GATE: gate[:count]}
        if self.spans is not None:
            of_example = self.spans.example[self.spans.entry]
            found[CONTINUATION_GATE] = _mean_by(gate[count:], of_example, count)
        return found

    def task_logits(self, model: LoopedModel, state: State) -> Tensor:
        """What a store keeps as `logits`: float32 [example, class]."""
        read = self.head_inputs(model, state)
        decisions = Decisions(model=model, work=self.work, vocabulary=None)
        (found,) = decisions.read(self.numbers, [read.decision], read.scores)
        return found["logits"]

    @property
    def _everywhere(self) -> Positions:
        """The decisions', then the continuations': one call a loop, since what follows the loop may
        have to run over whole rows for it."""
        if self.spans is None:
            return self.at
        row, position = self.spans.places
        return torch.cat([self.at[0], row]), torch.cat([self.at[1], position])


def places_of(work: Work, numbers: np.ndarray, rows: np.ndarray, device: torch.device) -> Places:
    """The places of the examples `numbers` in a batch of the work's `rows`, in any order."""
    spans = None
    if isinstance(work.decision, Continuations):
        spans = spans_of(work.decision, numbers, rows, device)
    row = torch.from_numpy(found_in(rows, work.row[numbers])).to(device)
    at = row, torch.from_numpy(work.at[numbers]).to(device)
    return Places(work=work, numbers=numbers, at=at, spans=spans)


def _mean_by(values: Tensor, example: Tensor, count: int) -> Tensor:
    """The mean of `values` [read] by `example` [read]: [count]."""
    total = values.new_zeros(count).index_add_(0, example, values)
    reads = values.new_zeros(count).index_add_(0, example, torch.ones_like(values))
    return total / reads
