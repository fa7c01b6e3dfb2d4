"""Rows that decode side by side, each token to the loop at which the rule lets it leave.

A token that leaves at loop d makes no keys and values of deeper loops, which later tokens may want.
`full` runs it on to the last loop all the same, and only reads its prediction earlier: that is what
offline scores assume. `recompute` runs it on once a later token of its row gets to a loop that it
lacks: what then comes of any token is what `full` gives. `copy-last` lets what loop d made stand
for all deeper loops.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from trajdiag.errors import ConfigError
from trajdiag.latency.exits import Exits
from trajdiag.latency.rule import LiveRule, refuse_continuations
from trajdiag.models.base import LoopedModel
from trajdiag.models.cached_ouro import CachedOuro, Spans
from trajdiag.models.ouro import OuroModel

Context = Literal["full", "recompute", "copy-last"]
"""What earlier tokens leave for later ones; see the module."""


class CachedRows:
    """See the module. All run in inference mode."""

    def __init__(
        self,
        model: OuroModel,
        rule: LiveRule,
        context: Context,
        *,
        rows: int,
        name: Callable[[int], str],
        positions: int = 64,
        around_loops: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """So many empty rows, with room for so many positions to begin with; `name` says a row's
        number in words; each pass through a loop is inside `around_loops`. Raises ConfigError where
        the rule reads what decoding has not."""
        refuse_continuations(rule)
        self._model, self._rule, self._context, self._name = model, rule, context, name
        self._around_loops = around_loops
        self._cached = CachedOuro(model, loops=rule.loops, rows=rows, positions=positions)
        self._place = np.arange(rows)
        """[row]: where the caches hold each; -1 where it has been let go."""
        self.length = np.zeros(rows, np.int64)
        """[row]: the positions behind each."""
        self.loops_run = np.zeros(rows, np.int64)
        """[row]: the loops that its positions went through, whatever for."""
        self._filled = np.zeros((rule.loops, rows), np.int64)
        """[loop, row]: under `recompute`, the positions, from the first on, that went through the
        loop; all others lack it."""
        lacks = context == "recompute"
        self._states = self._cached.states(positions) if lacks else None
        """[place, position, d_model]: of the deepest loop that each position went through."""
        self._spans: tuple[np.ndarray, Spans] | None = None

    @torch.inference_mode()
    def prefill(self, tokens: Sequence[Sequence[int]]) -> Exits:
        """Begin each row with its tokens, at full depth: where their last ones leave, as the rule
        has it."""
        width = np.array([len(row) for row in tokens])
        rows, start = np.arange(len(width)), np.zeros(len(width), np.int64)
        self._make_room(int(width.max()))
        spans = self._cached.spans(rows, start, width)
        exits = self._exits(rows, width - 1)
        x = self._embedded([token for row in tokens for token in row])
        for loop in range(1, self._rule.loops + 1):
            x = self._looped(x, loop, spans)
            if len(exits.undecided):
                exits.see(loop, x[spans.last[torch.from_numpy(exits.undecided).to(x.device)]])
        self.length[:] = width
        self._filled[:] = width
        self.loops_run += width * self._rule.loops
        return exits

    @torch.inference_mode()
    def step(self, rows: np.ndarray, tokens: Sequence[int] | Tensor) -> Exits:
        """One token more, [row], of each of `rows`, ascending: where it leaves, and what it
        predicts there."""
        assert (self._place[rows] >= 0).all()
        self._make_room(int(self.length[rows].max()) + 1)
        exits = self._exits(rows, self.length[rows])
        going, x = rows, self._embedded(tokens)
        for loop in range(1, self._rule.loops + 1):
            x = self._advanced(going, x, loop)
            if self._context == "full":
                if len(exits.undecided):
                    exits.see(loop, x if len(exits.undecided) == len(x) else _of(x, exits))
                continue
            leaves = exits.see(loop, x)
            if leaves.any():
                stays = np.flatnonzero(~leaves)
                self._leave(going[leaves], x, np.flatnonzero(leaves), loop)
                if not len(stays):
                    break
                going, x = going[stays], x[torch.from_numpy(stays).to(x.device)]
        self.length[rows] += 1
        return exits

    @property
    def held(self) -> int:
        """How many rows the caches hold."""
        return self._cached.cache.rows

    @torch.inference_mode()
    def keep(self, rows: np.ndarray) -> None:
        """Let go of what is held of all rows but `rows`, ascending: these alone can go on, and keep
        their numbers."""
        places = self._place[rows]
        self._spans = None
        self._cached.cache.keep(places, int(self.length.max()))
        if self._states is not None:
            self._states = self._states[torch.from_numpy(places).to(self._model.device)]
        self._place[:] = -1
        self._place[rows] = np.arange(len(rows))

    def _advanced(self, going: np.ndarray, x: Tensor, loop: int) -> Tensor:
        """The states of the latest tokens of the rows `going` after `loop`, [row, d_model]; with
        what they want there of earlier ones."""
        at = self.length[going]
        start = at if self._states is None else self._filled[loop - 1, going]
        self._filled[loop - 1, going] = at + 1
        self.loops_run[going] += at + 1 - start
        if (start == at).all():
            return self._looped(x, loop, self._single(going))
        assert self._states is not None
        spans = self._cached.spans(self._place[going], start, at + 1 - start)
        self._put_states(going, x)
        x = self._looped(self._states[spans.row, spans.position], loop, spans)
        self._states[spans.row, spans.position] = x
        return x[spans.last]

    def _looped(self, x: Tensor, loop: int, spans: Spans) -> Tensor:
        with self._around_loops():
            return self._cached.loop(x, loop, spans)

    def _leave(self, rows: np.ndarray, x: Tensor, at: np.ndarray, loop: int) -> None:
        """The latest tokens of `rows`, whose states are `x` at the places `at`, leave at `loop`."""
        if loop == self._rule.loops:
            return
        if self._states is not None:
            self._put_states(rows, x[torch.from_numpy(at).to(x.device)])
        else:
            self._cached.cache.copy_deeper(loop, self._place[rows], self.length[rows])

    def _put_states(self, rows: np.ndarray, x: Tensor) -> None:
        assert self._states is not None
        at = self._place[rows], self.length[rows]
        row, position = (torch.from_numpy(i).to(x.device) for i in at)
        self._states[row, position] = x

    def _single(self, going: np.ndarray) -> Spans:
        """The spans of one token each, kept as long as the same rows go on."""
        if self._spans is None or self._spans[0] is not going:
            at = self.length[going]
            spans = self._cached.spans(self._place[going], at, np.ones_like(at))
            self._spans = going, spans
        return self._spans[1]

    def _make_room(self, positions: int) -> None:
        self._spans = None
        self._cached.grow(positions)
        room = self._cached.cache.positions
        if self._states is not None and self._states.shape[1] < room:
            before = self._states
            self._states = self._cached.states(room)
            self._states[:, : before.shape[1]] = before

    def _exits(self, rows: np.ndarray, position: np.ndarray) -> Exits:
        def name(number: int) -> str:
            return f"position {position[number] + 1} of {self._name(int(rows[number]))}"

        return Exits(self._model, self._rule, len(rows), name)

    def _embedded(self, tokens: Sequence[int] | Tensor) -> Tensor:
        return self._model.decoder.embed(torch.as_tensor(tokens, device=self._model.device))


def require_caching(model: LoopedModel) -> OuroModel:
    """`model`, where it can be decoded with a cache; else ConfigError."""
    if not isinstance(model, OuroModel):
        raise ConfigError(
            "decoding token by token is for models in Ouro's format (family ouro): "
            f"{model.record.name} is of family {model.record.family}"
        )
    return model


def _of(x: Tensor, exits: Exits) -> Tensor:
    """The states [row, d_model] of the rows that have not left."""
    return x[torch.from_numpy(exits.undecided).to(x.device)]
