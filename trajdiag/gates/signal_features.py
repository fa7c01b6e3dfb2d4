"""What a boosted gate sees at a loop: the causal signals, their changes, and the loop's number."""

from collections.abc import Iterator, Sequence

import numpy as np

from trajdiag.errors import GateError
from trajdiag.readout_registry import NATIVE
from trajdiag.store.reader import Store
from trajdiag.store.schema import GATE

_LARGEST = float(np.finfo(np.float32).max)


def readable(store: Store) -> tuple[str, ...]:
    """The names of what can be read off `store`: its signals, and, like one of them, `native`: the
    logit of the model's own halting hazard, where the model has one."""
    return (*store.signal_names, *[NATIVE] * store.has_gate)


def feature_count(names: Sequence[str]) -> int:
    """Features that `names` make: the value and the change of each, and the loop."""
    return 2 * len(names) + 1


def features(values: np.ndarray, before: np.ndarray, loop: np.ndarray) -> np.ndarray:
    """float64 [..., feature] of the `values` [..., name] of a loop and of the loop `before`, NaN at
    loop 1: each value, each one's change, and the `loop` [...].

    Infinities become the largest float32, so that changes are defined.
    """
    values, before = (np.clip(x.astype(np.float64), -_LARGEST, _LARGEST) for x in (values, before))
    return np.concatenate([values, values - before, loop[..., None]], -1)


class SignalFeatures:
    """The features of one split of `store`, made of `names` in their order.

    Raises GateError where the store lacks one of the names.
    """

    def __init__(self, store: Store, split: str, names: Sequence[str]) -> None:
        missing = [name for name in names if name not in readable(store)]
        if missing:
            raise GateError(
                f"store {store.name} lacks {', '.join(missing)}, which the gate reads; it has "
                f"{', '.join(readable(store))}. Fit the gate again with --overwrite"
            )
        self._series = [
            store.numpy(GATE, split=split) if name == NATIVE else store.signal(name, split)
            for name in names
        ]
        self._examples, self._loops = len(store.rows(split)), store.loops

    def __len__(self) -> int:
        return self._examples

    def at(self, examples: np.ndarray | slice, loops: range) -> np.ndarray:
        """float64 [example, loop of `loops`, feature] of `examples`, counted within the split."""
        values = np.stack([series[examples].astype(np.float64) for series in self._series], -1)
        before = np.full_like(values, np.nan)
        before[:, 1:] = values[:, :-1]
        loop = np.broadcast_to(np.arange(1.0, self._loops + 1), values.shape[:2])
        at = slice(loops.start - 1, loops.stop - 1)
        return features(values[:, at], before[:, at], loop[:, at])

    def blocks(self, loops: range, size: int) -> Iterator[tuple[slice, np.ndarray]]:
        """All examples in order, at most `size` at a time, with their features."""
        for start in range(0, len(self), size):
            examples = slice(start, min(start + size, len(self)))
            yield examples, self.at(examples, loops)
