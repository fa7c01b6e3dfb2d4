"""A batch of tokens as a model is given it: checked, with its mask and its positions filled in."""

from dataclasses import dataclass

import torch
from torch import Tensor

from trajdiag.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """A batch on the model's device; what is real is always said."""

    input_ids: Tensor
    """int64 [row, position]."""
    real: Tensor
    """bool [row, position]: False on padding."""
    position_ids: Tensor
    """int64 [row, position]."""


def checked_inputs(
    input_ids: Tensor,
    attention_mask: Tensor | None,
    position_ids: Tensor | None,
    *,
    name: str,
    vocab_size: int,
    device: torch.device,
) -> Inputs:
    """The arguments of LoopedModel.begin, with its defaults; `name` is the model's, for messages.

    Raises ConfigError for what is not [row, position] and for ids outside the vocabulary.
    """
    if input_ids.ndim != 2 or not input_ids.numel() or input_ids.is_floating_point():
        raise ConfigError(
            f"input_ids must be whole numbers [row, position] with at least one of each, not "
            f"{input_ids.dtype} {list(input_ids.shape)}"
        )
    for what, other in (("attention_mask", attention_mask), ("position_ids", position_ids)):
        if other is not None and other.shape != input_ids.shape:
            raise ConfigError(
                f"{what} must have the shape of input_ids, {list(input_ids.shape)}, not "
                f"{list(other.shape)}"
            )
    low, high = (int(extreme) for extreme in input_ids.aminmax())
    if low < 0 or high >= vocab_size:
        raise ConfigError(
            f"input_ids run from {low} to {high}, but {name} has a vocabulary of {vocab_size} "
            f"(0 to {vocab_size - 1})"
        )
    real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    real = real.to(device).bool()
    if position_ids is None:
        position_ids = (real.long().cumsum(-1) - 1).clamp_(min=0)
    return Inputs(
        input_ids=input_ids.to(device).long(),
        real=real,
        position_ids=position_ids.to(device).long(),
    )
