"""The Ouro family behind the looped-model protocol."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import linear

from trajdiag.errors import ConfigError
from trajdiag.models.base import ModelRecord, Positions, Tokenizer, take_positions
from trajdiag.models.batch import Batch
from trajdiag.models.decoder import OuroDecoder


@dataclass(frozen=True, kw_only=True)
class OuroState:
    """A padded batch between two loops."""

    x: Tensor
    """[token, d_model], row by row: what is fed forward is what is read out."""
    batch: Batch


class OuroModel:
    """An Ouro decoder as a LoopedModel. `decoder` is the torch module."""

    padding = frozenset({"left", "right"})

    def __init__(
        self, decoder: OuroDecoder, record: ModelRecord, tokenizer: Tokenizer | None = None
    ) -> None:
        self.decoder = decoder.eval()
        self.record = record
        self.loops = decoder.config.total_ut_steps
        self.d_model = decoder.config.hidden_size
        self.vocab_size = decoder.config.vocab_size
        self.has_gate = decoder.config.gate != "none"
        self.device = decoder.head_weight.device
        self.dtype = decoder.head_weight.dtype
        self.max_positions: int | None = decoder.config.max_position_embeddings
        self.tokenizer = tokenizer
        self._wide_head: Tensor | None = None

    def begin(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> OuroState:
        """See LoopedModel. Raises ConfigError for misshapen inputs and for unknown ids."""
        self._check(input_ids, attention_mask, position_ids)
        input_ids = input_ids.to(self.device)
        rows, positions = input_ids.shape
        real = None
        if attention_mask is not None:
            real = attention_mask.to(self.device).bool()
        if position_ids is None:
            position_ids = _counted_positions(input_ids, real)
        batch = self.decoder.batch(
            ((rows, positions),),
            position_ids.to(self.device).reshape(-1),
            None if real is None else _attention(real),
        )
        return OuroState(x=self.decoder.embed(input_ids.reshape(-1)), batch=batch)

    def step(self, state: OuroState) -> OuroState:
        """See LoopedModel."""
        return replace(state, x=self.decoder.loop(state.x, state.batch))

    def hidden(self, state: OuroState, at: Positions | None = None) -> Tensor:
        """See LoopedModel: the normed state."""
        ((rows, positions),) = state.batch.groups
        return take_positions(state.x.view(rows, positions, -1), at)

    def head_input(self, state: OuroState, at: Positions | None = None) -> Tensor:
        """See LoopedModel: the state itself."""
        return self.hidden(state, at)

    def head(self, head_input: Tensor) -> Tensor:
        """See LoopedModel."""
        if self.dtype == torch.float32 or torch.is_grad_enabled():
            return self.decoder.head(head_input)
        # A vocabulary-sized cast a loop would cost more than the product it serves.
        if self._wide_head is None:
            self._wide_head = self.decoder.head_weight.detach().float()
        return linear(head_input.float(), self._wide_head)

    def gate_logit(self, state: OuroState, at: Positions | None = None) -> Tensor | None:
        """See LoopedModel."""
        return self.decoder.gate(self.hidden(state, at))

    def _check(self, input_ids: Tensor, mask: Tensor | None, position_ids: Tensor | None) -> None:
        if input_ids.ndim != 2 or not input_ids.numel() or input_ids.is_floating_point():
            raise ConfigError(
                f"input_ids must be whole numbers [row, position] with at least one of each, not "
                f"{input_ids.dtype} {list(input_ids.shape)}"
            )
        for name, other in (("attention_mask", mask), ("position_ids", position_ids)):
            if other is not None and other.shape != input_ids.shape:
                raise ConfigError(
                    f"{name} must have the shape of input_ids, {list(input_ids.shape)}, not "
                    f"{list(other.shape)}"
                )
        low, high = (int(extreme) for extreme in input_ids.aminmax())
        if low < 0 or high >= self.vocab_size:
            raise ConfigError(
                f"input_ids run from {low} to {high}, but {self.record.name} has a vocabulary of "
                f"{self.vocab_size} (0 to {self.vocab_size - 1})"
            )


def _counted_positions(input_ids: Tensor, real: Tensor | None) -> Tensor:
    """int64 [row, position]: the number of real tokens before each."""
    if real is None:
        return torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
    return (real.long().cumsum(-1) - 1).clamp_(min=0)


def _attention(real: Tensor) -> Tensor | None:
    """bool [row, 1, position, position] of bool [row, position]; None where causality is enough."""
    if bool((real[:, 1:] <= real[:, :-1]).all()):
        return None  # Padding comes last, so no real token can see it.
    positions = real.shape[1]
    causal = torch.ones(positions, positions, dtype=torch.bool, device=real.device).tril()
    # A padded position attends to itself: a row of nothing would be NaN.
    itself = torch.eye(positions, dtype=torch.bool, device=real.device)
    return (causal & real[:, None, :] | itself)[:, None]
