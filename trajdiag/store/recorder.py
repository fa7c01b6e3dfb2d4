"""Signals, checks and writing in the background, while the model computes the next batch."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trajdiag.store.block import Block
from trajdiag.store.device_copies import SideStream, made
from trajdiag.store.writer import StoreWriter

_NICE = 10
"""Of the thread that keeps the books."""


@dataclass(frozen=True, kw_only=True)
class Trajectories:
    """Some examples of one block, every loop of them; one tensor a loop."""

    block: int
    at: np.ndarray
    """int64 [row]: their places in the block."""
    loops: Mapping[str, Sequence[Tensor]]
    """By array: `hidden` [row, d_model], float32 `logits` [row, class], [row, ...] for others."""


class Recorder:
    """Writes the blocks that it is given, in a thread of its own.

    A context: leaving it waits until all is written; leaving it by an exception keeps the blocks
    written so far. What goes wrong in the thread is raised by `put`, or on leaving.
    """

    def __init__(
        self,
        writer: StoreWriter,
        ids: np.ndarray,
        *,
        waiting: int = 2,
        written: Callable[[int], None] = lambda block: None,
    ) -> None:
        """`ids` str [example] name the examples in errors; at most `waiting` batches are held;
        `written` is called in the thread after each block."""
        self._writer, self._ids, self._written = writer, ids, written
        self._waiting, self._taken = waiting, deque[Future[None]]()
        # one core for the books, the others for the model; the setting is the thread's own
        self._thread = ThreadPoolExecutor(1, "recorder", _give_way)
        self._side = SideStream()
        self._block: Block | None = None
        self._current, self._missing = -1, 0

    def put(self, batch: Trajectories) -> None:
        """Hand over a batch. Blocks come one after the other, each complete before the next."""
        while len(self._taken) >= self._waiting:
            self._taken.popleft().result()
        ready = made(batch.loops["hidden"][-1])
        self._taken.append(self._thread.submit(self._take, batch, ready))

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._thread.shutdown(wait=True, cancel_futures=kind is not None)
        # threads that start later take the setting of whoever set it last
        torch.set_num_threads(torch.get_num_threads())
        if kind is None:
            for taken in self._taken:
                taken.result()

    def _take(self, batch: Trajectories, ready: torch.cuda.Event | None) -> None:
        if self._block is None:
            self._block = Block(self._writer.specs)
        if batch.block != self._current:
            rows = self._writer.rows(batch.block)
            self._current, self._missing = batch.block, len(rows)
            self._block.begin(self._ids[rows.start : rows.stop])
        with self._side.after(ready):
            self._block.fill(batch.at, batch.loops)
        self._missing -= len(batch.at)
        if not self._missing:
            self._writer.write_block(batch.block, self._block.arrays)
            self._written(batch.block)


def _give_way() -> None:
    """One core for the books, and that only while the model leaves one idle: a product that is cut
    in two waits for its slower half."""
    torch.set_num_threads(1)
    if sys.platform == "linux":  # where a thread has a priority of its own
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
