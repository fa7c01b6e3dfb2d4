"""What a stopping rule may see at a loop: the state, signals, and some of what came before.

Nothing of a later loop is read. Signals have heavy tails and very different units, so each is
replaced by its rank among the fit examples' values, and stands beside its change since the loop
before; states are centred loop by loop. A state may no longer tell what an earlier one did, so the
main components of the first state and of the mean state before this loop are kept as well.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from trajdiag.bound.directions import main_directions
from trajdiag.gates.halting import cumulative_hazard
from trajdiag.store.reader import Store
from trajdiag.store.schema import GATE

WIDEST = 512
"""States of more features are replaced by this many of their principal components."""
PIECE = 2048
"""Examples read at a time, and at most those that features are standardised by."""
_HELD = 224 * 2**20
"""Bytes of features that are fitted on at most."""
_PAST = 8
"""Components of the first state, and as many of the mean state before this loop."""
_KNOTS = 65
_CLIP = 8.0
_LARGEST = np.finfo(np.float32).max

Knots = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Values of a signal in rising order, and their ranks."""


class Features:
    """Reads the features of a store, standardised by its examples `rows`."""

    def __init__(self, store: Store, rows: NDArray[np.int64], rng: np.random.Generator) -> None:
        self._store = store
        self._signals = _signal_values(store)
        self.loops = range(1, store.loops)
        """The loops at which there is something to decide."""
        sample = np.sort(rng.choice(rows, min(len(rows), PIECE), replace=False))
        self._knots = [_knots(values[sample]) for values in self._signals]
        states = [store.numpy("hidden", rows=sample, loop=t).astype(np.float32) for t in self.loops]
        self._axes = _axes(states) if store.d_model > WIDEST else None
        states = [self._narrow(x) for x in states]
        self._mean = [x.mean(0, dtype=np.float64).astype(np.float32) for x in states]
        self._scale = _one_over_spread(states)
        for t, mean in zip(self.loops, self._mean, strict=True):
            states[t - 1] = self._standardised(states[t - 1], mean)
        self._first = _whitening(states[0])
        self._before = _whitening(np.concatenate(states))
        self.signals = 2 * len(self._knots)
        self.apart = self.signals + self._first.shape[1] + self._before.shape[1]
        """The features that are no state of this loop; they come first, signals before the past."""
        self.width = self.apart + len(self._scale)
        """Features at a loop."""

    def read(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The features of examples `rows`, [loop < T, example, feature]."""
        found = np.empty((len(self.loops), len(rows), self.width), np.float32)
        count = len(self._knots)
        for column, (knots, values) in enumerate(zip(self._knots, self._signals, strict=True)):
            found[:, :, column] = _rank(values[rows], knots).T
        ranks, changes = found[:, :, :count], found[:, :, count : self.signals]
        changes[0] = 0
        np.subtract(ranks[1:], ranks[:-1], out=changes[1:])
        for start in range(0, len(rows), PIECE):
            part = slice(start, start + PIECE)
            for t, mean in zip(self.loops, self._mean, strict=True):
                states = self._narrow(self._store.numpy("hidden", rows=rows[part], loop=t))
                found[t - 1, part, self.apart :] = self._standardised(states, mean)
        self._write_past(found)
        return found

    def pieces(
        self, rows: NDArray[np.int64], size: int
    ) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """The features of `rows`, `size` at a time, and which of `rows` each piece is."""
        for start in range(0, len(rows), size):
            part = slice(start, min(start + size, len(rows)))
            yield part, self.read(rows[part])

    def _write_past(self, found: NDArray[np.float32]) -> None:
        """Into `found`, [loop < T, example, feature], whose states are there already."""
        states = found[:, :, self.apart :]
        at = self.signals + self._first.shape[1]
        first, before = found[:, :, self.signals : at], found[:, :, at : self.apart]
        first[0] = 0
        first[1:] = (states[0] @ self._first).clip(-_CLIP, _CLIP)
        total = np.zeros(before.shape[1:], np.float32)
        for t, state in enumerate(states):
            before[t] = (total / max(t, 1)).clip(-_CLIP, _CLIP)
            total += state @ self._before

    def _standardised(
        self, states: NDArray[np.float32], mean: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):  # what overflows is clipped
            return ((states - mean) * self._scale).clip(-_CLIP, _CLIP)

    def _narrow(self, states: NDArray[np.floating]) -> NDArray[np.float32]:
        states = states.astype(np.float32, copy=False)
        return states if self._axes is None else states @ self._axes


def most_examples(store: Store, most: int) -> int:
    """How many examples to fit on: `most`, or as many as the memory allowed for them holds."""
    width = min(store.d_model, WIDEST) + 2 * (len(store.signal_names) + 2 + _PAST)
    return min(most, _HELD // (4 * width * max(store.loops - 1, 1)))


def _signal_values(store: Store) -> list[NDArray[np.float32]]:
    """Each signal where there is something to decide, [example, loop < T], and, of a gate of the
    model's own, its logit and its cumulative hazard, nats."""
    found = [store.signal(name)[:, :-1] for name in store.signal_names]
    if store.has_gate:
        logit = store.numpy(GATE).astype(np.float64)
        hazard = cumulative_hazard(torch.from_numpy(logit)).numpy().clip(max=_LARGEST)
        found += [values[:, :-1].astype(np.float32) for values in (logit, hazard)]
    return found


def _knots(values: NDArray[np.float32]) -> Knots:
    """Quantiles of a signal, and their ranks, scaled to unit variance; a constant has rank 0."""
    finite = values[np.isfinite(values)]
    share = np.linspace(0.0, 1.0, _KNOTS)
    if not len(finite) or finite.min() == finite.max():
        return np.zeros(1, np.float32), np.zeros(1, np.float32)
    quantiles = 2 * np.quantile(finite / 2, share)  # halves, whose differences never overflow
    at, index, count = np.unique(
        quantiles.astype(np.float32), return_inverse=True, return_counts=True
    )
    rank = np.bincount(index, weights=share) / count
    return at, ((rank - 0.5) * np.sqrt(12.0)).astype(np.float32)


def _rank(values: NDArray[np.float32], knots: Knots) -> NDArray[np.float32]:
    """Ranks of a signal's values, of the same shape: 0, the middle, where undefined."""
    undefined = np.isnan(values)
    found = np.interp(np.where(undefined, np.float32(0), values), *knots).astype(np.float32)
    found[undefined] = 0
    return found


def _one_over_spread(states: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Of each feature's values about their loop's mean; 0 for a constant. `states` is a list of
    [example, feature], one a loop."""
    spread = np.sqrt(np.mean([x.var(0, dtype=np.float64) for x in states], axis=0))
    rounding = 1e-6 * np.max([np.abs(x).max(0) for x in states], axis=0)
    constant = spread <= rounding
    return np.where(constant, 0.0, 1 / np.where(constant, 1.0, spread)).astype(np.float32)


def _whitening(states: NDArray[np.float32]) -> NDArray[np.float32]:
    """The main directions of `states` [row, feature], to unit variance: [feature, component]."""
    axes = main_directions(states, _PAST)
    return axes / (states @ axes).std(0)


def _axes(states: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The first WIDEST principal directions of `states`, one [example, d_model] a loop, from as
    many as PIECE of them: [d_model, component]."""
    each = max(1, PIECE // len(states))
    sample = np.concatenate([x[:each] - x[:each].mean(0) for x in states])
    value, vector = np.linalg.eigh((sample @ sample.T).astype(np.float64))
    kept = np.flatnonzero(value > 1e-7 * value[-1])[-WIDEST:]
    return sample.T @ (vector[:, kept] / np.sqrt(value[kept])).astype(np.float32)
