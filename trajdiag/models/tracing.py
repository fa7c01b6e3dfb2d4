"""Everything a looped model computes for a batch: all loops at all positions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trajdiag.errors import ConfigError
from trajdiag.foreign import running
from trajdiag.models.base import FreeStart, LoopedModel, State
from trajdiag.models.base import logits as loop_logits
from trajdiag.models.checked import Checked
from trajdiag.models.config_keys import MOST_LOOPS, require_whole
from trajdiag.models.own import require_model

Tokens = Tensor | np.ndarray | Sequence[Sequence[int]] | Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The trajectory of a batch, on the model's device."""

    hidden: Tensor
    """[row, position, loop, d_model] in the model's dtype: the states that are read out."""
    logits: Tensor
    """float32 [row, position, loop, vocab]."""
    gate_logit: Tensor | None
    """float32 [row, position, loop]; None without a gate."""


def trace(
    model: LoopedModel,
    input_ids: Tokens,
    attention_mask: Tokens | None = None,
    loops: int | None = None,
    initial_state: Tensor | np.ndarray | None = None,
) -> Trace:
    """Run `input_ids` [row, position], or one row [position], through the loops, without gradients.

    `attention_mask` is 1 on real tokens and 0 on padding; what stands at padded positions means
    nothing. `loops` defaults to the model's T and may be lower or higher. `initial_state` [row,
    position, d_model] is state_0, for models whose state_0 is free. A Module of one's own is put in
    eval mode. All positions' logits are held at once: row x position x loop x vocab x 4 bytes.
    Raises ConfigError for inputs of a wrong shape, ids outside the vocabulary, padding on a side
    that the model does not honour, and for what is not a looped model.
    """
    model = require_model(model)
    checked = Checked(model)
    loops = model.loops if loops is None else loops
    require_whole("loops", loops, most=MOST_LOOPS)
    ids = _rows("input_ids", input_ids)
    mask = None if attention_mask is None else _rows("attention_mask", attention_mask)
    if mask is not None:
        _check_mask(ids, mask, model.padding)
        mask = mask.to(model.device)
    hidden, logits, gates = [], [], []
    with torch.no_grad():
        state = _begin(model, ids.to(model.device), mask, initial_state)
        for _ in range(loops):
            state = checked.step(state)
            hidden.append(checked.hidden(state))
            logits.append(loop_logits(checked, state))
            gates.append(checked.gate_logit(state))
    return Trace(
        hidden=torch.stack(hidden, dim=2),
        logits=torch.stack(logits, dim=2),
        gate_logit=torch.stack(gates, dim=2) if model.has_gate else None,
    )


def _begin(
    model: LoopedModel, ids: Tensor, mask: Tensor | None, initial: Tensor | np.ndarray | None
) -> State:
    if initial is None:
        return Checked(model).begin(ids, mask)
    if not isinstance(model, FreeStart):
        raise ConfigError(
            f"{model.record.name} starts from its tokens' embedding; initial_state is for models "
            "whose first state is free"
        )
    initial = torch.as_tensor(initial)
    if initial.shape != (*ids.shape, model.d_model):
        raise ConfigError(
            f"initial_state must be {[*ids.shape, model.d_model]}, not {list(initial.shape)}"
        )
    with running(f"begin_from() of model {model.record.name}"):
        return model.begin_from(initial.to(model.device, model.dtype), ids, mask)


def _rows(name: str, tokens: Tokens) -> Tensor:
    """int64 [row, position] of what the caller gave."""
    try:
        tensor = torch.as_tensor(tokens)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"{name} must be whole numbers [row, position], every row as long: {error}"
        ) from error
    if tensor.is_floating_point() or tensor.is_complex():
        raise ConfigError(f"{name} must be whole numbers, not {tensor.dtype}")
    if tensor.ndim == 1:
        tensor = tensor[None]
    if tensor.ndim != 2 or not tensor.numel():
        raise ConfigError(f"{name} must be [row, position], not {list(tensor.shape)}")
    return tensor.long()


def _check_mask(ids: Tensor, mask: Tensor, honoured: frozenset[str]) -> None:
    if mask.shape != ids.shape:
        raise ConfigError(
            f"attention_mask must have the shape of input_ids, {list(ids.shape)}, not "
            f"{list(mask.shape)}"
        )
    if not bool(((mask == 0) | (mask == 1)).all()):
        raise ConfigError("attention_mask must be 1 on real tokens and 0 on padding, nothing else")
    empty = (mask.sum(-1) == 0).nonzero()
    if len(empty):
        raise ConfigError(f"attention_mask leaves row {int(empty[0])} without a real token")
    for side, edge in (("left", mask[:, 0]), ("right", mask[:, -1])):
        if side not in honoured and bool((edge == 0).any()):
            raise ConfigError(
                f"this model does not honour {side} padding; pad on: {', '.join(sorted(honoured))}"
                if honoured
                else "this model honours no padding; give rows of one length"
            )
