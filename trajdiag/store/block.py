"""One block of examples in memory, laid out as on disk, with its signals."""

import math
import mmap
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from trajdiag.errors import NonFiniteError
from trajdiag.signals.tracker import SignalTracker
from trajdiag.store.schema import SIGNAL, ArraySpec

_PIECE = 2**17
"""Numbers per array that signals are computed on at a time on a CPU: few enough for its cache."""
_PIECE_ELSEWHERE = 2**23
"""And on a device that must be kept busy."""
_SPOKEN = {"hidden": "hidden state", "gate_logit": "gate logit"}


class Block:
    """Memory for one block, reused from block to block: touching fresh memory is what costs."""

    def __init__(self, specs: Mapping[str, ArraySpec]) -> None:
        """`specs` as `block_specs` gives them, with the signals to keep."""
        self.arrays: dict[str, np.ndarray] = {}
        """Every array's chunks as StoreWriter.write_block takes them."""
        self._loops, (self._size, _, self._d_model) = (
            specs["hidden"].shape[1],
            specs["hidden"].chunk,
        )
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
        hidden, logits = loops["hidden"], loops["logits"]
        kept = {name: loops[name] for name in self.arrays if not name.startswith(SIGNAL)}
        numbers = _PIECE if hidden[0].device.type == "cpu" else _PIECE_ELSEWHERE
        piece = max(1, numbers // max(self._d_model, logits[0].shape[1]))
        for start in range(0, len(at), piece):
            rows = slice(start, start + piece)
            place = at[rows]
            self._tracker.reset()
            for loop in range(self._loops):
                h, z = hidden[loop][rows], logits[loop][rows]
                if "logits" not in kept:
                    self._require_finite("logits", z, loop, place)
                for name, values in kept.items():
                    x = values[loop][rows]
                    self._require_finite(_SPOKEN.get(name, name), x, loop, place)
                    stored = self.arrays[name]
                    if x.ndim == 1:
                        stored[place, loop] = _as_stored(x)
                    else:
                        stored[loop][place] = _as_stored(x)
                signals = torch.stack(list(self._tracker.update(h, z).values()))
                self._signals[:, place, loop] = _as_stored(signals.float())

    def _require_finite(self, what: str, values: Tensor, loop: int, place: np.ndarray) -> None:
        """`values` [row, ...]. A finite sum proves all finite in one pass; else look closer."""
        if math.isfinite(float(values.sum(dtype=torch.float32))):
            return
        bad = ~torch.isfinite(values).flatten(1).all(1) if values.ndim > 1 else ~values.isfinite()
        if bool(bad.any()):
            example = self._ids[int(place[int(bad.nonzero()[0, 0])])]
            raise NonFiniteError(
                f"{what} of example {example} at loop {loop + 1} is NaN or infinite; "
                "check the model's weights, or compute in another dtype"
            )


def _as_stored(x: Tensor) -> np.ndarray:
    bits = x.view(torch.uint16) if x.dtype == torch.bfloat16 else x
    return bits.cpu().numpy()


def _pages(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros that begin on a page, as writing past the page cache needs."""
    memory = mmap.mmap(-1, max(1, math.prod(shape) * dtype.itemsize))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype, math.prod(shape)).reshape(shape)
