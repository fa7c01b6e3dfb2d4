"""Somebody's own arrays of every loop: checked, and read a few examples at a time, so that they may
be larger than memory."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from trajdiag.errors import ConfigError, NonFiniteError
from trajdiag.progress import Progress
from trajdiag.signals.padding import PADDED
from trajdiag.store.given_probabilities import GATE_PROBABILITY, Suspicion, logit
from trajdiag.store.schema import GATE

DIMENSIONS = {
    "hidden": ("example", "loop", "d_model"),
    "logits": ("example", "loop", "class"),
    GATE: ("example", "loop"),
    GATE_PROBABILITY: ("example", "loop"),
}
_STATES = (torch.float32, torch.bfloat16, torch.float16)
"""What states are stored as when they come so; all else becomes float32."""
_BFLOAT16 = "bfloat16 comes as such in safetensors and tensors, elsewhere as float32"
_PIECE_BYTES = 2**26
"""Of an array that are read and checked at a time."""


class Sliceable(Protocol):
    """Whatever has a shape and gives the examples of a slice: a numpy array, a memory map, a
    tensor, an array of Zarr or HDF5."""

    @property
    def shape(self) -> Sequence[int]: ...

    def __getitem__(self, at: slice, /) -> Any: ...


class GivenLoops:
    """One of `hidden`, `logits`, and `gate_logit` or `gate_probability`, as it was given."""

    def __init__(self, name: str, values: Any) -> None:
        """Raises ConfigError unless `values` is floating point with the dimensions of `name`."""
        self.name = name
        require_unmasked(name, values)
        try:
            self._values: Sliceable = values if hasattr(values, "shape") else np.asarray(values)
        except ValueError as error:
            raise ConfigError(f"{name} must be an array of numbers: {error}") from error
        self.shape = tuple(int(size) for size in self._values.shape)
        wanted = DIMENSIONS[name]
        if len(self.shape) != len(wanted):
            hint = ""
            if len(self.shape) > len(wanted):
                hint = "; of several positions give the one at which the decision is read"
            raise ConfigError(
                f"{name} must be {_words(wanted)}, got {len(self.shape)} dimensions: "
                f"{list(self.shape)}{hint}"
            )
        if not math.prod(self.shape):
            raise ConfigError(
                f"{name} {list(self.shape)} holds nothing; every one of {_words(wanted)} needs some"
            )
        self.given_dtype = self._raw(0, 1).dtype
        """torch's, as it came."""
        keeps = name == "hidden" and self.given_dtype in _STATES
        self.dtype = self.given_dtype if keeps else torch.float32
        """torch's, as it is stored."""

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, start: int, stop: int) -> Tensor:
        """The examples from `start` up to `stop`, contiguous, in `dtype`; of probabilities their
        logits, for which ConfigError is raised where one is outside of 0 to 1."""
        found = self._raw(start, stop)
        if self.name == GATE_PROBABILITY:
            self._require_probabilities(found, start)
            found = logit(found)
        return found.to(self.dtype).contiguous()

    def pieces(self) -> Iterator[tuple[int, Tensor]]:
        """(first example, the examples from there on), a few at a time."""
        size = max(1, _PIECE_BYTES // (4 * math.prod(self.shape[1:])))
        for start in range(0, len(self), size):
            yield start, self.read(start, min(len(self), start + size))

    def what_is_wrong(self, example: int, loop: int) -> str:
        """Why the numbers of an example at `loop` - 1 cannot be stored."""
        values = self._raw(example, example + 1)[0, loop]
        if values.isnan().any():
            return "NaN"
        return "beyond float32" if values.isfinite().all() else "infinite"

    def _require_probabilities(self, found: Tensor, start: int) -> None:
        outside = ((found < 0) | (found > 1)) & found.isfinite()
        if bool(outside.any()):
            example, loop = outside.nonzero()[0].tolist()
            raise ConfigError(
                f"{self.name} must lie within 0 and 1, got {float(found[example, loop]):g} for "
                f"example {start + example} at loop {loop + 1} (examples counted from 0); give "
                f"logits as {GATE}"
            )

    def _raw(self, start: int, stop: int) -> Tensor:
        found = self._values[start:stop]
        tensor = found.detach().cpu() if isinstance(found, Tensor) else _tensor(self.name, found)
        if not tensor.is_floating_point():
            raise ConfigError(
                f"{self.name} must be floating point, got {_name(tensor.dtype)}; {_BFLOAT16}"
            )
        return tensor


def require_unmasked(name: str, values: Any) -> None:
    """Raises ConfigError where values are masked: a store would take them for what lies below."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ConfigError(
            f"{name} masks {int(np.ma.count_masked(values)):,} of its values, and a store keeps "
            "no mask; leave those examples out, or fill the values"
        )


def _tensor(name: str, values: Any) -> Tensor:
    values = np.asarray(values)
    dtype = values.dtype.newbyteorder("=")
    if dtype.kind != "f":
        raise ConfigError(f"{name} must be floating point, got {values.dtype}; {_BFLOAT16}")
    if dtype.itemsize > 8:
        dtype = np.dtype(np.float64)
    with np.errstate(over="ignore"):  # what became infinite is refused with the rest
        found = np.require(values, dtype, ["C", "W"])
    # torch reads no backward strides, which even an array in C order may have along an axis of
    # one entry
    return torch.from_numpy(np.ndarray(found.shape, dtype, found))


def require_axes(given: Mapping[str, GivenLoops], examples: int) -> None:
    """Raise ConfigError unless all arrays hold `examples` (the number of targets) and the same
    loops; where axes seem to be in another order, the message says in which."""
    shapes = {name: array.shape for name, array in given.items()}
    for name, shape in shapes.items():
        if shape[0] == examples:
            continue
        if examples in shape[1:]:
            axes = list(DIMENSIONS[name])
            axes.insert(shape.index(examples), axes.pop(0))
            raise _transposed(name, shape, axes, f"there are {examples:,} targets")
        raise ConfigError(
            f"{name} {list(shape)} and target [{examples}] disagree: {shape[0]:,} and "
            f"{examples:,} examples"
        )
    _require_loops(shapes)


def _require_loops(shapes: Mapping[str, tuple[int, ...]]) -> None:
    hidden, logits = shapes["hidden"], shapes["logits"]
    gates = [name for name in (GATE, GATE_PROBABILITY) if name in shapes]
    gate_name, gate = (gates[0], shapes[gates[0]]) if gates else (GATE, None)
    if len({shape[1] for shape in shapes.values()}) == 1:
        return
    swapped = {name: [axes[0], *axes[:0:-1]] for name, axes in DIMENSIONS.items()}
    if gate is not None and hidden[1] != logits[1]:
        reason = f"{gate_name} {list(gate)} says {gate[1]} loops"
        for name in ("hidden", "logits"):
            if shapes[name][1] != gate[1] == shapes[name][2]:
                raise _transposed(name, shapes[name], swapped[name], reason)
    # where both could be meant, loops are the fewer
    readings = [
        (loops, name, f"{other} {list(shapes[other])} says {loops} loops")
        for loops, found, name, other in (
            (logits[1], hidden[2], "hidden", "logits"),
            (hidden[1], logits[2], "logits", "hidden"),
            (hidden[2], logits[2], "hidden", "logits"),
        )
        if loops == found and gate is None
    ]
    if readings:
        _, name, reason = min(readings, key=lambda reading: reading[0])
        raise _transposed(name, shapes[name], swapped[name], reason)
    hint = ""
    if gate is not None and hidden[1] == logits[1]:
        hint = (
            f"; hidden and logits agree on {hidden[1]}, so that {gate_name} must be "
            f"[{gate[0]}, {hidden[1]}]"
        )
    elif hidden[1] == logits[1] + 1:
        hint = "; leave out the state before the first loop, hidden[:, 1:]"
    raise ConfigError(
        "the arrays disagree in the number of loops: "
        + ", ".join(f"{name} {_words(DIMENSIONS[name])} {list(s)}" for name, s in shapes.items())
        + hint
    )


def _transposed(name: str, shape: Sequence[int], found: Sequence[str], reason: str) -> ConfigError:
    wanted = DIMENSIONS[name]
    order = tuple(found.index(axis) for axis in wanted)
    return ConfigError(
        f"{name} {list(shape)} seems to be {_words(found)}, since {reason}; it must be "
        f"{_words(wanted)}: transpose{order} makes it so"
    )


def digest(given: Sequence[GivenLoops], progress: Progress) -> str:
    """SHA-256 over dtypes, shapes and bytes as they are stored: what stands for the model's
    identity.

    Reads everything once. Raises NonFiniteError that says where and in how many examples numbers
    are NaN, infinite or beyond float32, and ConfigError where logits are probabilities or
    probabilities are none.
    """
    found = hashlib.sha256()
    for array in given:
        progress(f"checking {array.name} {list(array.shape)}, {_name(array.dtype)}")
        found.update(f"{array.dtype}{list(array.shape)}".encode())
        bad, suspicion = _Bad(array), Suspicion(array.name, array.given_dtype)
        for start, piece in array.pieces():
            found.update(piece.view(torch.uint8).numpy().data)
            bad.look(start, piece)
            suspicion.look(piece)
        bad.refuse()
        suspicion.refuse()
    return found.hexdigest()


class _Bad:
    """The examples of an array that hold what is not finite."""

    def __init__(self, array: GivenLoops) -> None:
        self._array, self._first, self._examples = array, (0, 0), 0
        self._padding = array.name == "logits"

    def look(self, start: int, piece: Tensor) -> None:
        # a finite sum proves all finite in one pass
        if math.isfinite(float(piece.sum(dtype=torch.float32))):
            return
        bad = ~piece.isfinite()
        if not bad.any():
            return
        self._padding &= bool((piece[bad] == -math.inf).all())
        at = bad.flatten(2).any(2) if bad.ndim > 2 else bad
        if not self._examples:
            example, loop = at.nonzero()[0].tolist()
            self._first = start + example, loop
        self._examples += int(at.any(1).sum())

    def refuse(self) -> None:
        if not self._examples:
            return
        array, (example, loop) = self._array, self._first
        hint = "leave these examples out"
        if self._padding:
            hint = f"where an example has fewer classes, give {PADDED:g} for those it does not have"
        raise NonFiniteError(
            f"{array.name} of example {example} at loop {loop + 1} is "
            f"{array.what_is_wrong(example, loop)}; so it is in {self._examples:,} of "
            f"{len(array):,} examples (counted from 0); {hint}"
        )


def said_of(given: Mapping[str, GivenLoops]) -> list[str]:
    """What the caller should know of arrays that are otherwise in order, a line each."""
    lines = []
    for name, array in given.items():
        if name == GATE_PROBABILITY:
            lines.append(f"{name} is stored as its logit, {_name(array.dtype)}")
        elif array.dtype != array.given_dtype:
            lines.append(
                f"{name} comes as {_name(array.given_dtype)} and is stored as {_name(array.dtype)}"
            )
    return lines


def _words(axes: Sequence[str]) -> str:
    return f"[{', '.join(axes)}]"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
