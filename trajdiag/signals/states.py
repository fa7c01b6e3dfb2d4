"""Signals of the hidden states alone: how much the loop still moves them."""

from collections.abc import Collection

import torch
from torch import Tensor


class StateTracker:
    """The state signals of a batch of rows that runs loop after loop.

    It holds the states of the loops before in memory of its own, which it reuses from batch to
    batch: touching fresh memory costs more than the arithmetic.
    """

    def __init__(self, names: Collection[str]) -> None:
        """`names`: the signals to compute, of those that read states."""
        self._norms = not {"relative_change", "hidden_cosine"}.isdisjoint(names)
        self._moves = not {"relative_change", "hidden_displacement"}.isdisjoint(names)
        self._cosine = "hidden_cosine" in names
        self._accelerates = not {"acceleration", "acceleration_twice"}.isdisjoint(names)
        self._memory: list[Tensor] = []
        self.reset()

    def reset(self) -> None:
        """Forget the loops before: the next update is a batch's first loop."""
        self._past: list[Tensor] = []
        self._norm_squared: Tensor | None = None
        self._acceleration: Tensor | None = None

    def update(self, hidden: Tensor) -> dict[str, Tensor]:
        """Read the next loop, `hidden` [row, d_model]; float64 [row] of each signal that is
        defined at it."""
        h, product = self._take(hidden)
        found: dict[str, Tensor] = {}
        norm_squared = torch.mul(h, h, out=product).sum(1) if self._norms else None
        if self._past:
            found |= self._change(h, norm_squared, product)
        if self._accelerates and len(self._past) == 2:
            two_before, before = self._past
            difference = torch.sub(h, before, alpha=2, out=product).add_(two_before)
            acceleration = difference.square_().sum(1).sqrt()
            found["acceleration"] = acceleration
            if self._acceleration is not None:
                found["acceleration_twice"] = torch.maximum(acceleration, self._acceleration)
            self._acceleration = acceleration
        self._past = [*self._past, h][-2 if self._accelerates else -1 :]
        self._norm_squared = norm_squared
        return found

    def _change(self, h: Tensor, norm_squared: Tensor | None, product: Tensor) -> dict[str, Tensor]:
        before, found = self._past[-1], {}
        if self._cosine and norm_squared is not None and self._norm_squared is not None:
            # sqrt of the product, not product of square roots: exactly 1 for identical states
            scale = (norm_squared * self._norm_squared).sqrt()
            cosine = (torch.mul(h, before, out=product).sum(1) / scale).clamp(-1.0, 1.0)
            both_zero = (norm_squared == 0) & (self._norm_squared == 0)
            found["hidden_cosine"] = torch.where(scale > 0, cosine, both_zero.to(cosine.dtype))
        if self._moves:
            displacement = torch.sub(h, before, out=product).square_().sum(1).sqrt()
            found["hidden_displacement"] = displacement
            if norm_squared is not None:
                relative = displacement / norm_squared.sqrt()
                found["relative_change"] = torch.where(displacement == 0, 0.0, relative)
        return found

    def _take(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """`hidden` as float64 in memory that no loop before holds, and room for one product."""
        if not self._memory or self._memory[0].numel() < hidden.numel():
            self._memory = [
                torch.empty(hidden.numel(), dtype=torch.float64, device=hidden.device)
                for _ in range(4 if self._accelerates else 3)
            ]
        *states, product = (x[: hidden.numel()].view(hidden.shape) for x in self._memory)
        held = {past.data_ptr() for past in self._past}
        free = next(state for state in states if state.data_ptr() not in held)
        return free.copy_(hidden), product
