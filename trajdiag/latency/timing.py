"""Runs timed side by side: in turn, so that what else the machine does falls on all of them."""

import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from trajdiag.progress import Progress

Name = TypeVar("Name", bound=Hashable)


def timed(
    runs: Mapping[Name, Callable[[], object]],
    repeats: int,
    device: torch.device,
    progress: Progress = lambda line: None,
) -> dict[Name, NDArray[np.float64]]:
    """Seconds of each run, [repeat], after a round that warms up and is not counted. Every other
    round goes backwards, so that no run is always the first after another."""
    seconds: dict[Name, list[float]] = {name: [] for name in runs}
    for round_ in range(repeats + 1):
        began = time.monotonic()
        for name in reversed(list(runs)) if round_ % 2 else runs:
            seconds[name].append(_seconds(runs[name], device))
        if not round_:
            took = time.monotonic() - began
            progress(f"warmed up; {repeats} rounds of {len(runs)} runs, about {took:.2g} s each")
    return {name: np.array(found[1:]) for name, found in seconds.items()}


def device_name(device: torch.device) -> str:
    """What a device is, in words: a GPU's name, or the CPU and its threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device.type}, {threads} thread{'s' * (threads > 1)}"


def _seconds(run: Callable[[], object], device: torch.device) -> float:
    _wait(device)
    began = time.perf_counter()
    run()
    _wait(device)
    return time.perf_counter() - began


def _wait(device: torch.device) -> None:
    """Until the device has done all that it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
