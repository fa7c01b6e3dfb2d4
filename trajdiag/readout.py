"""Readouts: what turns a frozen trajectory into an exit loop, given a threshold.

A store has one readout for each of its signals, `native` and its variants for the model's own gate,
one for each gate fitted on it, and `fixed`, whose value is the loop's number: its operating points
are the forced exits. Beside them stand what is no function of the trajectory alone: the learned
bound, and the oracles, which know the targets. `trajdiag.readout_registry` says what each is.
"""

import dataclasses
import os
import shlex
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from trajdiag.cachedir import gates_folder
from trajdiag.errors import ConfigError, TrajdiagWarning, UnknownNameError
from trajdiag.gates.gate import Gate, load_gate, read_gate
from trajdiag.gates.halting import cumulative_hazard
from trajdiag.gates.released import released_cdf, released_dtype, released_threshold
from trajdiag.metrics.frontier import exit_depth
from trajdiag.models.config import trajdiag_section
from trajdiag.readout_registry import (
    BOUND,
    CONTINUATION,
    EXPECTED,
    FIXED,
    NATIVE,
    ORACLES,
    READOUTS,
    RELEASED,
    Kind,
    Scale,
)
from trajdiag.signals.registry import SIGNALS
from trajdiag.store.reader import Store
from trajdiag.store.schema import CONTINUATION_GATE, GATE

_UNITS = {
    "hazard": "nats of cumulative hazard, -log(1 - CDF)",
    "logit": "logit",
    "loop": "loops",
    "loops": "loops",
    "cdf": "cumulative exit probability",
}


@dataclass(frozen=True, kw_only=True)
class Readout:
    """A stopping rule but for its threshold: leave at the first loop that crosses, else at T."""

    name: str
    kind: Kind
    direction: Literal["high", "low"]
    """Which values mean ready to stop."""
    first_loop: int
    """The first loop at which it can stop."""
    unit: str
    """Of its values and thresholds."""
    scale: Scale
    """What its values are."""
    gate: Gate | None = None
    """The fitted gate behind a readout of kind `gate`."""

    def values(self, store: Store, split: str) -> NDArray[np.floating]:
        """Its value at every loop of the split's examples, [example, loop]; NaN where undefined."""
        if self.gate is not None:
            return self.gate.values(store, split)
        if self.kind == "signal":
            return store.signal(self.name, split)
        if self.kind in ("native", "variant"):
            array = CONTINUATION_GATE if self.name == CONTINUATION else GATE
            gate_logit = torch.from_numpy(store.numpy(array, split=split))
            if self.name == RELEASED:
                return released_cdf(gate_logit, _released_dtype(store)).float().numpy()
            if self.name == EXPECTED:
                return _beyond_expected(gate_logit).numpy()
            return cumulative_hazard(gate_logit).numpy()
        if self.kind == "fixed":
            loops = np.arange(1, store.loops + 1, dtype=np.float32)
            return np.broadcast_to(loops, (len(store.rows(split)), store.loops))
        raise ValueError(f"readout {self.name} is no function of the trajectory alone")


def list_readouts(
    store: Store,
    *,
    gates: Iterable[str | os.PathLike[str] | Gate] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    min_depth: int = 1,
) -> list[Readout]:
    """The readouts of `store`: native gate, fitted gates, signals, fixed loops.

    `gates` are names of gates fitted on the store, gate folders, or gates; None means all fitted
    ones in the cache. None of them leaves before loop `min_depth`; their values are the same for
    any. Raises UnknownNameError for a gate that is not there, ConfigError for a gate that bears
    another readout's name and for a `min_depth` that is no loop, FingerprintError for a gate that
    was fitted on other states.
    """
    if not 1 <= min_depth <= store.loops:
        raise ConfigError(
            f"the minimum depth must be a loop of store {store.name}, 1 to {store.loops}, got "
            f"{min_depth}"
        )
    found = [_registered(name) for name in _native_names(store)]
    found += [_fitted(name, gate) for name, gate in _gates(store, gates, cache_dir)]
    found += [_registered(name) for name in store.signal_names]
    found.append(_registered(FIXED))
    names = [readout.name for readout in found] + [BOUND, *ORACLES]
    taken = sorted({name for name in names if names.count(name) > 1})
    if taken:
        raise ConfigError(
            f"two readouts of store {store.name} are named {taken[0]}; fit the gate under another "
            "name (`trajdiag fit-gate --name`), or score it without the other"
        )
    return [dataclasses.replace(r, first_loop=max(r.first_loop, min_depth)) for r in found]


def oracles() -> list[Readout]:
    """Hindsight, four ways; none has values.

    `oracle` leaves at the first right loop and bounds every readout, `oracle-stays` at the first
    from which on it is never wrong, `oracle-loss` at that of the least cross-entropy,
    `oracle-saturation` where the prediction never changes again.
    """
    return [_registered(name) for name in ORACLES]


def bound() -> Readout:
    """The best causal rule that was learned from the frozen states: expected gain of going on, less
    a loop's price. Its values are fitted elsewhere; it has none of its own."""
    return dataclasses.replace(_registered(BOUND), unit="accuracy")


def fitted_gates(store: Store, cache_dir: str | os.PathLike[str] | None = None) -> dict[str, Path]:
    """The folders of the gates fitted on `store`, by name; warns once of all that were fitted on
    other states, of a store that had the same name."""
    found, stale = {}, []
    for path in sorted(gates_folder(store.name, cache_dir).glob("*/config.json")):
        if read_gate(path.parent).fingerprint_ == store.fingerprint:
            found[path.parent.name] = path.parent
        else:
            stale.append(path.parent.name)
    if stale:
        warnings.warn(
            f"left out, since fitted on another store named {store.name}: "
            f"gate{'s' * (len(stale) > 1)} {', '.join(stale)}; fit here again with "
            f"`trajdiag fit-gate {shlex.quote(str(store.location))} --overwrite`",
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


@dataclass(frozen=True, kw_only=True)
class ReleasedRule:
    """How often the released rule, at its own threshold, leaves elsewhere than the exact one."""

    threshold: float
    dtype: str
    differing: int
    """Examples whose exit differs."""
    examples: int


def released_at(store: Store) -> float | None:
    """The threshold of the released rule; None for a store whose model has none."""
    if RELEASED not in _native_names(store):
        return None
    return released_threshold(store.record.model["config"])


def released_rule(store: Store, split: str) -> ReleasedRule | None:
    """None for a store whose model has no released rule."""
    threshold = released_at(store)
    if threshold is None:
        return None
    with np.errstate(divide="ignore"):
        exact_threshold = -np.log1p(-np.minimum(threshold, 1.0))
    exact, rounded = (
        exit_depth(_registered(name).values(store, split), float(at), "high")
        for name, at in ((NATIVE, exact_threshold), (RELEASED, threshold))
    )
    return ReleasedRule(
        threshold=threshold,
        dtype=str(_released_dtype(store)).removeprefix("torch."),
        differing=int((exact != rounded).sum()),
        examples=len(exact),
    )


def _released_dtype(store: Store) -> torch.dtype:
    return released_dtype(store.record.model["config"], store.record.compute_dtype)


def _native_names(store: Store) -> list[str]:
    """The readouts of the model's own gate."""
    if not store.has_gate:
        return []
    model = store.record.model
    released = has_released_rule(model.get("family"), model.get("config"))
    by_continuation = CONTINUATION_GATE in store.arrays
    return [NATIVE] + [RELEASED] * released + [CONTINUATION] * by_continuation + [EXPECTED]


def absence(store: Store, name: str) -> str | None:
    """Why `store` lacks the readout `name`, as a sentence; None where nothing is known of it."""
    entry, model = READOUTS.get(name), store.record.model
    if entry is None:
        return (
            f"Gates that are fitted on {store.name} are readouts too: `trajdiag fit-gate "
            f"{store.location}`"
        )
    if entry.kind in ("native", "variant") and not store.has_gate:
        return f"{name} reads the model's own gate, and {model['name']} has none"
    if name == CONTINUATION and CONTINUATION_GATE not in store.arrays:
        return (
            f"{name} reads the gate where the choices of a question are scored as continuations, "
            f"which task {store.record.task['name']} has not"
        )
    if name == RELEASED and name not in _native_names(store):
        return (
            f"{name} is the rule of Ouro's released code, which never runs {model['name']}; use "
            f"{NATIVE}"
        )
    if entry.kind == "signal" and name not in store.signal_names:
        return f"{name} is defined from loop {entry.first_loop} on, and the store has {store.loops}"
    return None


def has_released_rule(family: str | None, config: Mapping[str, Any] | None) -> bool:
    """Whether a model of this family and config, where it has a gate, can be run by Ouro's released
    code: what trajdiag trains never is."""
    return family == "ouro" and "training" not in trajdiag_section(config or {})


def _beyond_expected(gate_logit: torch.Tensor) -> torch.Tensor:
    """t - E_q[depth], loops, float64 [example, loop], from every loop's gate logit."""
    survival = torch.exp(-cumulative_hazard(gate_logit)[:, :-1])
    loops = torch.arange(1, gate_logit.shape[1] + 1, dtype=torch.float64)
    return loops - (1 + survival.sum(1, keepdim=True))


def _registered(name: str) -> Readout:
    """The readout of this name, as the registry says."""
    entry = READOUTS[name]
    return Readout(
        name=name,
        kind=entry.kind,
        direction=entry.direction or "high",
        first_loop=entry.first_loop,
        unit=SIGNALS[name].unit if entry.kind == "signal" else _UNITS[entry.scale],
        scale=entry.scale,
    )


def _fitted(name: str, gate: Gate) -> Readout:
    return Readout(
        name=name,
        kind="gate",
        direction=gate.direction,
        first_loop=gate.first_loop,
        unit=_UNITS[gate.scale],
        scale=gate.scale,
        gate=gate,
    )
