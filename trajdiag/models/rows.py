"""Rows of several batches, put together."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Parts = Sequence[tuple[Any, Tensor]]
"""States, or what they are made of, and the rows wanted of each, int64 [row]."""


def gathered(parts: Parts, of: Callable[[Any], Tensor], axis: int = 0) -> Tensor:
    """The wanted rows of `of` each part, which stand along its `axis`, one part after the other.

    Each is copied once; without gradients.
    """
    tensors = [(of(state), rows) for state, rows in parts]
    first = tensors[0][0]
    shape = list(first.shape)
    shape[axis] = sum(len(rows) for _, rows in tensors)
    found, start = first.new_empty(shape), 0
    for tensor, rows in tensors:
        place = found.narrow(axis, start, len(rows))
        torch.index_select(tensor, axis, rows, out=place)
        start += len(rows)
    return found


def gathered_tokens(
    parts: Parts, of: Callable[[Any], Tensor], positions: int, axis: int = 0
) -> Tensor:
    """The same of tensors with tokens along that axis, so many positions a row."""

    def by_row(state: Any) -> Tensor:
        return of(state).unflatten(axis, (-1, positions))

    return gathered(parts, by_row, axis).flatten(axis, axis + 1)
