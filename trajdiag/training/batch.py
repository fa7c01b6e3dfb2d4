"""One training step's rows as tensors, and the decisions that are asked for along them."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trajdiag.tasks.base import IGNORE, TrainingGroup


@dataclass(frozen=True, kw_only=True)
class TrainingBatch:
    """Rows packed group after group; a token is counted over all groups."""

    groups: list[Tensor]
    """int64 [row, position] each."""
    read_at: Tensor
    """int64 [decision]: the tokens whose next is asked for; the rows' answers first, then dense
    labels."""
    target: Tensor
    """int64 [decision]: the token asked for."""
    rows: int
    """The number of answers."""
    difficulty: Tensor
    """int64 [row]."""


def pack(
    groups: list[TrainingGroup], class_ids: np.ndarray | None, dense: bool, device: torch.device
) -> TrainingBatch:
    """Tensors of `groups` on `device`; `class_ids` int64 [class] gives the classes' tokens."""
    groups = [group for group in groups if len(group.target)]
    tokens = [group.input_ids.size for group in groups]
    offsets = np.cumsum([0, *tokens])
    last = [
        offset + np.arange(1, len(group.target) + 1) * group.input_ids.shape[1] - 1
        for offset, group in zip(offsets, groups, strict=False)
    ]
    read_at = np.concatenate(last)
    target = np.concatenate([group.target for group in groups])
    rows = len(target)
    if dense:
        label = np.concatenate([group.dense.reshape(-1) for group in groups])
        labelled = np.flatnonzero(label != IGNORE)
        read_at = np.concatenate([read_at, labelled])
        target = np.concatenate([target, label[labelled]])
    if class_ids is not None:
        target = class_ids[target]
    return TrainingBatch(
        groups=[torch.from_numpy(group.input_ids).to(device) for group in groups],
        read_at=torch.from_numpy(read_at).to(device),
        target=torch.from_numpy(target).to(device),
        rows=rows,
        difficulty=torch.from_numpy(
            np.repeat([group.difficulty for group in groups], [len(g.target) for g in groups])
        ).to(device),
    )
