"""The keys and values that a looped model's attention has made, of every loop and layer."""

import numpy as np
import torch
from torch import Tensor

from trajdiag.models.config import OuroConfig


class LoopCache:
    """Rows of positions, each row filled from position 0 on.

    Slot (loop, layer) is loop x layers + layer of Ouro's own code. What no position has filled is
    zeros, which a masked score times 0 leaves out, as it would not leave out NaN.
    """

    def __init__(
        self,
        config: OuroConfig,
        *,
        loops: int,
        rows: int,
        positions: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        """Room for so many positions, to begin with."""
        heads = 2 * config.num_key_value_heads
        shape = loops, config.num_hidden_layers, rows, heads, positions, config.head_dim
        self._held = torch.zeros(shape, device=device, dtype=dtype)
        """[loop, layer, row, 2 x key head, position, head_dim]: keys, turned, then values."""

    @property
    def rows(self) -> int:
        return self._held.shape[2]

    @property
    def positions(self) -> int:
        """For how many there is room."""
        return self._held.shape[4]

    def grow(self, positions: int) -> None:
        """Make room for so many positions, and for twice as many as there are if that is more."""
        if positions <= self.positions:
            return
        held = self._held
        shape = list(held.shape)
        shape[4] = max(positions, 2 * self.positions)
        self._held = held.new_zeros(shape)
        self._held[:, :, :, :, : held.shape[4]] = held

    def keep(self, rows: np.ndarray, positions: int) -> None:
        """Let go of all rows but these, int64 [row] ascending, which are the first ones then, in
        this order; of rows that fill so many positions at most. They move within the memory that
        there is, which the next `grow` gives back."""
        for place, row in enumerate(rows.tolist()):
            if place != row:
                self._held[:, :, place, :, :positions] = self._held[:, :, row, :, :positions]
        self._held = self._held[:, :, : len(rows)]

    def write(self, loop: int, layer: int, row: Tensor, position: Tensor, heads: Tensor) -> None:
        """Put in the keys and values of tokens, `heads` [token, 2 x key head, head_dim], made at
        `loop` (from 1) and `layer` (from 0), at their rows and positions, int64 [token]."""
        self._held[loop - 1, layer][row, :, position] = heads

    def read(self, loop: int, layer: int, rows: Tensor | int, positions: int) -> Tensor:
        """[row, 2 x key head, position, head_dim] of the first positions of these rows: int64
        [row], or how many from the first row on."""
        held = self._held[loop - 1, layer, :, :, :positions]
        return held[:rows] if isinstance(rows, int) else held.index_select(0, rows)

    def copy_deeper(self, loop: int, rows: np.ndarray, positions: np.ndarray) -> None:
        """Let what `loop` made at these places, int64 [place] each, stand for all deeper loops."""
        device = self._held.device
        row, position = (torch.from_numpy(x).to(device) for x in (rows, positions))
        # indexed apart by a slice, the places come first: [place, loop, layer, head, head_dim]
        made = self._held[loop - 1 : loop, :, row, :, position]
        self._held[loop:, :, row, :, position] = made
