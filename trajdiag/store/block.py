"""One block of examples in memory, laid out as on disk, with its signals."""

import math
import mmap
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from trajdiag.errors import NonFiniteError
from trajdiag.signals.tracker import SignalTracker
from trajdiag.store.device_copies import at_home
from trajdiag.store.schema import CONTINUATION_GATE, GATE, SIGNAL, ArraySpec

_PROOF = {"logits": ("entropy", 1), "hidden": ("hidden_cosine", 2)}
"""Signals that are NaN where any number that they read is NaN or infinite, and the first loop from
which they read all: they save a pass over what the store keeps most of."""
_SPOKEN = {"hidden": "hidden state", GATE: "gate logit", CONTINUATION_GATE: "gate logit"}


class Block:
    """Memory for one block, reused from block to block: touching fresh memory is what costs."""

    def __init__(self, specs: Mapping[str, ArraySpec]) -> None:
        """`specs` as `block_specs` gives them, with the signals to keep."""
        self.arrays: dict[str, np.ndarray] = {}
        """Every array's chunks as StoreWriter.write_block takes them."""
        self._loops, self._size = specs["hidden"].shape[1], specs["hidden"].chunk[0]
        names = [name.removeprefix(SIGNAL) for name in specs if name.startswith(SIGNAL)]
        self._tracker = SignalTracker(names)
        for name, spec in specs.items():
            if name.startswith(SIGNAL):
                continue
            chunks = (self._loops, self._size) if len(spec.shape) == 3 else (self._size,)
            self.arrays[name] = _pages((*chunks, spec.shape[-1]), spec.disk_dtype)
        self._signals = _pages((len(names), self._size, self._loops), np.dtype(np.float32))
        for name, values in zip(names, self._signals, strict=True):
            self.arrays[SIGNAL + name] = values
        self._ids = np.empty(0, str)

    def begin(self, ids: np.ndarray) -> None:
        """Start a block of the examples `ids`, str [example]; what lies beyond them is padding."""
        self._ids = ids
        if len(ids) < self._size:
            for values in self.arrays.values():
                by_loop = values.ndim == 3
                (values[:, len(ids) :] if by_loop else values[len(ids) :])[...] = 0

    def fill(self, at: np.ndarray, loops: Mapping[str, Sequence[Tensor]]) -> None:
        """Put the trajectories of some examples at the places `at` [row] of the block.

        `loops` holds, by the name of its array, one tensor a loop: `hidden` [row, d_model], float32
        `logits` [row, class], from which the signals are computed whether the store keeps them or
        not, and [row] or [row, ...] for every other array. Raises NonFiniteError naming the example
        and the loop.
        """
        tracked = _as_stored(self._tracker.track(loops["hidden"], loops["logits"]))
        signals = dict(zip(self._tracker.names, tracked, strict=True))
        kept = {name: loops[name] for name in self.arrays if not name.startswith(SIGNAL)}
        for name, values in (kept | {"logits": loops["logits"]}).items():
            if not _is_proved_finite(name, values, signals):
                self._require_finite(name, values, at)
        for name, values in kept.items():
            stored = self.arrays[name]
            if values[0].ndim == 1:
                stored[at] = _as_stored(torch.stack(list(values), 1))
            else:
                for into, x in zip(stored, _all_at_home(values), strict=True):
                    into[at] = _as_stored(x)
        self._signals[:, at] = tracked.transpose(0, 2, 1)

    def _require_finite(self, name: str, loops: Sequence[Tensor], at: np.ndarray) -> None:
        """`loops` [row, ...] each, of the examples at the places `at`."""
        for loop, values in enumerate(loops):
            bad = ~torch.isfinite(values.reshape(len(values), -1)).all(1)
            if bool(bad.any()):
                example = self._ids[int(at[int(bad.nonzero()[0, 0])])]
                raise not_finite(name, f"example {example}", loop + 1)


def not_finite(name: str, whose: str, loop: int) -> NonFiniteError:
    """The error for the array `name` of an example, in words, at a loop."""
    return NonFiniteError(
        f"{_SPOKEN.get(name, name)} of {whose} at loop {loop} is NaN or infinite; check the "
        "model's weights, or compute in another dtype"
    )


def _is_proved_finite(
    name: str, loops: Sequence[Tensor], signals: Mapping[str, np.ndarray]
) -> bool:
    """Whether a sum over all numbers of `loops`, or a signal of them, says that all are finite."""
    signal, first_loop = _PROOF.get(name, ("", 1))
    if signal in signals:
        return math.isfinite(signals[signal][first_loop - 1 :].sum())
    return all(math.isfinite(float(x.sum(dtype=torch.float32))) for x in loops)


def _all_at_home(loops: Sequence[Tensor]) -> Sequence[Tensor]:
    """`loops` on the CPU; a device is waited for once, not once a loop."""
    return loops if loops[0].device.type == "cpu" else at_home(torch.stack(list(loops))).unbind()


def _as_stored(x: Tensor) -> np.ndarray:
    bits = x.view(torch.uint16) if x.dtype == torch.bfloat16 else x
    return at_home(bits).numpy()


def _pages(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros that begin on a page, as writing past the page cache needs."""
    memory = mmap.mmap(-1, max(1, math.prod(shape) * dtype.itemsize))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype, math.prod(shape)).reshape(shape)
