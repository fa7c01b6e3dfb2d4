"""Passes over a store in random order, at the speed of the disk and in little memory.

Rows of a few KiB here and there are an eighth as fast to read as the whole. So a pass goes window
by window: 128 runs of 64 neighbours, which are drawn anew each pass, are read in store order and
their 8,192 examples shuffled. Any two examples may meet in a batch. What that costs in randomness:
neighbours share a window, and so are 8,192 draws apart at most.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from trajdiag.store.reader import Store

if TYPE_CHECKING:
    from torch import Tensor

WINDOW = 8192
"""Examples shuffled together."""
RUN = 64
"""Examples that are neighbours in the store and come in the same window: one read."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def shuffled_batches(
    store: Store,
    *arrays: str,
    size: int,
    seed: int,
    epoch: int = 0,
    split: str | None = None,
    loop: int | None = None,
    window: int = WINDOW,
) -> Iterator[tuple[np.ndarray, tuple["Tensor", ...]]]:
    """One pass over a split, or all: each batch's examples, int64 [example], and each of `arrays`
    over them as a tensor, [example, loop, ...], or [example, ...] where a `loop` is given.

    Batches have `size` examples, but for a window's last. `seed`, `epoch` and `window` decide the
    order. Two windows are in memory, of which the second is read while the first is used: that is
    2 * `window` times an example's bytes, beside the batch.
    """
    import torch

    rows = store.rows(split)
    passed = shuffled_windows(len(rows), np.random.default_rng([seed, epoch]), window)

    def read(at: np.ndarray) -> list["Tensor"]:
        return [store.torch(array, rows=rows[at], loop=loop) for array in arrays]

    for (at, order), tensors in read_ahead(lambda item: read(item[0]), passed):
        for start in range(0, len(order), size):
            picked = order[start : start + size]
            index = torch.from_numpy(picked)
            yield rows[at[picked]], tuple(_take(tensor, index) for tensor in tensors)
        del tensors  # before the window after the next is begun


def shuffled_windows(
    count: int, rng: np.random.Generator, window: int = WINDOW
) -> list[tuple[np.ndarray, np.ndarray]]:
    """One pass over `count` examples: each window's, int64 ascending, and the order to take them
    in."""
    starts = rng.permutation(np.arange(0, count, RUN))
    windows = []
    for first in range(0, len(starts), max(1, window // RUN)):
        runs = np.sort(starts[first : first + max(1, window // RUN)])
        at = (runs[:, None] + np.arange(RUN)).ravel()
        at = at[at < count]
        windows.append((at, rng.permutation(len(at))))
    return windows


def read_ahead(
    read: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[tuple[Item, Result]]:
    """Each item and what is read for it, by a thread that is one item ahead."""
    with ThreadPoolExecutor(1) as thread:
        ahead = None
        for item in items:
            following = item, thread.submit(read, item)
            if ahead is not None:
                yield ahead[0], ahead[1].result()
            ahead = following
        if ahead is not None:
            yield ahead[0], ahead[1].result()


def _take(values: "Tensor", index: "Tensor") -> "Tensor":
    """`values[index]`; three dimensions lie loop by loop in memory, and are taken so."""
    if values.dim() < 3:
        return values[index]
    return values.transpose(0, 1).index_select(1, index).transpose(0, 1)
