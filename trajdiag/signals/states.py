"""Signals of the hidden states alone: how much the loop still moves them."""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor
from torch.linalg import vector_norm


class StateTracker:
    """The state signals of whole trajectories.

    It works in memory of its own, which it reuses: touching fresh memory costs more than the
    arithmetic.
    """

    def __init__(self, names: Collection[str]) -> None:
        """`names`: the signals to compute, of those that read states."""
        self._norms = not {"relative_change", "hidden_cosine"}.isdisjoint(names)
        self._cosine = "hidden_cosine" in names
        self._accelerates = not {"acceleration", "acceleration_twice"}.isdisjoint(names)
        self._memory = torch.empty(0)

    def track(self, hidden: Sequence[Tensor]) -> dict[str, Tensor]:
        """Read `hidden`, [row, d_model] a loop; float64 [loop, row] of each signal, from the first
        loop at which it is defined."""
        states, steps = self._take(hidden)
        if len(states) == 1:
            return {}
        now, before = states[1:], states[:-1]
        found: dict[str, Tensor] = {}
        norm = vector_norm(states, dim=2) if self._norms else None
        product = torch.mul(now, before, out=steps).sum(2) if self._cosine else None
        displacement = vector_norm(torch.sub(now, before, out=steps), dim=2)
        found["hidden_displacement"] = displacement
        if norm is not None:
            still = displacement == 0
            found["relative_change"] = (displacement / norm[1:]).masked_fill_(still, 0.0)
            if product is not None:
                scale = norm[1:] * norm[:-1]
                cosine = (product / scale).clamp_(-1.0, 1.0).masked_fill_(scale == 0, 0.0)
                # exactly 1, whatever rounding says
                found["hidden_cosine"] = cosine.masked_fill_(still, 1.0)
        if self._accelerates and len(steps) > 1:
            turns = torch.sub(steps[1:], steps[:-1], out=states[2:])
            found["acceleration"] = vector_norm(turns, dim=2)
            if len(turns) > 1:
                last_two = found["acceleration"][1:], found["acceleration"][:-1]
                found["acceleration_twice"] = torch.maximum(*last_two)
        return found

    def _take(self, hidden: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """`hidden` as float64 [loop, row, d_model], and room for what lies between two loops."""
        loops, (rows, width) = len(hidden), hidden[0].shape
        count = loops * rows * width
        if self._memory.numel() < 2 * count or self._memory.device != hidden[0].device:
            self._memory = hidden[0].new_empty(2 * count, dtype=torch.float64)
        states, steps = self._memory[: 2 * count].view(2, loops, rows, width)
        for into, state in zip(states, hidden, strict=True):
            into.copy_(state)
        return states, steps[1:]
