"""What a stopping rule remembers of the loops of some examples, and what it says of the latest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import torch
from torch import Tensor

from trajdiag.latency.rule import LiveRule
from trajdiag.models.rows import gathered
from trajdiag.store.device_copies import at_home


@dataclass(kw_only=True)
class RuleMemory:
    """Of examples that may stand at different loops."""

    rule: LiveRule
    table: Tensor
    """float64 [example, loop, width]: what the meter has kept."""
    before: dict[str, list[Tensor]]
    """The readings of the last loops that the next one's are seen beside, [example, ...], by name;
    empty before the first."""

    @classmethod
    def of(cls, rule: LiveRule, examples: int, device: torch.device) -> "RuleMemory":
        """Nothing, yet."""
        shape = examples, rule.loops, rule.meter.width
        table = torch.zeros(shape, dtype=torch.float64, device=device)
        return cls(rule=rule, table=table, before={})

    def reads(self, loop: np.ndarray | int) -> np.ndarray:
        """bool, as `loop`: whether the rule reads the loops with these numbers, which the last of
        all never is."""
        found = (self.rule.meter.first_read <= loop) & (np.asarray(loop) < self.rule.loops)
        return found & (not self.rule.never_leaves)

    def see(self, readings: Mapping[str, Tensor], loop: Tensor) -> "Seen":
        """Take in the readings, [example, ...] by name, of the loops int64 [example] at which the
        examples stand, and say which of them are to leave there."""
        meter = self.rule.meter
        window = {}
        for name, latest in readings.items():
            before = self.before.get(name) or [torch.zeros_like(latest)] * (meter.window - 1)
            window[name] = [*before, latest]
            self.before[name] = window[name][1:]
        kept = meter.keep(window, self.table, loop)
        self.table[torch.arange(len(loop), device=loop.device), loop - 1] = kept
        # all that the host has to know of the loop, in one copy
        crosses = self.rule.crosses(self.table, loop)
        sound = [finite(values) for values in readings.values()]
        crossed, *sound = at_home(torch.stack([crosses, *sound])).numpy()
        return Seen(leaves=crossed, sound=dict(zip(readings, sound, strict=True)))


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a loop's readings said."""

    leaves: np.ndarray
    """bool [example]."""
    sound: Mapping[str, np.ndarray]
    """bool [example] by reading: whether all its numbers are finite."""


def gathered_memory(parts: Sequence[tuple[RuleMemory, Tensor]]) -> RuleMemory:
    """One memory of the wanted examples, int64 [example], of every part; of one rule."""
    before = {}
    for name, like in next((m.before for m, _ in parts if m.before), {}).items():
        filled = [(_filled(memory, name, like), examples) for memory, examples in parts]
        before[name] = [gathered(filled, itemgetter(loop)) for loop in range(len(like))]
    table = gathered(parts, lambda memory: memory.table)
    return RuleMemory(rule=parts[0][0].rule, table=table, before=before)


def finite(values: Tensor) -> Tensor:
    """bool [example]: whether all numbers of `values` [example, ...] are finite."""
    return values.reshape(len(values), -1).sum(1, dtype=torch.float32).isfinite()


def _filled(memory: RuleMemory, name: str, like: Sequence[Tensor]) -> Sequence[Tensor]:
    """A memory's readings of a name, zeros, as many as in `like`, where it has none yet."""
    examples = len(memory.table)
    return memory.before.get(name) or [x.new_zeros(examples, *x.shape[1:]) for x in like]
