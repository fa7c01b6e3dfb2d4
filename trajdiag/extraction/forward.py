"""The only part of extraction that runs the model."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from trajdiag.models.base import LoopedModel
from trajdiag.models.base import logits as loop_logits
from trajdiag.store.recorder import Trajectories


def batches_by_length(length: np.ndarray, rows: Callable[[int], int]) -> Iterator[np.ndarray]:
    """Places [row] of equal `length` [example], shortest first, at most `rows(length)` at a time.

    Rows of one length need no padding, so that nothing is computed in vain, and families that
    honour no padding are served too.
    """
    for value in np.unique(length):
        places = np.flatnonzero(length == value)
        yield from np.array_split(places, -(-len(places) // rows(int(value))))


def trajectories(
    model: LoopedModel,
    input_ids: Tensor,
    class_ids: Tensor | None,
    loops: int,
    *,
    block: int,
    at: np.ndarray,
) -> Trajectories:
    """Every loop at the last position of `input_ids` [row, position]; `class_ids` int64 [class]
    picks the logits, None takes the whole vocabulary."""
    input_ids = input_ids.to(model.device)
    row = torch.arange(len(input_ids), device=model.device)
    last = row, torch.full_like(row, input_ids.shape[1] - 1)
    hidden, logits, gates = [], [], []
    state = model.begin(input_ids)
    for _ in range(loops):
        state = model.step(state)
        hidden.append(model.hidden(state, last))
        z = loop_logits(model, state, last)
        logits.append(z if class_ids is None else z.index_select(1, class_ids))
        gate = model.gate_logit(state, last)
        if gate is not None:
            gates.append(gate)
    return Trajectories(
        block=block,
        at=at,
        hidden=hidden,
        logits=logits,
        gate_logit=gates if model.has_gate else None,
    )
