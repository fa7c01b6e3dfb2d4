"""A stopping rule that can be run live: causal, and with all that it reads at hand."""

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from trajdiag.deployment.saved_readout import SavedReadout
from trajdiag.errors import ConfigError, FingerprintError, UnknownNameError
from trajdiag.gates.gate import Gate
from trajdiag.gates.halting import cumulative_hazard
from trajdiag.gates.released import released_cdf, released_dtype
from trajdiag.latency.meter import FittedGateMeter, LoopMeter, Meter, OwnGateMeter, SignalMeter
from trajdiag.models.base import LoopedModel
from trajdiag.readout import has_released_rule
from trajdiag.readout_registry import CONTINUATION, NATIVE, READOUTS, RELEASED, deployable
from trajdiag.signals.registry import SIGNALS
from trajdiag.store.schema import CONTINUATION_GATE, GATE


@dataclass(frozen=True, kw_only=True)
class LiveRule:
    """Leave at the first loop whose value crosses the threshold, else at the last."""

    name: str
    direction: Literal["high", "low"]
    """Which values mean ready to stop."""
    threshold: float
    """A value that equals it crosses it; NaN is never crossed."""
    first_loop: int
    """The first loop at which it may stop."""
    loops: int
    """The last loop, T."""
    meter: Meter

    @property
    def never_leaves(self) -> bool:
        """Whether everything runs to the last loop, whatever is read: values are finite before."""
        unreachable = math.inf if self.direction == "high" else -math.inf
        beyond = math.isnan(self.threshold) or self.threshold == unreachable
        return beyond or self.first_loop >= self.loops

    def crosses(self, table: Tensor, loop: Tensor) -> Tensor:
        """bool [example]: whether each is to leave at the loop at which it stands; see Meter."""
        value = self.meter.value(table, loop).double()
        crossed = value >= self.threshold if self.direction == "high" else value <= self.threshold
        return crossed & (loop >= self.first_loop)


def live_rule(
    model: LoopedModel,
    readout: str | Gate,
    threshold: float,
    *,
    min_depth: int = 1,
    loops: int | None = None,
) -> LiveRule:
    """The rule of a readout's name (a signal, `native`, `native-released`, `native-continuation`,
    `fixed`) or a fitted gate, leaving from loop `min_depth` on at `threshold`, in the readout's
    unit; NaN never leaves. The last of `loops` defaults to the model's T.

    Raises ConfigError for what is no causal rule, for what reads a gate that the model lacks and
    for a `min_depth` that is no loop, UnknownNameError for a name that no readout bears, GateError
    for a gate that is not fitted.
    """
    loops = model.loops if loops is None else loops
    if not 1 <= min_depth <= loops:
        raise ConfigError(f"the minimum depth must be one of loops 1 to {loops}, got {min_depth}")
    if isinstance(readout, Gate):
        name, direction, first_loop = readout.name, readout.direction, readout.first_loop
        _require_fits(readout, model)
    else:
        _require_live(readout, model)
        entry = READOUTS[readout]
        name, direction, first_loop = readout, entry.direction or "high", entry.first_loop
    first_loop = max(first_loop, min_depth)
    return LiveRule(
        name=name,
        direction=direction,
        threshold=float(threshold),
        first_loop=first_loop,
        loops=loops,
        meter=_meter(model, readout, first_loop, loops),
    )


def saved_rule(
    model: LoopedModel, saved: SavedReadout, *, threshold: float | None = None
) -> LiveRule:
    """The rule of a readout file, at its own threshold or at another. Raises as `live_rule`, and
    FingerprintError for a fitted gate that was fitted on another model's states, ReadoutError where
    it is no longer the same."""
    readout: str | Gate = saved.name
    if saved.gate is not None:
        if saved.model_sha256 != model.record.sha256:
            raise FingerprintError(
                f"readout {saved.path} reads gate {saved.name}, fitted on the states of model "
                f"{saved.model} with SHA-256 {str(saved.model_sha256)[:12]}; {model.record.name} "
                f"has {model.record.sha256[:12]}: fit and choose one on a store of this model"
            )
        readout = saved.load_gate()
    if threshold is None:
        threshold = saved.point.threshold
    return live_rule(model, readout, threshold, min_depth=saved.min_depth)


def refuse_continuations(rule: LiveRule) -> None:
    """Raise ConfigError where the rule reads what only tasks that score continuations have."""
    if CONTINUATION_GATE in rule.meter.reads:
        raise ConfigError(
            f"readout {rule.name} averages the gate over continuations, and there are none; use "
            f"{NATIVE}"
        )


def _require_live(name: str, model: LoopedModel) -> None:
    entry = READOUTS.get(name)
    if entry is None or (entry.kind == "gate" and name not in SIGNALS):
        known = [n for n, e in READOUTS.items() if e.kind in ("signal", "native", "fixed")]
        raise UnknownNameError("readout to run live", name, known)
    if not deployable(entry.kind, name):
        why = {"bound": "is a bound", "oracle": "is hindsight"}.get(
            entry.kind, "reads the gate at later loops"
        )
        raise ConfigError(
            f"{name} cannot be run live: it {why}, no rule that stops; choose another"
        )
    if entry.kind in ("native", "variant") and not model.has_gate:
        raise ConfigError(
            f"readout {name} reads the model's own gate, and {model.record.name} has none; choose "
            "a signal or fit a gate"
        )
    if name == RELEASED and not has_released_rule(model.record.family, model.record.config):
        raise ConfigError(
            f"readout {name} is the rule of Ouro's released code, which never runs "
            f"{model.record.name}; use {NATIVE}"
        )


def _require_fits(gate: Gate, model: LoopedModel) -> None:
    gate.require_fitted()
    reads = gate.reader_.facts()
    width = reads.get("d_model", model.d_model)
    if width != model.d_model:
        raise ConfigError(
            f"gate {gate.name} reads states of width {width}, and {model.record.name} has "
            f"{model.d_model}; fit one on a store of this model"
        )
    if NATIVE in reads.get("signals", ()) and not model.has_gate:
        raise ConfigError(
            f"gate {gate.name} reads the model's own gate, and {model.record.name} has none; fit "
            "one on a store of this model"
        )


def _meter(model: LoopedModel, readout: str | Gate, first_loop: int, loops: int) -> Meter:
    if isinstance(readout, Gate):
        return FittedGateMeter(readout, loops)
    if readout in SIGNALS:
        return SignalMeter([readout], loops, first_loop)
    if readout == RELEASED:
        dtype = released_dtype(model.record.config, str(model.dtype).removeprefix("torch."))
        return OwnGateMeter(GATE, lambda logit: released_cdf(logit, dtype).float())
    if readout in (NATIVE, CONTINUATION):
        array = CONTINUATION_GATE if readout == CONTINUATION else GATE
        return OwnGateMeter(array, cumulative_hazard)
    return LoopMeter()
