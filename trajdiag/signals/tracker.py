"""Computing the stopping signals: how sure the readout looks, and how much the loop still changes.

All are computed in float64, those of probabilities in log space, so that a saturated softmax still
ranks, and stored as float32: what is beyond its range becomes its largest number, so that a signal
is finite wherever it is defined.
"""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from trajdiag.errors import UnknownNameError
from trajdiag.signals.prediction import PredictionTracker
from trajdiag.signals.registry import KEPT, SIGNALS, Signal
from trajdiag.signals.states import StateTracker

__all__ = ["KEPT", "SIGNALS", "Signal", "SignalTracker", "compute_signals"]

_LARGEST = float(np.finfo(np.float32).max)


class SignalTracker:
    """The signals of a batch of rows that runs loop after loop.

    `reset` starts another batch. One tracker for many batches reuses its memory, which matters:
    touching fresh memory costs more than the arithmetic.
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

    def reset(self) -> None:
        """Forget the loops before: the next update is a batch's first loop."""
        for tracker in (self._predictions, self._states):
            if tracker is not None:
                tracker.reset()

    @torch.no_grad()
    def update(
        self, hidden: Tensor | None = None, logits: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Read the next loop: `hidden` [row, d_model], `logits` [row, class], of any float dtype.

        Gives the signals by name, float64 [row] in float32's range, NaN before a signal's first
        loop. What no signal reads may be left out; a ValueError says where one does.
        """
        found: dict[str, Tensor] = {}
        for tracker, given, what in (
            (self._predictions, logits, "logits"),
            (self._states, hidden, "hidden states"),
        ):
            if tracker is not None:
                if given is None:
                    raise ValueError(f"signals {', '.join(self.names)} need {what}")
                found |= tracker.update(given)
        missing = [name for name in self.names if name not in found]
        read = hidden if logits is None else logits
        if missing and read is not None:
            undefined = torch.full_like(read[:, 0], torch.nan, dtype=torch.float64)
            found |= dict.fromkeys(missing, undefined)
        if not self.names:
            return {}
        # Together: while a model runs, calls cost more than arithmetic.
        values = torch.stack([found[name] for name in self.names]).clamp_(-_LARGEST, _LARGEST)
        return dict(zip(self.names, values.unbind(), strict=True))


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
    given = [None if x is None else torch.as_tensor(x) for x in (hidden, logits)]
    rows, loops = next((x.shape[:2] for x in given if x is not None), (0, 0))
    signals = {name: np.empty((rows, loops), np.float32) for name in tracker.names}
    for loop in range(loops):
        at_loop = (None if x is None else x[:, loop] for x in given)
        for name, value in tracker.update(*at_loop).items():
            signals[name][:, loop] = value.cpu().numpy()
    return signals
