"""Computing the stopping signals: how sure the readout looks, and how much the loop still changes.

All are computed in float64, those of probabilities in log space, so that a saturated softmax still
ranks, and stored as float32: what is beyond its range becomes its largest number, so that a signal
is finite wherever it is defined.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from trajdiag.errors import UnknownNameError
from trajdiag.signals.prediction import PredictionTracker
from trajdiag.signals.registry import SIGNALS
from trajdiag.signals.states import StateTracker

_PIECE = 2**18
"""Numbers of one array, all loops of it, that a CPU works on at a time: few enough for its cache,
enough that it is not calls that take the time."""
_PIECE_ELSEWHERE = 2**25
"""And a device that must be kept busy."""
_LARGEST = float(np.finfo(np.float32).max)


class SignalTracker:
    """The signals of whole trajectories.

    One tracker for many batches reuses its memory, which matters: touching fresh memory costs more
    than the arithmetic.
    """

    def __init__(self, names: Iterable[str] | None = None) -> None:
        """`names`: the signals to compute; all when None. Raises UnknownNameError."""
        self.names = tuple(SIGNALS if names is None else names)
        for name in self.names:
            if name not in SIGNALS:
                raise UnknownNameError("signal", name, SIGNALS)
        asked = {
            reads: [name for name in self.names if SIGNALS[name].reads == reads]
            for reads in ("logits", "states")
        }
        self._predictions = PredictionTracker(asked["logits"]) if asked["logits"] else None
        self._states = StateTracker(asked["states"]) if asked["states"] else None

    @torch.no_grad()
    def track(
        self, hidden: Sequence[Tensor] | None = None, logits: Sequence[Tensor] | None = None
    ) -> Tensor:
        """Read every loop's `hidden` [row, d_model] and `logits` [row, class], of any float dtype.

        Gives float32 [signal, loop, row], the signals in the order of `names`, NaN before a
        signal's first loop. What no signal reads may be left out; a ValueError says where one does.
        """
        given: list[tuple[PredictionTracker | StateTracker, Sequence[Tensor]]] = []
        for tracker, loops, what in (
            (self._predictions, logits, "logits"),
            (self._states, hidden, "hidden states"),
        ):
            if tracker is not None:
                if loops is None:
                    raise ValueError(f"signals {', '.join(self.names)} need {what}")
                given.append((tracker, loops))
        if not given:
            return torch.empty(0, 0, 0)
        first = given[0][1]
        rows, device = len(first[0]), first[0].device
        signals = torch.full((len(self.names), len(first), rows), torch.nan, device=device)
        numbers = _PIECE if device.type == "cpu" else _PIECE_ELSEWHERE
        for tracker, loops in given:
            piece = max(1, numbers // (len(loops) * loops[0].shape[1]))
            for start in range(0, rows, piece):
                part = slice(start, start + piece)
                found = tracker.track([x[part] for x in loops])
                for name, values in zip(self.names, signals, strict=True):
                    if name in found:
                        values[len(loops) - len(found[name]) :, part] = found[name]
        return signals.clamp_(-_LARGEST, _LARGEST)


def compute_signals(
    hidden: Tensor | np.ndarray | None,
    logits: Tensor | np.ndarray | None,
    names: Iterable[str] | None = None,
) -> dict[str, np.ndarray]:
    """The signals `names`, all when None, of `hidden` [row, loop, d_model] and `logits`
    [row, loop, class].

    Each is float32 [row, loop]: column t-1 is loop t; NaN before the signal's first loop. `hidden`
    may be None where no signal reads states, `logits` where none reads logits: else it is a
    ValueError. Raises UnknownNameError.
    """
    tracker = SignalTracker(names)
    given = [None if x is None else torch.as_tensor(x).unbind(1) for x in (hidden, logits)]
    signals = tracker.track(*given).cpu().transpose(1, 2)
    return {name: values.numpy() for name, values in zip(tracker.names, signals, strict=True)}
