"""Copies off a GPU by a thread of their own, which neither wait for what the model does next nor
make it wait."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class SideStream:
    """A stream beside the model's, on the GPU that the tensors are on; on a CPU nothing."""

    def __init__(self) -> None:
        self._stream: torch.cuda.Stream | None = None

    @contextmanager
    def after(self, ready: torch.cuda.Event | None) -> Iterator[None]:
        """Run what is inside on the stream, once `ready` has happened on the model's; all of it is
        done on leaving, so that the tensors it read may go."""
        if ready is None:
            yield
            return
        if self._stream is None:
            self._stream = torch.cuda.Stream()
        self._stream.wait_event(ready)
        with torch.cuda.stream(self._stream):
            yield
        self._stream.synchronize()


def made(x: Tensor) -> torch.cuda.Event | None:
    """What happens once `x`, and all before it, is computed; None where that is now."""
    if x.device.type != "cuda":
        return None
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(x.device))
    return event


def at_home(x: Tensor) -> Tensor:
    """`x` on the CPU; from a GPU through pinned memory, which torch keeps for the next copy."""
    if x.device.type != "cuda":
        return x.cpu()
    found = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
    found.copy_(x, non_blocking=True)
    torch.cuda.current_stream(x.device).synchronize()
    return found
