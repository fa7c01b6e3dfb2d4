"""From what the head reads, loop by loop, to what a store keeps of a decision: task logits, scores
of continuations, and the vocabulary's."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trajdiag.extraction import vocabulary
from trajdiag.extraction.work import Classes, Continuations, Letters, Work, found_in
from trajdiag.models.base import LoopedModel, Positions
from trajdiag.signals.padding import PADDED
from trajdiag.store.schema import SCORE, VOCABULARY, largest_kept

HEAD_NUMBERS = 2**26
"""Logits computed at a time where none of them need be kept."""


@dataclass(frozen=True, kw_only=True)
class Spans:
    """The places of a batch at which the tokens of its continuations are predicted."""

    places: Positions
    """[read] each."""
    token: Tensor
    """int64 [read]: the token that is scored there."""
    entry: Tensor
    """int64 [read]: the number of its continuation among the batch's."""
    example: Tensor
    """int64 [entry]: the example of the batch that it belongs to."""
    choice: Tensor
    """int64 [entry]."""
    length: Tensor
    """[entry]: tokens."""
    chars: Tensor
    """[entry]: characters."""


def spans_of(
    decision: Continuations, numbers: np.ndarray, rows: np.ndarray, device: torch.device
) -> Spans:
    """The spans of the examples `numbers`, of a batch of the work's `rows`."""
    example, choice = np.nonzero(decision.entry[numbers] >= 0)
    entries = decision.entry[numbers[example], choice]
    length = decision.length[entries]
    entry = np.repeat(np.arange(len(entries)), length)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(length) - length, length)
    row = found_in(rows, decision.row[entries])

    def on_device(values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(device)

    return Spans(
        places=(on_device(row[entry]), on_device(decision.at[entries][entry] + within)),
        token=on_device(decision.tokens[decision.start[entries][entry] + within].astype(np.int64)),
        entry=on_device(entry),
        example=on_device(example),
        choice=on_device(choice),
        length=on_device(length),
        chars=on_device(decision.chars[entries]),
    )


def continuation_scores(
    model: LoopedModel, inputs: Tensor, spans: Spans, examples: int, classes: int
) -> dict[str, Tensor]:
    """Every score of one loop's head inputs [read, width] at the spans: float32 [example, class],
    PADDED where an example has no such class."""
    exact = torch.float32 if inputs.device.type == "mps" else torch.float64
    total = inputs.new_zeros(len(spans.length), dtype=exact)
    step = max(1, HEAD_NUMBERS // model.vocab_size)
    for start in range(0, len(inputs), step):
        z = model.head(inputs[start : start + step])
        token, entry = spans.token[start : start + step], spans.entry[start : start + step]
        log_p = z.gather(1, token[:, None])[:, 0] - z.logsumexp(1)
        total.index_add_(0, entry, log_p.to(exact))
    by_score = {"sum": total, "tokens": total / spans.length, "chars": total / spans.chars}
    found = {}
    for name, values in by_score.items():
        table = values.new_full((examples, classes), PADDED, dtype=torch.float32)
        table[spans.example, spans.choice] = values.float()
        found[SCORE + name] = table
    return found


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """What every loop's head inputs become, for some examples of a piece of work."""

    model: LoopedModel
    work: Work
    vocabulary: str | None
    """Which logits of the vocabulary are kept: see `vocabulary_arrays`."""

    @property
    def holds_vocabulary(self) -> bool:
        """Whether all loops' logits over the vocabulary are held at once."""
        whole = isinstance(self.work.decision, Classes) and self.work.decision.ids is None
        return whole or self.vocabulary == "full"

    def read(
        self,
        numbers: np.ndarray,
        inputs: list[Tensor],
        scores: list[dict[str, Tensor]],
    ) -> Iterator[dict[str, Tensor]]:
        """Of each loop: by array, the values [example, ...] of the examples `numbers`, from the
        head's `inputs` [example, width] and the continuations' `scores` (none without)."""
        decision, device = self.work.decision, self.model.device
        target = torch.from_numpy(self.work.columns.target[numbers]).to(device)
        ids = self._class_ids(numbers)
        ids = None if ids is None else ids.to(device)
        if isinstance(decision, Continuations):
            for x, found in zip(inputs, scores, strict=True):
                found = {**found, "logits": found[SCORE + decision.scoring]}
                if self.vocabulary is not None:
                    found |= self._of_vocabulary(self.model.head(x), None)
                    of_target = found[SCORE + "sum"].gather(1, target[:, None])[:, 0]
                    found[VOCABULARY + "target_log_probability"] = of_target
                yield found
            return
        token = target if ids is None else ids.gather(1, target[:, None])[:, 0]
        for x in inputs:
            z = self.model.head(x)
            yield {"logits": _chosen(z, ids), **self._of_vocabulary(z, token)}

    def _class_ids(self, numbers: np.ndarray) -> Tensor | None:
        """The token of each class, int64 [example, class]; None for the whole vocabulary."""
        decision = self.work.decision
        if isinstance(decision, Letters):
            return torch.from_numpy(decision.ids[numbers])
        if isinstance(decision, Classes) and decision.ids is not None:
            return torch.from_numpy(decision.ids).expand(len(numbers), -1)
        return None

    def _of_vocabulary(self, z: Tensor, target: Tensor | None) -> dict[str, Tensor]:
        if self.vocabulary is None:
            return {}
        kept = vocabulary.statistics(z, target)
        kept |= vocabulary.largest(z, largest_kept(self.vocabulary, z.shape[1]))
        return {**kept, VOCABULARY + "logits": z} if self.vocabulary == "full" else kept


def _chosen(z: Tensor, ids: Tensor | None) -> Tensor:
    """The classes' logits of `z` [example, vocab]: [example, class]."""
    if ids is None:
        return z
    return z.gather(1, ids.clamp(min=0)).masked_fill(ids < 0, PADDED)
