"""Frozen states as a fit reads them: standardised, shuffled, from memory or disk."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trajdiag.store.reader import Store
from trajdiag.store.shuffled import WINDOW, read_ahead, shuffled_windows

PIECE = 2048
"""Examples standardised at a time."""


@dataclass(frozen=True, kw_only=True)
class Standardiser:
    """Each feature's mean and spread, so that one step size suits all."""

    mean: Tensor
    """float32 [d_model]."""
    spread: Tensor
    """float32 [d_model]; 1 where a feature is constant."""

    def __call__(self, hidden: Tensor) -> Tensor:
        return (hidden.float() - self.mean) / self.spread


def measure(store: Store, loops: range, rng: np.random.Generator) -> Standardiser:
    """The standardiser of the fit states at `loops`, from one window of examples at most."""
    rows = store.rows("fit")
    rows = np.sort(rng.choice(rows, min(WINDOW, len(rows)), replace=False))
    states = torch.stack([store.torch("hidden", rows=rows, loop=t).float() for t in loops])
    mean, spread = states.mean((0, 1)), states.std((0, 1), correction=0)
    constant = spread <= 1e-6 * mean.abs()
    return Standardiser(mean=mean, spread=spread.masked_fill(constant | (spread == 0), 1.0))


class FrozenStates:
    """One split's states at `loops`, standardised, in `dtype`."""

    def __init__(
        self,
        store: Store,
        split: str,
        loops: range,
        standardise: Standardiser,
        dtype: torch.dtype,
        in_memory: bool,
    ) -> None:
        self._store, self._rows, self._loops = store, store.rows(split), loops
        self._standardise, self._dtype = standardise, dtype
        self._all = self._read(np.arange(len(self._rows))) if in_memory else None

    def __len__(self) -> int:
        return len(self._rows)

    def shuffled(self, rng: np.random.Generator, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """One pass, in one order from memory and from disk: each batch's examples, int64 [example]
        counted within the split, and their states [example, used loop, d_model]."""
        windows = shuffled_windows(len(self), rng)
        for (at, order), window in read_ahead(lambda item: self._window(item[0]), windows):
            for start in range(0, len(order), size):
                picked = torch.from_numpy(order[start : start + size])
                examples = torch.from_numpy(at)[picked]
                yield examples, window[picked] if self._all is None else self._all[examples]
            del window  # before the one after the next is begun

    def in_order(self) -> Iterator[tuple[Tensor, Tensor]]:
        """As `shuffled`, in store order."""
        for start in range(0, len(self), PIECE):
            at = np.arange(start, min(start + PIECE, len(self)))
            part = self._read(at) if self._all is None else self._all[start : start + PIECE]
            yield torch.from_numpy(at), part

    def _window(self, at: np.ndarray) -> Tensor:
        return self._read(at) if self._all is None else self._all

    def _read(self, at: np.ndarray) -> Tensor:
        """The states of ascending examples `at` of the split, [example, used loop, d_model]."""
        found = torch.empty(len(at), len(self._loops), self._store.d_model, dtype=self._dtype)
        for start in range(0, len(at), PIECE):
            rows = self._rows[at[start : start + PIECE]]
            for column, loop in enumerate(self._loops):
                states = self._store.torch("hidden", rows=rows, loop=loop)
                found[start : start + PIECE, column] = self._standardise(states)
        return found


def bytes_needed(store: Store, loops: range, dtype: torch.dtype) -> int:
    """Bytes that the fit and val states at `loops` take in `dtype`."""
    examples = len(store.rows("fit")) + len(store.rows("val"))
    return examples * len(loops) * store.d_model * dtype.itemsize
