"""The Ouro family behind the looped-model protocol."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import linear

from trajdiag.models.base import ModelRecord, Positions, Tokenizer, take_positions
from trajdiag.models.batch import Batch
from trajdiag.models.decoder import OuroDecoder
from trajdiag.models.inputs import checked_inputs
from trajdiag.models.rows import gathered_tokens
from trajdiag.store.head import SavedHead


@dataclass(frozen=True, kw_only=True)
class OuroState:
    """A padded batch between two loops."""

    x: Tensor
    """[token, d_model], row by row: what is fed forward is what is read out."""
    batch: Batch


class OuroModel:
    """An Ouro decoder as a LoopedModel that Compacts. `decoder` is the torch module."""

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
        inputs = checked_inputs(
            input_ids,
            attention_mask,
            position_ids,
            name=self.record.name,
            vocab_size=self.vocab_size,
            device=self.device,
        )
        rows, positions = input_ids.shape
        batch = self.decoder.batch(
            ((rows, positions),),
            inputs.position_ids.reshape(-1),
            None if attention_mask is None else _attention(inputs.real),
        )
        return OuroState(x=self.decoder.embed(inputs.input_ids.reshape(-1)), batch=batch)

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

    def saved_head(self) -> SavedHead:
        """See LoopedModel."""
        return SavedHead(weight=self.decoder.head_weight.detach())

    def gate_logit(self, state: OuroState, at: Positions | None = None) -> Tensor | None:
        """See LoopedModel."""
        return self.decoder.gate(self.hidden(state, at))

    def gather(self, parts: Sequence[tuple[OuroState, Tensor]]) -> OuroState:
        """See Compacts."""
        ((_, positions),) = parts[0][0].batch.groups
        return OuroState(
            x=gathered_tokens(parts, lambda state: state.x, positions),
            batch=self.decoder.gather([(state.batch, rows) for state, rows in parts]),
        )


def _attention(real: Tensor) -> Tensor | None:
    """bool [row, 1, position, position] of bool [row, position]; None where causality is enough."""
    if bool((real[:, 1:] <= real[:, :-1]).all()):
        return None  # Padding comes last, so no real token can see it.
    positions = real.shape[1]
    causal = torch.ones(positions, positions, dtype=torch.bool, device=real.device).tril()
    # A padded position attends to itself: a row of nothing would be NaN.
    itself = torch.eye(positions, dtype=torch.bool, device=real.device)
    return (causal & real[:, None, :] | itself)[:, None]
