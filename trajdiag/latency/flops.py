"""Floating-point operations of matrix products, as they are run: a multiplication and an addition
count as two.

Counted are the products that PyTorch dispatches, whatever the family; what is done element by
element (norms, rotations, softmax, signals) is not, nor are boosted trees.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.flop_counter import (
    FlopCounterMode,
    addmm_flop,
    baddbmm_flop,
    sdpa_flop_count,
)

from trajdiag.models.base import Compacts, LoopedModel, State
from trajdiag.models.checked import Checked

Given = TypeVar("Given")


@dataclass(frozen=True, kw_only=True)
class Flops:
    """What one run took."""

    whole: int
    loops: int
    """Of these, what beginning and stepping took; token by token, the loops."""


def count_flops(model: LoopedModel, run: Callable[[LoopedModel], Given]) -> tuple[Flops, Given]:
    """What `run`, called once with a model that stands in for `model`, takes, and what it gives."""
    with FlopCounterMode(display=False, custom_mapping=_MORE) as counter:
        kind = _CountedCompacts if isinstance(model, Compacts) else _Counted
        counted = kind(model, counter)
        found = run(counted)
        return Flops(whole=counter.get_total_flops(), loops=counted.loop_flops), found


def count_decoding(
    run: Callable[[Callable[[], AbstractContextManager[None]]], Given],
) -> tuple[Flops, Given]:
    """What `run` takes, and what it gives: called once with what it has to enter around loops."""
    with FlopCounterMode(display=False, custom_mapping=_MORE) as counter:
        loops = 0

        @contextmanager
        def around() -> Iterator[None]:
            nonlocal loops
            before = counter.get_total_flops()
            yield
            loops += counter.get_total_flops() - before

        found = run(around)
        return Flops(whole=counter.get_total_flops(), loops=loops), found


class _Counted(Checked):
    """`model`, and what its beginning and stepping has taken."""

    def __init__(self, model: LoopedModel, counter: FlopCounterMode) -> None:
        super().__init__(model)
        self._counter, self.loop_flops = counter, 0

    def begin(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> State:
        with self._counting():
            return super().begin(input_ids, attention_mask, position_ids)

    def step(self, state: State) -> State:
        with self._counting():
            return super().step(state)

    @contextmanager
    def _counting(self) -> Iterator[None]:
        before = self._counter.get_total_flops()
        yield
        self.loop_flops += self._counter.get_total_flops() - before


class _CountedCompacts(_Counted):
    model: Any

    def gather(self, parts: Sequence[tuple[State, Tensor]]) -> State:
        return self.model.gather(parts)


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(query, key, value)


def _matrix_vector(matrix: Any, vector: Any, *_: Any, **__: Any) -> int:
    return 2 * prod(matrix)


def _added_matrix_vector(start: Any, matrix: Any, vector: Any, *_: Any, **__: Any) -> int:
    return 2 * prod(matrix)


def _grouped(rows: Any, matrices: Any, *_: Any, **__: Any) -> int:
    """Experts: each of `rows` [row, in] through one of `matrices` [expert, in, out]."""
    return 2 * prod(rows) * matrices[-1]


_ATEN = torch.ops.aten
_MORE: dict[Any, Any] = {
    _ATEN._scaled_dot_product_flash_attention_for_cpu: _attention,
    _ATEN.baddbmm_: baddbmm_flop,
    _ATEN.addmm_: addmm_flop,
    _ATEN._grouped_mm: _grouped,
    _ATEN.mv: _matrix_vector,
    _ATEN.addmv: _added_matrix_vector,
}
"""Products that FlopCounterMode does not know by itself."""
