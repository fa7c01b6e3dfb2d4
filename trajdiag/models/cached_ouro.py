"""An Ouro model's loops against the keys and values of earlier positions."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention

from trajdiag.models.batch import Batch, LayerWeights
from trajdiag.models.loop_cache import LoopCache
from trajdiag.models.ouro import OuroModel


@dataclass(frozen=True, kw_only=True)
class Spans:
    """Consecutive positions of some rows that go through a loop together, row by row as tokens."""

    row: Tensor
    """int64 [token]: in the cache."""
    position: Tensor
    """int64 [token]."""
    last: Tensor
    """int64 [row]: the token at the end of each row."""
    turn: Tensor
    """Of the tokens; see Batch."""
    rows: Tensor | int
    """int64 [row], or how many where they are the cache's first in order."""
    widest: int
    """Tokens of the longest span."""
    reach: int
    """Positions that any of them attends to."""
    mask: Tensor | None
    """bool [row, 1, query, key]; None where every query attends to all of them."""
    lane: Tensor | None
    """int64 [token]: its place among the queries, row x widest + number in the span; None where
    all spans are as long."""


class CachedOuro:
    """Rows that grow position by position, each loop with a cache of its own.

    A position attends, at each loop, to what that loop (or what stands for it) made of the
    positions up to it.
    """

    def __init__(self, model: OuroModel, *, loops: int, rows: int, positions: int) -> None:
        """So many rows, with room for so many positions to begin with."""
        self.model = model
        self._config = model.decoder.config
        self.cache = LoopCache(
            self._config,
            loops=loops,
            rows=rows,
            positions=positions,
            device=model.device,
            dtype=model.dtype,
        )
        self._shared = self._with_angles()

    def grow(self, positions: int) -> None:
        """Make room for so many positions."""
        if positions > self.cache.positions:
            self.cache.grow(positions)
            self._shared = self._with_angles()

    def states(self, positions: int) -> Tensor:
        """A place for the states of all rows, [row, position, d_model]."""
        shape = self.cache.rows, positions, self.model.d_model
        return torch.zeros(shape, device=self.model.device, dtype=self.model.dtype)

    def spans(self, rows: np.ndarray, start: np.ndarray, width: np.ndarray) -> Spans:
        """Of the cache's `rows` the positions from `start` on, `width` of them; int64 [row] all."""
        count, widest, reach = len(rows), int(width.max()), int((start + width).max())
        device = self.model.device

        def there(x: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(x)).to(device)

        number = np.arange(widest)
        real = number < width[:, None]
        # a query beyond its span's end is the last one again, and nobody reads it
        query = start[:, None] + np.minimum(number, width[:, None] - 1)
        position = there(query[real])
        sees = np.arange(reach) <= query[:, None, :, None]
        in_order = bool((rows == np.arange(count)).all())
        return Spans(
            row=there(np.repeat(rows, width)),
            position=position,
            last=there(np.cumsum(width) - 1),
            turn=self._shared.turn_of(position),
            rows=count if in_order else there(rows),
            widest=widest,
            reach=reach,
            mask=None if sees.all() else there(sees),
            lane=None if real.all() else there(np.flatnonzero(real)),
        )

    def loop(self, x: Tensor, loop: int, spans: Spans) -> Tensor:
        """The tokens of `spans` through `loop`, from 1: [token, d_model] to [token, d_model]. What
        their attention makes of them is in the cache then."""
        decoder = self.model.decoder
        for number, layer in enumerate(self._shared.layers):
            heads = decoder.heads(x, layer, spans.turn)
            attended = self._attend(heads, layer, loop, number, spans)
            x = decoder.after_attention(x, attended, layer)
        return decoder.last_norm(x)

    def _attend(
        self, heads: Tensor, layer: LayerWeights, loop: int, number: int, spans: Spans
    ) -> Tensor:
        queries, keys = self._config.num_attention_heads, self._config.num_key_value_heads
        dim, width = self._config.head_dim, spans.widest
        q, made = heads.split([queries, 2 * keys], dim=1)
        self.cache.write(loop, number, spans.row, spans.position, made)
        k, v = self.cache.read(loop, number, spans.rows, spans.reach).chunk(2, dim=1)
        if spans.lane is not None:
            q = q.new_zeros(len(k) * width, queries, dim).index_copy_(0, spans.lane, q)
        # heads that share a key stand beside one another as more queries of it
        group = queries // keys
        q = q.reshape(len(k), width, keys, group, dim).permute(0, 2, 3, 1, 4)
        mask = spans.mask
        if mask is not None and group > 1:
            mask = mask.expand(-1, group, -1, -1).flatten(1, 2)[:, None]
        out = scaled_dot_product_attention(q.flatten(2, 3), k, v, attn_mask=mask)
        out = out.unflatten(2, (group, width)).permute(0, 3, 1, 2, 4).reshape(len(k) * width, -1)
        return linear(out if spans.lane is None else out[spans.lane], layer.output)

    def _with_angles(self) -> Batch:
        """The decoder's weights, and the angles of all positions that there is room for."""
        positions = self.cache.positions
        places = torch.arange(positions, device=self.model.device)
        return self.model.decoder.batch(((1, positions),), places, lean=False)
