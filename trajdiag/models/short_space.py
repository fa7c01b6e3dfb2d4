"""The memory that the loops of short rows work in, kept from one training step to the next.

A step's arrays are as large as those of the step before. Asked for anew, they cost page faults and
a Python object each, a tenth of a small model's step; here each is a view, made once for a shape,
of one block that grows to the largest.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trajdiag.models.short_attention import (
    AttentionScratch,
    KeptAttention,
    ShortRows,
    Take,
)

_ALIGNED = 16
"""Elements: an array begins at a multiple of them, a cache line in float32."""
_SHAPES = 64
"""Of how many shapes of batch the views are remembered."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the arrays of a step have in common."""

    loops: int
    layers: int
    width: int
    inner: int
    head_dim: int
    dtype: torch.dtype


@dataclass(frozen=True, kw_only=True, slots=True)
class Normed:
    """What a norm keeps."""

    value: Tensor
    """[token, d_model]: x / rms(x)."""
    inverse: Tensor
    """[token, 1]: 1 / rms(x)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What one layer's gradient needs of one loop."""

    attention_in: Normed
    attention: KeptAttention
    attention_out: Normed
    mlp_in: Normed
    gate_up: Tensor
    """[token, 2 x inner]."""
    gate: Tensor
    up: Tensor
    mlp_out: Normed


@dataclass(frozen=True, kw_only=True, slots=True)
class Scratch:
    """What one layer after another works in."""

    attention: AttentionScratch
    stream: Tensor
    mapped: Tensor
    grad: Tensor
    through: Tensor
    product: Tensor
    """[token, d_model], each."""
    total: Tensor
    """[token, 1]."""
    total_flat: Tensor
    """[token], the same."""
    ones: Tensor
    """[token]."""
    active: Tensor
    fed: Tensor
    """[token, inner]."""
    of_gate_up: Tensor
    """[token, 2 x inner]."""
    of_gate: Tensor
    of_up: Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """All arrays of one step."""

    kept: tuple[tuple[Kept, ...], ...]
    """By loop and layer."""
    last: tuple[Normed, ...]
    """The last norm, by loop."""
    scratch: Scratch


class Spaces:
    """The blocks of memory of one model; each serves one step at a time."""

    def __init__(self) -> None:
        self._idle: list[_Block] = []

    def __reduce__(self) -> tuple[type["Spaces"], tuple[()]]:
        return Spaces, ()  # a copy of the model begins with memory of its own

    def borrow(self, rows: ShortRows, sizes: Sizes) -> "Borrowed":
        """Memory for a step, its own until the last reference to it is gone."""
        try:
            block = self._idle.pop()
        except IndexError:
            block = _Block()
        return Borrowed(block.space(rows, sizes), block, self._idle)


class Borrowed:
    """A space in use; when autograd lets go of it, a later step may have the memory."""

    def __init__(self, space: Space, block: "_Block", idle: list["_Block"]) -> None:
        self.space = space
        self._block = block
        self._idle = idle

    def __del__(self) -> None:
        self._idle.append(self._block)


class _Block:
    """One piece of memory, and the spaces that have been laid out in it."""

    def __init__(self) -> None:
        self._memory = torch.empty(0)
        self._laid_out: dict[tuple[object, ...], Space] = {}

    def space(self, rows: ShortRows, sizes: Sizes) -> Space:
        """The arrays for these rows; whatever was in the block is lost."""
        key = (sizes, rows.tokens, rows.positions, len(rows.taken), rows.turn.shape)
        found = self._laid_out.get(key)
        if found is None:
            if len(self._laid_out) == _SHAPES:
                self._laid_out.clear()
            found = self._laid_out[key] = self._lay_out(rows, sizes)
        # spaces of other shapes lie in the same memory
        found.scratch.attention.nowhere.zero_()
        found.scratch.ones.fill_(1)
        return found

    def _lay_out(self, rows: ShortRows, sizes: Sizes) -> Space:
        needed = 0

        def count(*shape: int) -> Tensor:
            nonlocal needed
            needed += _padded(shape)
            return torch.empty(shape, dtype=sizes.dtype, device="meta")

        _space(rows, sizes, count)
        if self._memory.dtype != sizes.dtype or len(self._memory) < needed:
            self._laid_out.clear()
            self._memory = torch.empty(needed, dtype=sizes.dtype)
        begin = 0

        def take(*shape: int) -> Tensor:
            nonlocal begin
            taken = self._memory[begin : begin + math.prod(shape)].view(shape)
            begin += _padded(shape)
            return taken

        return _space(rows, sizes, take)


def _padded(shape: tuple[int, ...]) -> int:
    return -(-math.prod(shape) // _ALIGNED) * _ALIGNED


def _space(rows: ShortRows, sizes: Sizes, take: Take) -> Space:
    tokens, width = rows.tokens, sizes.width

    def normed() -> Normed:
        return Normed(value=take(tokens, width), inverse=take(tokens, 1))

    def kept() -> Kept:
        gate_up = take(tokens, 2 * sizes.inner)
        gate, up = gate_up.chunk(2, -1)
        return Kept(
            attention_in=normed(),
            attention=KeptAttention.of(rows, sizes.head_dim, take),
            attention_out=normed(),
            mlp_in=normed(),
            gate_up=gate_up,
            gate=gate,
            up=up,
            mlp_out=normed(),
        )

    of_gate_up, total = take(tokens, 2 * sizes.inner), take(tokens, 1)
    of_gate, of_up = of_gate_up.chunk(2, -1)
    narrow = [take(tokens, width) for _ in range(5)]
    stream, mapped, grad, through, product = narrow
    scratch = Scratch(
        attention=AttentionScratch.of(rows, sizes.head_dim, take),
        stream=stream,
        mapped=mapped,
        grad=grad,
        through=through,
        product=product,
        total=total,
        total_flat=total.view(-1),
        ones=take(tokens),
        active=take(tokens, sizes.inner),
        fed=take(tokens, sizes.inner),
        of_gate_up=of_gate_up,
        of_gate=of_gate,
        of_up=of_up,
    )
    return Space(
        kept=tuple(tuple(kept() for _ in range(sizes.layers)) for _ in range(sizes.loops)),
        last=tuple(normed() for _ in range(sizes.loops)),
        scratch=scratch,
    )
