"""The looped-model protocol: all that extraction, tracing, training and latency know of a model.

A looped model maps tokens to state_0, state_{t-1} to state_t by one shared block, and state_t to a
hidden vector, to logits and, where it has one, to a halting-gate logit. Loops are counted from 1.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

State = Any
"""One batch between two loops. Opaque to callers: a family keeps in it what the next loop needs."""


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    """What a store remembers of the model that made it."""

    name: str
    family: str
    source: str
    """Where the weights came from: `shipped`, `cache`, `local` or a hub id; never a path."""
    revision: str | None
    config: dict[str, Any]
    sha256: str
    """SHA-256 of the weights: over the tensors' names, dtypes, shapes and bytes, in name order."""


@runtime_checkable
class LoopedModel(Protocol):
    """One batch's life: `state = begin(...)`, then `state = step(state)` per loop, read between.

    Every reader takes `at`: None reads all positions, giving [row, position, ...]; an int64 tensor
    [row] reads one position of each row, giving [row, ...]. All run under the caller's grad mode.
    """

    record: ModelRecord
    loops: int
    """The number of loops T that the model was trained with."""
    d_model: int
    vocab_size: int
    has_gate: bool
    padding: frozenset[str]
    """The sides, of {"left", "right"}, on which padding leaves other positions unchanged."""
    device: torch.device
    dtype: torch.dtype
    """The dtype of the states."""

    def begin(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> State:
        """state_0 of `input_ids` int64 [row, position].

        `attention_mask` is 1 on real tokens, and None means that all are real; `position_ids`
        default to the count of real tokens before each.
        """
        ...

    def step(self, state: State) -> State:
        """The next loop's state."""
        ...

    def hidden(self, state: State, at: Tensor | None = None) -> Tensor:
        """The state that is read out, in `dtype`: [row, position, d_model] or [row, d_model]."""
        ...

    def logits(self, state: State, at: Tensor | None = None) -> Tensor:
        """float32 logits over the vocabulary: [row, position, vocab] or [row, vocab]."""
        ...

    def gate_logit(self, state: State, at: Tensor | None = None) -> Tensor | None:
        """float32 logit of the halting hazard, [row, position] or [row]; None without a gate."""
        ...


def take_positions(x: Tensor, at: Tensor | None) -> Tensor:
    """`x` [row, position, ...] at one position of each row, [row, ...]; all of it without `at`."""
    if at is None:
        return x
    return x[torch.arange(x.shape[0], device=x.device), at]
