"""A looped model whose every answer is checked: a user's own may give anything."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from trajdiag.errors import ConfigError
from trajdiag.foreign import running
from trajdiag.models.base import LoopedModel, Positions, State
from trajdiag.store.head import FLOATS, SavedHead


class Checked:
    """`model`, as a LoopedModel. Raises ConfigError, naming the method, for what its code raises
    (running out of the device's memory apart) and for answers of another shape or dtype than
    LoopedModel asks for."""

    def __init__(self, model: LoopedModel) -> None:
        self.model = model
        self.record, self.loops = model.record, model.loops
        self.d_model, self.vocab_size = model.d_model, model.vocab_size
        self.has_gate, self.padding = model.has_gate, model.padding
        self.device, self.dtype = model.device, model.dtype
        self.max_positions, self.tokenizer = model.max_positions, model.tokenizer

    def begin(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> State:
        """See LoopedModel."""
        with self._running("begin"):
            return self.model.begin(input_ids, attention_mask, position_ids)

    def step(self, state: State) -> State:
        """See LoopedModel."""
        with self._running("step"):
            return self.model.step(state)

    def hidden(self, state: State, at: Positions | None = None) -> Tensor:
        """See LoopedModel."""
        with self._running("hidden"):
            found = self.model.hidden(state, at)
        return self._require("hidden", found, _places(at, self.d_model), self.dtype)

    def head_input(self, state: State, at: Positions | None = None) -> Tensor:
        """See LoopedModel."""
        with self._running("head_input"):
            found = self.model.head_input(state, at)
        return self._require("head_input", found, _places(at, None), None)

    def head(self, head_input: Tensor) -> Tensor:
        """See LoopedModel."""
        with self._running("head"):
            found = self.model.head(head_input)
        shape = (*head_input.shape[:-1], self.vocab_size)
        return self._require("head", found, shape, torch.float32)

    def saved_head(self) -> SavedHead | None:
        """See LoopedModel; None too for a model of one's own that has no such method."""
        method = getattr(self.model, "saved_head", None)
        if method is None:
            return None
        with self._running("saved_head"):
            found = method()
            fault = None if found is None else _fault(found, self.vocab_size, self.d_model)
        if fault is not None:
            raise ConfigError(f"saved_head() of model {self.record.name} must give {fault}")
        return found

    def gate_logit(self, state: State, at: Positions | None = None) -> Tensor | None:
        """See LoopedModel."""
        with self._running("gate_logit"):
            found = self.model.gate_logit(state, at)
        if not self.has_gate:
            return None
        return self._require("gate_logit", found, _places(at), None)

    @contextmanager
    def _running(self, method: str) -> Iterator[None]:
        what = f"{method}() of model {self.record.name}"
        with running(what, passing=(torch.OutOfMemoryError,)):
            yield

    def _require(
        self,
        method: str,
        found: Any,
        shape: tuple[int | None, ...],
        dtype: torch.dtype | None,
    ) -> Tensor:
        """`found`, of this shape (None: any size) and dtype (None: any floating one)."""
        wanted = f"[{', '.join('any' if size is None else str(size) for size in shape)}]"
        if isinstance(found, Tensor):
            came = f"{str(found.dtype).removeprefix('torch.')} {list(found.shape)}"
            fits = found.is_floating_point() if dtype is None else found.dtype == dtype
            if found.ndim == len(shape) and fits:
                pairs = zip(shape, found.shape, strict=True)
                if all(size in (None, given) for size, given in pairs):
                    return found
        else:
            came = type(found).__name__
        kind = "floating-point" if dtype is None else str(dtype).removeprefix("torch.")
        raise ConfigError(
            f"{method}() of model {self.record.name} must give a {kind} tensor {wanted}, not {came}"
        )


def _fault(head: Any, vocab_size: int, d_model: int) -> str | None:
    """What a saved head must be and is not, and what it is; None where it fits."""
    if not isinstance(head, SavedHead):
        return f"a SavedHead or None, not {type(head).__name__}"
    for name, shape in (("weight", [vocab_size, d_model]), ("bias", [vocab_size])):
        x: Any = getattr(head, name)
        if x is None and name == "bias":
            continue
        if not isinstance(x, Tensor):
            return f"a {name} that is a tensor {shape}, not {type(x).__name__}"
        if list(x.shape) != shape or x.dtype not in FLOATS:
            dtype = str(x.dtype).removeprefix("torch.")
            return f"a {name} that is a floating-point tensor {shape}, not {dtype} {list(x.shape)}"
    if head.softcap is not None and not 0 < head.softcap < math.inf:
        return f"a softcap above 0, or None, not {head.softcap}"
    return None


def _places(at: Positions | None, *width: int | None) -> tuple[int | None, ...]:
    """The shape of what is read at `at`, or everywhere, of this width."""
    return (None, None, *width) if at is None else (len(at[0]), *width)
