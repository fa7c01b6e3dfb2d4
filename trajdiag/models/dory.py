"""The Dory family (model_type dory): layers before, a recurrent section, and layers after it."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from trajdiag.errors import CheckpointError
from trajdiag.models.inputs import Inputs
from trajdiag.models.native import NativeModel, attention_mask, gathered_mask, gathered_rotary
from trajdiag.models.native_weights import open_network
from trajdiag.models.rows import Parts, gathered
from trajdiag.models.source import ModelSource

_KINDS = ("full_attention", "sliding_attention")


@dataclass(frozen=True, kw_only=True)
class DoryState:
    """A batch between two passes through the recurrent section."""

    x: Tensor
    """[row, position, d_model]: the output of the section's last layer, not normed; before the
    first loop, that of the last layer before the section."""
    injected: Tensor
    """[row, position, d_model]: what every loop adds to its normed input."""
    masks: dict[str, Any]
    """The attention mask of each kind of layer."""
    rotary: dict[str, tuple[Tensor, Tensor]]
    """The cosines and sines of each kind of layer."""


class DoryRecurrence:
    """See Recurrence. What is read out is the output of the recurrent section's last layer; the
    head reads it through the layers after the section."""

    plain_head = False

    def __init__(self, network: Any) -> None:
        model, config = network.model, network.config
        start, end = config.n_input_layers, config.num_hidden_layers - config.n_output_layers
        self._model = model
        self._before, self._looped, self._after = (
            model.layers[:start],
            model.layers[start:end],
            model.layers[end:],
        )
        self._head = network.lm_head

    def begin(self, inputs: Inputs) -> DoryState:
        embedded = self._model.embed_tokens(inputs.input_ids)
        kinds = {layer.attention_type for layer in self._model.layers}
        state = DoryState(
            x=embedded,
            injected=embedded,
            masks={
                kind: attention_mask(
                    self._model, embedded, inputs, sliding=kind == "sliding_attention"
                )
                for kind in kinds
            },
            rotary={
                kind: self._model.rotary_emb(embedded, inputs.position_ids, kind) for kind in kinds
            },
        )
        x = _through(self._before, state.x, state)
        return replace(state, x=x, injected=self._model.norm(x))

    def step(self, state: DoryState) -> DoryState:
        x = self._model.norm(state.x) + state.injected
        return replace(state, x=_through(self._looped, x, state))

    def hidden(self, state: DoryState) -> Tensor:
        return state.x

    def head_input(self, state: DoryState) -> Tensor:
        return self._model.norm(_through(self._after, state.x, state))

    def finish(self, products: Tensor) -> Tensor:
        """Dory's head has a learned scale for every token."""
        return products * (self._head.logit_scale.float() * self._head.logit_scale_factor)

    def gather(self, parts: Parts) -> DoryState:
        first: DoryState = parts[0][0]
        return DoryState(
            x=gathered(parts, lambda state: state.x),
            injected=gathered(parts, lambda state: state.injected),
            masks={
                kind: gathered_mask(
                    parts, lambda state, kind=kind: state.masks[kind], lambda state: state.x
                )
                for kind in first.masks
            },
            rotary={
                kind: gathered_rotary(parts, lambda state, kind=kind: state.rotary[kind])
                for kind in first.rotary
            },
        )


def load(source: ModelSource) -> NativeModel:
    """Open a Dory checkpoint. Raises CheckpointError for what it cannot read or step rightly."""
    opened = open_network(
        source, "dory", attention="sdpa", loops=["n_recurrent_loops"], refuse=_refuse
    )
    return NativeModel(
        opened.network,
        DoryRecurrence(opened.network),
        opened.record,
        loops=opened.network.config.n_recurrent_loops,
        tokenizer=source.tokenizer,
    )


def _refuse(config: Any) -> None:
    if other := sorted(set(config.layer_types) - set(_KINDS)):
        raise CheckpointError(f"config.json: layer_types with {', '.join(other)} is not supported")


def _through(layers: Any, x: Tensor, state: DoryState) -> Tensor:
    for layer in layers:
        x = layer(
            x,
            attention_mask=state.masks[layer.attention_type],
            position_embeddings=state.rotary[layer.attention_type],
        )
    return x
