"""Readouts: what turns a frozen trajectory into an exit loop, given a threshold.

A store has one readout for each stored signal, `native` for the model's own gate, one for each gate
fitted on it, and `fixed`, whose value is the loop's number: its operating points are the forced
exits.
"""

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from trajdiag.cachedir import gates_folder
from trajdiag.errors import ConfigError, TrajdiagWarning, UnknownNameError
from trajdiag.gates.gate import Gate, load_gate, read_gate
from trajdiag.gates.halting import cumulative_hazard
from trajdiag.signals import SIGNALS
from trajdiag.store.reader import Store

NATIVE, FIXED, ORACLE = "native", "fixed", "oracle"

Scale = Literal["signal", "hazard", "logit", "loop"]

_UNITS = {"hazard": "nats of cumulative hazard, -log(1 - CDF)", "logit": "logit", "loop": "loops"}


@dataclass(frozen=True, kw_only=True)
class Readout:
    """A stopping rule but for its threshold: leave at the first loop that crosses, else at T."""

    name: str
    kind: Literal["signal", "native", "gate", "fixed", "oracle"]
    direction: Literal["high", "low"]
    """Which values mean ready to stop."""
    first_loop: int
    """The first loop at which it can stop."""
    unit: str
    """Of its values and thresholds."""
    scale: Scale
    """Whether its values are a signal, a cumulative hazard, a probability's logit, or loops."""
    gate: Gate | None = None
    """The fitted gate behind a readout of kind `gate`."""

    def values(self, store: Store, split: str) -> NDArray[np.floating]:
        """Its value at every loop of the split's examples, [example, loop]; NaN where undefined."""
        if self.gate is not None:
            return self.gate.values(store, split)
        if self.kind == "signal":
            return store.signal(self.name, split)
        if self.kind == "native":
            return cumulative_hazard(
                torch.from_numpy(store.numpy("gate_logit", split=split))
            ).numpy()
        if self.kind == "fixed":
            loops = np.arange(1, store.loops + 1, dtype=np.float32)
            return np.broadcast_to(loops, (len(store.rows(split)), store.loops))
        raise ValueError(f"readout {self.name} is no function of the trajectory alone")


def list_readouts(
    store: Store,
    *,
    gates: Iterable[str | os.PathLike[str] | Gate] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> list[Readout]:
    """The readouts of `store`: native gate, fitted gates, signals, fixed loops.

    `gates` are names of gates fitted on the store, gate folders, or gates; None means all fitted
    ones in the cache. Raises UnknownNameError for a gate that is not there, ConfigError for a gate
    that bears another readout's name, FingerprintError for one that was fitted on other states.
    """
    found = [_native()] if store.has_gate else []
    found += [_fitted(name, gate) for name, gate in _gates(store, gates, cache_dir)]
    found += [_signal(name) for name in store.signal_names if name in SIGNALS]
    found.append(_fixed())
    names = [readout.name for readout in found] + [ORACLE]
    taken = sorted({name for name in names if names.count(name) > 1})
    if taken:
        raise ConfigError(
            f"two readouts of store {store.name} are named {taken[0]}; fit the gate under another "
            "--name, or score it without the other"
        )
    return found


def oracle() -> Readout:
    """Hindsight: leave at the first loop that is right. It has no values."""
    return Readout(
        name=ORACLE, kind="oracle", direction="high", first_loop=1, unit="loops", scale="loop"
    )


def fitted_gates(store: Store, cache_dir: str | os.PathLike[str] | None = None) -> dict[str, Path]:
    """The folders of the gates fitted on `store`, by name; warns of those that were fitted on other
    states, of a store that had the same name."""
    found = {}
    for path in sorted(gates_folder(store.name, cache_dir).glob("*/config.json")):
        if read_gate(path.parent).fingerprint_ == store.fingerprint:
            found[path.parent.name] = path.parent
        else:
            warnings.warn(
                f"gate {path.parent.name} is left out: it was fitted on another store named "
                f"{store.name}; fit it here with `trajdiag fit-gate {store.path} --overwrite`",
                TrajdiagWarning,
                stacklevel=2,
            )
    return found


def _gates(
    store: Store,
    gates: Iterable[str | os.PathLike[str] | Gate] | None,
    cache_dir: str | os.PathLike[str] | None,
) -> list[tuple[str, Gate]]:
    existing = fitted_gates(store, cache_dir)
    found = []
    for gate in existing if gates is None else gates:
        if isinstance(gate, Gate):
            found.append((gate.name, gate))
            continue
        path = existing.get(str(gate), Path(gate))
        if not path.is_dir():
            raise UnknownNameError(f"gate of store {store.name}:", str(gate), existing)
        found.append((path.name, load_gate(path, store)))
    return found


def _native() -> Readout:
    return Readout(
        name=NATIVE,
        kind="native",
        direction="high",
        first_loop=1,
        unit=_UNITS["hazard"],
        scale="hazard",
    )


def _fitted(name: str, gate: Gate) -> Readout:
    scale: Scale = "logit" if gate.objective == "correctness" else "hazard"
    return Readout(
        name=name,
        kind="gate",
        direction=gate.direction,
        first_loop=gate.first_loop,
        unit=_UNITS[scale],
        scale=scale,
        gate=gate,
    )


def _signal(name: str) -> Readout:
    signal = SIGNALS[name]
    return Readout(
        name=name,
        kind="signal",
        direction=signal.direction,
        first_loop=signal.first_loop,
        unit=signal.unit,
        scale="signal",
    )


def _fixed() -> Readout:
    return Readout(
        name=FIXED, kind="fixed", direction="high", first_loop=1, unit=_UNITS["loop"], scale="loop"
    )
