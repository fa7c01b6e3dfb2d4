"""Units of rows into batches: sorted by length within a window, so that little is padding."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trajdiag.extraction.work import Work, ranges

PADDING = 0.1
"""The share of its longest row that the padding of any row may take."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows that go through the model together."""

    input_ids: Tensor
    """int64 [row, position], right-padded with token 0."""
    attention_mask: Tensor | None
    """int64 [row, position], 1 on real tokens; None where all are real."""
    rows: np.ndarray
    """int64 [row]: their numbers in the work, ascending."""


class TokenBudget:
    """How many tokens a batch may hold; halved where the device runs out of memory."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def halve(self, held: int) -> None:
        """A batch of `held` tokens was too much."""
        self.tokens = max(1, min(self.tokens, held) // 2)


def batches(
    length: np.ndarray, rows: np.ndarray, budget: TokenBudget, *, pads: bool
) -> Iterator[np.ndarray]:
    """The places of units of `length` [unit] and `rows` [unit], in batches, longest first.

    A batch holds at most the budget's tokens, padding included; a unit that alone exceeds it is a
    batch. With `pads` rows of different lengths come together where PADDING allows; else never.
    """
    order = np.argsort(-length, kind="stable")
    lengths, counts = length[order].tolist(), rows[order].tolist()
    start, held = 0, 0
    for place, (unit_length, count) in enumerate(zip(lengths, counts, strict=True)):
        longest = lengths[start]
        shortest = (1 - PADDING) * longest if pads else longest
        full = (held + count) * longest > budget.tokens
        if place > start and (full or unit_length < shortest):
            yield np.sort(order[start:place])
            start, held = place, 0
        held += count
    if len(order):
        yield np.sort(order[start:])


def batch_of(work: Work, units: np.ndarray, positions: int | None = None) -> Batch:
    """The rows of ascending `units`, padded to so many positions, or to the longest's."""
    rows = ranges(work.unit_rows[units], work.unit_rows[units + 1])
    length = work.row_length[rows]
    position = np.arange(length.max() if positions is None else positions)
    real = position < length[:, None]
    place = np.minimum(work.row_start[rows][:, None] + position, len(work.tokens) - 1)
    input_ids = np.where(real, work.tokens[place], 0).astype(np.int64)
    mask = None if real.all() else torch.from_numpy(real.astype(np.int64))
    return Batch(input_ids=torch.from_numpy(input_ids), attention_mask=mask, rows=rows)
