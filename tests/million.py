"""A store of as many examples as one likes, 8 loops of 64 numbers each, made as it is written; and
commands run on it, with the time and the memory they take."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store

LOOPS, D_MODEL, CLASSES = 8, 64, 8
_CHUNK = 4096
"""Examples that are drawn from one seed."""


@dataclass(frozen=True)
class Drawn:
    """An array [example, loop, column] that is drawn when it is read."""

    name: str
    examples: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.examples, LOOPS, D_MODEL if self.name == "hidden" else CLASSES

    def __getitem__(self, at: slice) -> np.ndarray:
        start, stop, _ = at.indices(self.examples)
        chunks = [self._chunk(index) for index in range(start // _CHUNK, -(-stop // _CHUNK))]
        first = start // _CHUNK * _CHUNK
        return np.concatenate(chunks)[start - first : stop - first]

    def _chunk(self, index: int) -> np.ndarray:
        rng = np.random.default_rng([index, self.name == "hidden"])
        need, target = needed(index), targets(index)
        progress = np.arange(1, LOOPS + 1) - need[:, None]
        shape = (_CHUNK, LOOPS, self.shape[2])
        values = rng.standard_normal(shape, dtype=np.float32)
        if self.name == "hidden":
            values[..., 0] += progress
        else:
            values[np.arange(_CHUNK)[:, None], np.arange(LOOPS), target[:, None]] += 2 + progress
        return values


def needed(index: int) -> np.ndarray:
    """How many loops each example of a chunk needs, some more than there are."""
    return np.random.default_rng([index, 2]).integers(1, LOOPS + 2, _CHUNK)


def targets(index: int) -> np.ndarray:
    return np.random.default_rng([index, 3]).integers(0, CLASSES, _CHUNK)


def make(cache: Path, examples: int) -> Store:
    """The store NAME.zarr of `examples` in a cache, made unless it is there."""
    chunks = range(-(-examples // _CHUNK))
    return from_arrays(
        cache / "stores" / f"made-{examples}.zarr",
        hidden=Drawn("hidden", examples),
        logits=Drawn("logits", examples),
        target=np.concatenate([targets(i) for i in chunks])[:examples],
        difficulty=np.concatenate([needed(i) for i in chunks])[:examples].astype(float),
    )


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a command took."""

    seconds: float
    cpu_seconds: float
    """Of all its threads: what other work on the machine does not change."""
    gib: float
    """Peak resident memory."""


def cost_of(cache: Path, *words: str) -> Cost:
    """Run `trajdiag WORDS` in a process of its own. Raises RuntimeError where it fails."""
    environment = {**os.environ, "TRAJDIAG_CACHE": str(cache)}
    start = time.monotonic()
    with (cache / "said.txt").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "trajdiag", *words],
            stdout=said, stderr=subprocess.STDOUT, env=environment,
        )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - start
    if process.returncode:
        raise RuntimeError(f"trajdiag {' '.join(words)}: {(cache / 'said.txt').read_text()}")
    return Cost(
        seconds=seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        gib=usage.ru_maxrss / 2**20,
    )
