"""Looped models that transformers implements itself: their weights, and the protocol around them.

A family adds a Recurrence, which runs transformers' own modules one loop at a time.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import linear

from trajdiag.models.base import ModelRecord, Positions, Tokenizer, take_positions
from trajdiag.models.inputs import Inputs, checked_inputs
from trajdiag.models.rows import Parts, gathered
from trajdiag.store.head import SavedHead

_HEAD_ROWS = 8192
"""How many rows of the head are widened to float32 at a time."""


class Recurrence(Protocol):
    """What a family does with a batch. `State` is its own; a state is [row, position, d_model]."""

    plain_head: bool
    """Whether the head reads the state itself, and `finish` leaves its products as they are."""

    def begin(self, inputs: Inputs) -> Any:
        """The state that the first loop starts from."""
        ...

    def step(self, state: Any) -> Any:
        """One loop on."""
        ...

    def hidden(self, state: Any) -> Tensor:
        """The loop's state, [row, position, d_model]."""
        ...

    def head_input(self, state: Any) -> Tensor:
        """What the head would read if this loop were the last, [row, position, d_model]."""
        ...

    def finish(self, products: Tensor) -> Tensor:
        """Logits of the head's plain products, both float32 [..., vocab]."""
        ...

    def gather(self, parts: Parts) -> Any:
        """See Compacts."""
        ...


class NativeModel:
    """A transformers model as a LoopedModel that Compacts.

    `network` is the module, `recurrence` its family's.
    """

    has_gate = False
    padding = frozenset({"left", "right"})

    def __init__(
        self,
        network: Any,
        recurrence: Recurrence,
        record: ModelRecord,
        *,
        loops: int,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self.network = network
        self.record = record
        self.loops = loops
        self.d_model: int = network.config.hidden_size
        self.vocab_size: int = network.lm_head.weight.shape[0]
        self.device: torch.device = network.lm_head.weight.device
        self.dtype: torch.dtype = network.lm_head.weight.dtype
        self.max_positions: int | None = network.config.max_position_embeddings
        self.tokenizer = tokenizer
        self._recurrence = recurrence

    def begin(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Any:
        """See LoopedModel. Raises ConfigError for misshapen inputs and for unknown ids."""
        return self._recurrence.begin(
            checked_inputs(
                input_ids,
                attention_mask,
                position_ids,
                name=self.record.name,
                vocab_size=self.vocab_size,
                device=self.device,
            )
        )

    def step(self, state: Any) -> Any:
        """See LoopedModel."""
        return self._recurrence.step(state)

    def hidden(self, state: Any, at: Positions | None = None) -> Tensor:
        """See LoopedModel."""
        return take_positions(self._recurrence.hidden(state), at)

    def head_input(self, state: Any, at: Positions | None = None) -> Tensor:
        """See LoopedModel: layers after the loop see all positions, whatever is read."""
        return take_positions(self._recurrence.head_input(state), at)

    def head(self, head_input: Tensor) -> Tensor:
        """See LoopedModel."""
        return self._recurrence.finish(_wide_linear(head_input, self.network.lm_head.weight))

    def saved_head(self) -> SavedHead | None:
        """See LoopedModel."""
        weight = self.network.lm_head.weight.detach()
        return SavedHead(weight=weight) if self._recurrence.plain_head else None

    def gate_logit(self, state: Any, at: Positions | None = None) -> Tensor | None:
        """None: these families have no halting gate."""
        return None

    def gather(self, parts: Parts) -> Any:
        """See Compacts."""
        return self._recurrence.gather(parts)


def attention_mask(network: Any, embedded: Tensor, inputs: Inputs, *, sliding: bool) -> Any:
    """transformers' own mask for `network`'s attention; None where causality is all.

    Padding that sees nothing is made to see itself: a softmax over nothing may be NaN, which the
    next layer would spread.
    """
    from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask

    create = create_sliding_window_causal_mask if sliding else create_causal_mask
    mask = create(
        config=network.config,
        inputs_embeds=embedded,
        attention_mask=inputs.real,
        cache=None,
        position_ids=inputs.position_ids,
    )
    if isinstance(mask, Tensor) and mask.dtype == torch.bool:
        positions = embedded.shape[1]
        mask = mask | torch.eye(positions, dtype=torch.bool, device=mask.device)
    return mask


def gathered_mask(
    parts: Parts, of: Callable[[Any], Tensor | None], x: Callable[[Any], Tensor]
) -> Tensor | None:
    """What `attention_mask` gave for each part, of the wanted rows; `x` are the states, [row,
    position, d_model]."""

    def explicit(state: Any) -> Tensor:
        mask = of(state)
        if mask is None:
            rows, positions = x(state).shape[:2]
            causal = torch.ones(positions, positions, dtype=torch.bool, device=x(state).device)
            mask = causal.tril().expand(rows, 1, -1, -1)
        return mask

    if all(of(state) is None for state, _ in parts):
        return None
    return gathered(parts, explicit)


def gathered_rotary(
    parts: Parts, of: Callable[[Any], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Cosines and sines, [row, position, head_dim] each, of the wanted rows."""
    return gathered(parts, lambda state: of(state)[0]), gathered(parts, lambda state: of(state)[1])


def _wide_linear(x: Tensor, weight: Tensor) -> Tensor:
    """float32 [..., out] of [..., in], widening a part of the weight at a time."""
    if weight.dtype == torch.float32:
        return linear(x.float(), weight)
    x = x.float()
    parts = [linear(x, rows.float()) for rows in weight.split(_HEAD_ROWS)]
    return torch.cat(parts, dim=-1)
