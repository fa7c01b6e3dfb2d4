"""The text models of the Inkling 2 Loop family (model_type inkling2_loop_text): passes through the
loop layers restart from one state and hear, by messages, of the pass before."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from trajdiag.errors import CheckpointError, ConfigError
from trajdiag.models.config_keys import require_whole
from trajdiag.models.inputs import Inputs
from trajdiag.models.native import NativeModel, attention_mask, gathered_mask
from trajdiag.models.native_weights import open_network, quiet
from trajdiag.models.rows import Parts, gathered
from trajdiag.models.source import ModelSource

_KINDS = ("hybrid", "hybrid_sliding")


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What one layer hands to the next."""

    x: Tensor
    """[row, position, d_model]."""
    blocks: Tensor
    """[row, position, block, d_model]: the states at the blocks' boundaries so far."""

    def filled(self, blocks: int) -> "Stream":
        """With so many blocks: zeros after its own."""
        missing = blocks - self.blocks.shape[-2]
        return replace(self, blocks=pad(self.blocks, (0, 0, 0, missing)))


def _gathered(streams: Sequence[tuple[Stream, Tensor]]) -> Stream:
    """The wanted rows of streams that have as many blocks."""
    return Stream(
        x=gathered(streams, lambda stream: stream.x),
        blocks=gathered(streams, lambda stream: stream.blocks),
    )


@dataclass(frozen=True, kw_only=True)
class Inkling2LoopState:
    """A batch between two passes through the loop layers."""

    start: Stream
    """What every pass starts from."""
    last: Stream
    """What the pass before left; of rows without one nothing that is read."""
    looped: Tensor
    """bool [row], on the CPU: whether there has been a pass."""
    masks: dict[str, Any]
    """The attention mask of each kind of layer."""
    shared: dict[str, Any]
    """What all layers are given beside it: distances, positions, and the convolutions' mask."""


class Inkling2LoopRecurrence:
    """See Recurrence. What is read out is the output of a pass's last layer; the head reads it, and
    the pass's block states, through the layers after the loop."""

    plain_head = False

    def __init__(self, network: Any) -> None:
        model, config = network.model, network.config
        start, end = config.loop_layer_index_start, config.loop_layer_index_end
        self._model = model
        self._before, self._looped, self._after = (
            model.layers[:start],
            model.layers[start:end],
            model.layers[end:],
        )
        self._softcap = network.logit_softcap

    def begin(self, inputs: Inputs) -> Inkling2LoopState:
        from transformers.masking_utils import create_recurrent_attention_mask

        x = self._model.embed_tokens(inputs.input_ids)
        places = torch.arange(x.shape[1], device=x.device)
        embedded = Stream(x=x, blocks=x.new_zeros(*x.shape[:-1], 0, x.shape[-1]))
        state = Inkling2LoopState(
            start=embedded,
            last=embedded,
            looped=torch.zeros(len(x), dtype=torch.bool),
            masks={
                "full_attention": attention_mask(self._model, x, inputs, sliding=False),
                "sliding_attention": attention_mask(self._model, x, inputs, sliding=True),
            },
            shared={
                "relative_distance": places[:, None] - places,
                "position_ids": inputs.position_ids,
                "conv_mask": create_recurrent_attention_mask(
                    config=self._model.config, inputs_embeds=x, attention_mask=inputs.real
                ),
            },
        )
        with quiet():  # The first convolution advises to install a faster one.
            start = _through(self._before, embedded, state)
        return replace(state, start=start, last=start)

    def step(self, state: Inkling2LoopState) -> Inkling2LoopState:
        if not bool(state.looped.all()) and bool(state.looped.any()):
            return self._step_apart(state)
        previous = None
        if bool(state.looped[0]):
            # The first of a pass's blocks is the state that all passes start from.
            own = state.start.blocks.shape[-2] + 1
            previous = Stream(x=state.last.x, blocks=state.last.blocks[..., own:, :])
        stream = state.start
        for number, layer in enumerate(self._looped):
            messages = ()
            if previous is not None:
                messages = (self._model.message_input(previous.blocks, previous.x, number),)
            stream = _layer(layer, stream, state, *messages)
        return replace(state, last=stream, looped=torch.ones_like(state.looped))

    def _step_apart(self, state: Inkling2LoopState) -> Inkling2LoopState:
        """One pass of rows some of which have none behind them: those hear no messages, which no
        message says."""
        device = state.last.x.device
        parts = [(state.looped == looped).nonzero()[:, 0].to(device) for looped in (False, True)]
        stepped = [self.step(self.gather([(state, rows)])) for rows in parts]
        whole = [(s, torch.arange(len(s.looped), device=device)) for s in stepped]
        return self.gather([(self.gather(whole), torch.cat(parts).argsort())])

    def hidden(self, state: Inkling2LoopState) -> Tensor:
        return state.last.x

    def head_input(self, state: Inkling2LoopState) -> Tensor:
        stream = _through(self._after, state.last, state)
        x = self._model.final_input(stream.blocks, stream.x)[0]
        return self._model.norm(x).to(state.last.x.dtype)

    def finish(self, products: Tensor) -> Tensor:
        return self._softcap(products)

    def gather(self, parts: Parts) -> Inkling2LoopState:
        first: Inkling2LoopState = parts[0][0]
        blocks = max(state.last.blocks.shape[-2] for state, _ in parts)
        conv_mask = None
        if any(state.shared["conv_mask"] is not None for state, _ in parts):
            conv_mask = gathered(parts, _conv_mask)
        return Inkling2LoopState(
            start=_gathered([(state.start, rows) for state, rows in parts]),
            last=_gathered([(state.last.filled(blocks), rows) for state, rows in parts]),
            looped=torch.cat([state.looped[rows.cpu()] for state, rows in parts]),
            masks={
                kind: gathered_mask(
                    parts, lambda state, kind=kind: state.masks[kind], lambda state: state.start.x
                )
                for kind in first.masks
            },
            shared={
                **first.shared,
                "position_ids": gathered(parts, lambda state: state.shared["position_ids"]),
                "conv_mask": conv_mask,
            },
        )


def _conv_mask(state: Inkling2LoopState) -> Tensor:
    """bool [row, position]: where there is a token."""
    mask = state.shared["conv_mask"]
    return torch.ones_like(state.shared["position_ids"], dtype=torch.bool) if mask is None else mask


def load(source: ModelSource) -> NativeModel:
    """Open an Inkling 2 Loop text checkpoint. Raises CheckpointError for what it cannot read or
    step rightly."""
    # Its attention has a sink for every token, which only the eager implementation has.
    opened = open_network(
        source, "inkling2_loop_text", attention="eager", loops=["loop_num_passes"], refuse=_refuse
    )
    return NativeModel(
        opened.network,
        Inkling2LoopRecurrence(opened.network),
        opened.record,
        loops=opened.network.config.loop_num_passes,
        tokenizer=source.tokenizer,
    )


def _refuse(config: Any) -> None:
    if other := sorted(set(config.layer_types) - set(_KINDS)):
        raise CheckpointError(f"config.json: layer_types with {', '.join(other)} is not supported")
    try:
        require_whole(
            "num_experts_per_tok", config.num_experts_per_tok, most=config.n_routed_experts
        )
    except ConfigError as error:
        raise CheckpointError(f"config.json: {error}") from error
    start, end = config.loop_layer_index_start, config.loop_layer_index_end
    if not start < end <= config.num_hidden_layers:
        raise CheckpointError(
            f"config.json: loop_layer_index_start = {start} and loop_layer_index_end = {end} must "
            f"enclose some of the {config.num_hidden_layers} layers"
        )


def _through(layers: Any, stream: Stream, state: Inkling2LoopState) -> Stream:
    for layer in layers:
        stream = _layer(layer, stream, state)
    return stream


def _layer(layer: Any, stream: Stream, state: Inkling2LoopState, *messages: Tensor) -> Stream:
    x = layer(
        stream.x,
        stream.blocks,
        *messages,
        attention_mask=state.masks[layer.attention_type],
        **state.shared,
    )
    if not layer.is_block_boundary:
        return replace(stream, x=x)
    return Stream(x=x, blocks=torch.cat([stream.blocks, stream.x.unsqueeze(-2)], dim=-2))
