"""The HRM-Text family (model_type hrm_text): a fast and a slow stack, one slow cycle a loop."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from trajdiag.models.inputs import Inputs
from trajdiag.models.native import NativeModel, attention_mask, gathered_mask, gathered_rotary
from trajdiag.models.native_weights import open_network
from trajdiag.models.rows import Parts, gathered
from trajdiag.models.source import ModelSource


@dataclass(frozen=True, kw_only=True)
class HrmTextState:
    """A batch between two slow cycles."""

    slow: Tensor
    """[row, position, d_model]: the output of the slow (H) stack; the embedding at first."""
    fast: Tensor
    """[row, position, d_model]: the output of the fast (L) stack."""
    mask: Any
    rotary: tuple[Tensor, Tensor]


class HrmTextRecurrence:
    """See Recurrence. A loop is `L_cycles` passes of the fast stack and one of the slow stack,
    whose output is both what is read out and what the head reads.

    Attention is causal throughout, as transformers has it where no token types are given: the
    two-way attention within a prompt that `prefix_lm` allows is not used.
    """

    plain_head = True

    def __init__(self, network: Any) -> None:
        self._model = network.model
        self._fast_cycles: int = network.config.L_cycles

    def begin(self, inputs: Inputs) -> HrmTextState:
        model = self._model
        embedded = model.embed_tokens(inputs.input_ids) * model.embedding_scale
        return HrmTextState(
            slow=embedded,
            fast=model.z_L_init.to(embedded.dtype).expand_as(embedded),
            mask=attention_mask(model, embedded, inputs, sliding=False),
            rotary=model.rotary_emb(embedded, inputs.position_ids),
        )

    def step(self, state: HrmTextState) -> HrmTextState:
        fast = state.fast
        shared = {"attention_mask": state.mask, "position_embeddings": state.rotary}
        for _ in range(self._fast_cycles):
            fast = self._model.L_module(fast + state.slow, **shared)
        return replace(state, fast=fast, slow=self._model.H_module(state.slow + fast, **shared))

    def hidden(self, state: HrmTextState) -> Tensor:
        return state.slow

    def head_input(self, state: HrmTextState) -> Tensor:
        return state.slow

    def finish(self, products: Tensor) -> Tensor:
        return products

    def gather(self, parts: Parts) -> HrmTextState:
        return HrmTextState(
            slow=gathered(parts, lambda state: state.slow),
            fast=gathered(parts, lambda state: state.fast),
            mask=gathered_mask(parts, lambda state: state.mask, lambda state: state.slow),
            rotary=gathered_rotary(parts, lambda state: state.rotary),
        )


def load(source: ModelSource) -> NativeModel:
    """Open an HRM-Text checkpoint. Raises CheckpointError for what it cannot read."""
    opened = open_network(source, "hrm_text", attention="sdpa", loops=["H_cycles", "L_cycles"])
    return NativeModel(
        opened.network,
        HrmTextRecurrence(opened.network),
        opened.record,
        loops=opened.network.config.H_cycles,
        tokenizer=source.tokenizer,
    )
