"""Where rows that decode leave the loops, and what they predict there."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from trajdiag.latency.meter import LOGITS, STATES
from trajdiag.latency.rule import LiveRule
from trajdiag.latency.rule_memory import RuleMemory, finite, gathered_memory
from trajdiag.models.ouro import OuroModel
from trajdiag.store.block import not_finite
from trajdiag.store.schema import GATE

Name = Callable[[int], str]
"""What is read in a row, in words, for the user."""


class Exits:
    """Of one position of each of some rows, loop by loop."""

    def __init__(self, model: OuroModel, rule: LiveRule, rows: int, name: Name) -> None:
        """`name` speaks of rows by their numbers here."""
        self._model, self._name = model, name
        self._memory = RuleMemory.of(rule, rows, model.device)
        self.undecided = np.arange(rows)
        """int64: the rows that have not left, ascending."""
        self.depth = np.zeros(rows, np.int16)
        """[row]: the loop at which each left; 0 where it has not."""
        self.prediction = torch.zeros(rows, dtype=torch.int64, device=model.device)
        """[row]: the token that is likeliest there, the first of equals."""

    def see(self, loop: int, states: Tensor) -> np.ndarray:
        """Take in the `states` [undecided, d_model] of `loop`: which of these rows leave there,
        bool [undecided]. They are decided then.

        Raises NonFiniteError where a number that is read is NaN or infinite.
        """
        rule, device = self._memory.rule, self._model.device
        leaves = np.full(len(states), loop >= rule.loops)
        readings: dict[str, Tensor] = {}
        if self._memory.reads(loop):
            readings = self._read(states, rule.meter.reads)
            loops = torch.full((len(states),), loop, device=device)
            seen = self._memory.see(readings, loops)
            for reading, sound in seen.sound.items():
                self._require(reading, sound, loop)
            leaves |= seen.leaves
        if not leaves.any():
            return leaves
        at, rows = np.flatnonzero(leaves), self.undecided[leaves]
        self.depth[rows] = loop
        where = torch.from_numpy(at).to(device)
        logits = readings[LOGITS][where] if LOGITS in readings else self._model.head(states[where])
        sound = np.ones(len(states), bool)
        sound[at] = finite(logits).cpu().numpy()
        self._require(LOGITS, sound, loop)
        self.prediction[torch.from_numpy(rows).to(device)] = logits.argmax(1)
        stays = np.flatnonzero(~leaves)
        self.undecided = self.undecided[stays]
        self._memory = gathered_memory([(self._memory, torch.from_numpy(stays).to(device))])
        return leaves

    def _read(self, states: Tensor, names: frozenset[str]) -> dict[str, Tensor]:
        found = {}
        if LOGITS in names:
            found[LOGITS] = self._model.head(states)
        if STATES in names:
            found[STATES] = states
        if GATE in names:
            gate = self._model.decoder.gate(states)
            assert gate is not None  # a rule of it is refused without
            found[GATE] = gate
        return found

    def _require(self, reading: str, sound: np.ndarray, loop: int) -> None:
        if not sound.all():
            raise not_finite(reading, self._name(int(self.undecided[sound.argmin()])), loop)
