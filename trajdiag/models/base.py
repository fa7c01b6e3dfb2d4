"""The looped-model protocol: all that extraction, tracing, training and latency know of a model.

A looped model maps tokens to state_0, state_{t-1} to state_t by one shared block, and state_t to a
hidden vector, to what its head reads, and, where it has one, to a halting-gate logit. Loops are
counted from 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from trajdiag.store.head import SavedHead

State = Any
"""One batch between two loops. Opaque to callers: a family keeps in it what the next loop needs."""

Positions = tuple[Tensor, Tensor]
"""Places in a batch to read at: rows and positions, int64 [read] each, on the model's device."""


class Tokenizer(Protocol):
    """Text to tokens, by the names that Hugging Face tokenizers use."""

    @property
    def eos_token_id(self) -> int | None: ...

    @property
    def bos_token_id(self) -> int | None: ...

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]: ...

    def decode(self, token_ids: list[int]) -> str: ...

    def get_vocab(self) -> dict[str, int]:
        """Every token's id, added ones too."""
        ...


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    """What a store remembers of the model that made it."""

    name: str
    family: str
    source: str
    """Where the weights came from: `shipped`, `cache`, `local` or a hub id; never a path."""
    revision: str | None
    """The hub commit of the weights."""
    config: dict[str, Any]
    sha256: str
    """SHA-256 of the weights: over the tensors' names, dtypes, shapes and bytes, in name order."""
    initial_state: str | None = None
    """`zeros` or `noise:SEED`, for a family whose state_0 is free; None where it is the tokens'."""


@runtime_checkable
class LoopedModel(Protocol):
    """One batch's life: `state = begin(...)`, then `state = step(state)` per loop, read between.

    Every reader takes `at`: None reads all positions, giving [row, position, ...]; Positions read
    those places, giving [read, ...]. All run under the caller's grad mode. A state is read before
    the next step only, so `step` may work in place.

    A class that names LoopedModel as its base has what is given here a value or a body: no gate,
    no padding, no limit, no text, and a head that reads the state itself.
    """

    record: ModelRecord
    loops: int
    """The number of loops T that the model was trained with."""
    d_model: int
    vocab_size: int
    has_gate: bool = False
    padding: frozenset[str] = frozenset()
    """The sides, of {"left", "right"}, on which padding leaves other positions unchanged."""
    device: torch.device
    dtype: torch.dtype
    """The dtype of the states."""
    max_positions: int | None = None
    """The longest row that it takes, in tokens; None where nothing limits it."""
    tokenizer: Tokenizer | None = None
    """None for a model of tokens without text."""

    def begin(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> State:
        """state_0 of `input_ids` int64 [row, position].

        `attention_mask` is 1 on real tokens, and None means that all are real; `position_ids`
        default to the count of real tokens before each.
        """
        ...

    def step(self, state: State) -> State:
        """The next loop's state."""
        ...

    def hidden(self, state: State, at: Positions | None = None) -> Tensor:
        """The state that is read out, in `dtype`: [row, position, d_model] or [read, d_model]."""
        ...

    def head_input(self, state: State, at: Positions | None = None) -> Tensor:
        """What the head reads, [row, position, width] or [read, width]: the state itself, or what
        the layers after the loop make of it."""
        return self.hidden(state, at)

    def head(self, head_input: Tensor) -> Tensor:
        """float32 logits over the vocabulary, [..., vocab] of [..., width], computed in float32."""
        ...

    def saved_head(self) -> SavedHead | None:
        """`head` as weights, where it reads the state that `hidden` gives and nothing else; None
        where anything stands between them. With it, logits can be computed again from states."""
        return None

    def gate_logit(self, state: State, at: Positions | None = None) -> Tensor | None:
        """float32 logit of the halting hazard, [row, position] or [read]; None without a gate."""
        return None


@runtime_checkable
class FreeStart(Protocol):
    """A looped model whose state_0 does not follow from the tokens."""

    def begin_from(
        self, initial_state: Tensor, input_ids: Tensor, attention_mask: Tensor | None = None
    ) -> State:
        """`begin`, with state_0 given as [row, position, d_model]."""
        ...


@runtime_checkable
class Compacts(Protocol):
    """A looped model whose batches can lose rows and be joined between two loops.

    The block does not know its loop, so joined rows may stand at different ones. What the rows are
    taken from is not stepped again, but other rows of it may be taken later.
    """

    def gather(self, parts: Sequence[tuple[State, Tensor]]) -> State:
        """One state of the wanted rows, int64 [row] in that order, of every part. All have the same
        number of positions, which may include padding on a side that `padding` names. Run without
        gradients."""
        ...


def logits(model: LoopedModel, state: State, at: Positions | None = None) -> Tensor:
    """float32 logits over the vocabulary: [row, position, vocab] or [read, vocab]."""
    return model.head(model.head_input(state, at))


def take_positions(x: Tensor, at: Positions | None) -> Tensor:
    """`x` [row, position, ...] at the given places, [read, ...]; all of it without `at`."""
    if at is None:
        return x
    row, position = at
    if not x.is_contiguous():
        return x[row, position]
    # whole rows are copied, where an index in two dimensions goes number by number
    return x.flatten(0, 1).index_select(0, torch.add(position, row, alpha=x.shape[1]))
