"""What a stopping rule makes of a loop's readings, example by example, while the model runs.

A meter keeps a few numbers of every loop; its value at loop t is what the same rule gives offline,
from the same functions, of the numbers up to loop t. Examples of one batch may stand at different
loops. Everything is rounded to float32 where it is offline, which takes away the last bits of
float64, the only ones that depend on what else is computed at once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from trajdiag.gates.gate import Gate
from trajdiag.gates.signal_reader import SignalReader
from trajdiag.gates.state_reader import StateReader
from trajdiag.readout_registry import NATIVE
from trajdiag.signals.prediction import run_length, vote_share
from trajdiag.signals.registry import SIGNALS
from trajdiag.signals.tracker import SignalTracker
from trajdiag.store.schema import GATE

LOGITS, STATES = "logits", "hidden"
"""Readings are named as a store names the array that it keeps of them."""

Readings = Mapping[str, Sequence[Tensor]]
"""By name, those of the last loops, [example, ...] each, the latest last. What lies before an
example's first loop is zeros."""

_VOTES = {"argmax_stability": run_length, "vote_share": vote_share}
"""Signals of the predictions of all loops so far."""
_Tracked = tuple[str, list[int], int, SignalTracker]
"""What some signals read, their columns, the loops that they need, and what computes them."""
_READS = {"logits": LOGITS, "states": STATES}


class Meter(Protocol):
    """See the module."""

    reads: frozenset[str]
    """The readings that it needs of each loop."""
    window: int
    """Of how many loops, the latest included."""
    first_read: int
    """The first loop that it has to see."""
    width: int
    """The numbers that it keeps of a loop."""

    def keep(self, readings: Readings, table: Tensor, loop: Tensor) -> Tensor:
        """What to keep of the loop at which each example stands, `loop` int64 [example] from 1:
        float64 [example, width]. `table` float64 [example, loop, width] is what was kept before."""
        ...

    def value(self, table: Tensor, loop: Tensor) -> Tensor:
        """[example] at the same loops, once that is in the table."""
        ...


class LoopMeter:
    """The loop's number."""

    reads: frozenset[str] = frozenset()
    window, first_read, width = 0, 1, 0

    def keep(self, readings: Readings, table: Tensor, loop: Tensor) -> Tensor:
        """See Meter."""
        return table[:, 0]

    def value(self, table: Tensor, loop: Tensor) -> Tensor:
        """See Meter."""
        return loop.double()


class SignalMeter:
    """Signals; their values stand in the first columns, in order. With several, `value` is that of
    the first."""

    def __init__(self, names: Sequence[str], loops: int, first_loop: int = 1) -> None:
        """`names` of SIGNALS, of models of so many loops; not asked for before `first_loop`."""
        signals = [SIGNALS[name] for name in names]
        self._first_loops = torch.tensor([signal.first_loop for signal in signals])
        self._by_vote = [(i, _VOTES[name]) for i, name in enumerate(names) if name in _VOTES]
        self._tracked: list[_Tracked] = []
        for array in (LOGITS, STATES):
            columns = [
                i
                for i, signal in enumerate(signals)
                if _READS[signal.reads] == array and signal.name not in _VOTES
            ]
            if columns:
                window = min(max(signals[i].first_loop for i in columns), loops)
                tracker = SignalTracker([names[i] for i in columns])
                self._tracked.append((array, columns, window, tracker))
        self.reads = frozenset(_READS[signal.reads] for signal in signals)
        self.window = max([1, *(window for _, _, window, _ in self._tracked)])
        self.first_read = 1 if self._by_vote else max(1, first_loop - self.window + 1)
        self.width = len(names) + bool(self._by_vote)

    def keep(self, readings: Readings, table: Tensor, loop: Tensor) -> Tensor:
        """See Meter; after the signals the predicted class, where a signal counts votes."""
        found = table.new_full((len(loop), self.width), torch.nan)
        for array, columns, window, tracker in self._tracked:
            last = list(readings[array])[-window:]
            tracked = tracker.track(**{"hidden" if array == STATES else "logits": last})
            found[:, columns] = tracked[:, -1].t().double()
        if self._by_vote:
            top = readings[LOGITS][-1].double().max(1).indices
            found[:, -1] = top.double()
            tops = table[..., -1].long().scatter_(1, loop[:, None] - 1, top[:, None]).t()
            for column, count in self._by_vote:
                # as float32 as the signals that stores keep
                counted = count(tops).float().t()
                if counted.shape[1]:
                    found[:, column] = _own(counted, (loop - 1).clamp(min=1)).double()
        early = loop[:, None] < self._first_loops.to(loop.device)
        found[:, : early.shape[1]].masked_fill_(early, torch.nan)
        return found

    def value(self, table: Tensor, loop: Tensor) -> Tensor:
        """See Meter."""
        return _own(table[..., 0], loop)


class OwnGateMeter:
    """The model's own gate, by a rule that makes values [example, loop] of its logits."""

    window, first_read, width = 1, 1, 1

    def __init__(self, array: str, rule: Callable[[Tensor], Tensor]) -> None:
        """`array` is the store's name of the logits."""
        self.reads = frozenset([array])
        self._array, self._rule = array, rule

    def keep(self, readings: Readings, table: Tensor, loop: Tensor) -> Tensor:
        """See Meter."""
        return readings[self._array][-1].double()[:, None]

    def value(self, table: Tensor, loop: Tensor) -> Tensor:
        """See Meter."""
        return _own(self._rule(table[..., 0].float()), loop)


class FittedGateMeter:
    """A fitted gate, of the states or of the signals; its reader's outputs stand last."""

    def __init__(self, gate: Gate, loops: int) -> None:
        self._gate, self._loops = gate, loops
        self._reader = gate.reader_
        self.first_read = 1
        if isinstance(self._reader, StateReader):
            self.reads, self.window, self.width = frozenset([STATES]), 1, 1
            return
        assert isinstance(self._reader, SignalReader)
        names = self._reader.names
        self._signals = SignalMeter([name for name in names if name != NATIVE], loops)
        self._has_own = NATIVE in names
        # where each name's value stands among what is kept
        order = [name for name in names if name != NATIVE]
        own = self._signals.width
        self._columns = [own if name == NATIVE else order.index(name) for name in names]
        self.reads = self._signals.reads | frozenset([GATE] * self._has_own)
        self.window = self._signals.window
        self.width = self._signals.width + self._has_own + 1

    def keep(self, readings: Readings, table: Tensor, loop: Tensor) -> Tensor:
        """See Meter."""
        if isinstance(self._reader, StateReader):
            return self._reader.logits(readings[STATES][-1]).double()[:, None]
        kept = [self._signals.keep(readings, table[..., : self._signals.width], loop)]
        if self._has_own:
            kept.append(readings[GATE][-1].double()[:, None])
        values = torch.cat(kept, dim=1)
        before = _own(table, (loop - 1).clamp(min=1))
        before = before.masked_fill((loop == 1)[:, None], torch.nan)
        return torch.cat([values, self._boosted(values, before, loop)[:, None]], dim=1)

    def value(self, table: Tensor, loop: Tensor) -> Tensor:
        """See Meter."""
        read = self._gate.read_loops(self._loops)
        outputs = table[:, read.start - 1 : read.stop - 1, -1]
        return _own(self._gate.stop_values(outputs, self._loops), loop)

    def _boosted(self, values: Tensor, before: Tensor, loop: Tensor) -> Tensor:
        assert isinstance(self._reader, SignalReader)
        now, previous = (x[:, self._columns].cpu().numpy() for x in (values, before))
        found = self._reader.output(now, previous, loop.cpu().numpy().astype(np.float64))
        return torch.from_numpy(found).to(values.device)


def _own(values: Tensor, loop: Tensor) -> Tensor:
    """What each example's own loop holds: [example, ...] of [example, loop, ...]."""
    return values[torch.arange(len(loop), device=loop.device), loop - 1]
