"""A threshold to deploy: chosen on val, measured on test, and saved as a readout file."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from trajdiag.cachedir import gates_folder, readouts_folder
from trajdiag.deployment.readout_file import save_readout
from trajdiag.deployment.saved_readout import (
    GateWeights,
    Measured,
    OperatingPoint,
    SavedReadout,
    SplitNumbers,
    weights_sha256,
)
from trajdiag.deployment.targets import NotReachedError, TargetConfig, choose_on_val
from trajdiag.errors import ConfigError, UnknownNameError, shown
from trajdiag.metrics.bootstrap import Resample, interval
from trajdiag.metrics.frontier import exit_depth, right_at
from trajdiag.metrics.risk_control import group_weights
from trajdiag.names import checked_options, require_type
from trajdiag.readout import Readout, list_readouts
from trajdiag.readout_registry import NO_RULES, READOUTS, RuleKind, deployable
from trajdiag.scoring.samples import Sample, outcomes
from trajdiag.store.durable import require_writable
from trajdiag.store.reader import Store, open_store


def choose_threshold(
    store: Store | str | os.PathLike[str] | None, readout: str, **options: Any
) -> SavedReadout:
    """Choose a threshold of `readout` on the val examples of `store` (a name or a path; the newest
    complete one where None), measure it on test, and save it as a readout file in the cache.

    `options` are TargetConfig's fields, such as `risk=0.02`. Raises NotReachedError where no
    threshold does what is asked (a risk is always reached: running to the last loop has none),
    UnknownNameError for a readout that the store does not have, StoreError without val or test.
    """
    options = checked_options("choose_threshold", TargetConfig, options)
    config = TargetConfig(**options)
    readout = require_type("readout", readout, str)
    found, missed = choose_thresholds(open_store(store, config.cache_dir), [readout], config)
    if missed:
        raise missed[0]
    return found[0]


def choose_thresholds(
    store: Store, names: Sequence[str] | None, config: TargetConfig
) -> tuple[list[SavedReadout], list[NotReachedError]]:
    """As `choose_threshold`, for several readouts or, where None, all: those saved, and why the
    others are not.

    A risk is promised of each readout by itself, not of the best one picked afterwards; and to a
    fitted gate val is not quite new, since its fitting was stopped there.
    """
    require_loops(store, config)
    known = {
        readout.name: readout
        for readout in list_readouts(store, gates=config.gates, cache_dir=config.cache_dir)
        if deployable(readout.kind, readout.name)
    }
    for name in names or ():
        if name not in known:
            raise UnknownNameError("readout to deploy", name, known, NO_RULES)
    require_writable(readouts_folder(store.name, config.cache_dir))
    samples = outcomes(store)
    val, test = samples.val, samples.test
    resample = Resample(test.group, config.n_resamples, config.seed)
    found, missed = [], []
    for name in known if names is None else dict.fromkeys(names):
        try:
            points = _points(store, known[name], val, test, resample, config)
        except NotReachedError as error:
            missed.append(error)
            continue
        found.append(_saved(store, known[name], points, config))
        save_readout(found[-1])
    return found, missed


def require_loops(store: Store, config: TargetConfig) -> None:
    """Raise ConfigError where a depth is asked for that the loops of `store` do not have."""
    for name, depth in (("min_depth", config.min_depth), ("depth", config.depth)):
        if depth is not None and depth > store.loops:
            raise ConfigError(
                f"{name} must be from 1 to {store.loops}, the loops of store {store.name}, got "
                f"{shown(depth) if isinstance(depth, int) else format(depth, 'g')}"
            )


def _points(
    store: Store,
    readout: Readout,
    val: Sample,
    test: Sample,
    resample: Resample,
    config: TargetConfig,
) -> list[OperatingPoint]:
    """The chosen operating point; conformal risk control's beside it where a risk is asked for."""
    direction, first = readout.direction, max(readout.first_loop, config.min_depth)
    on_val, on_test = readout.values(store, "val"), readout.values(store, "test")
    chosen = choose_on_val(readout.name, on_val, val.correct, val.group, direction, first, config)
    points = []
    for choice in chosen:
        val_exits = exit_depth(on_val, choice.threshold, direction, first)
        test_exits = exit_depth(on_test, choice.threshold, direction, first)
        points.append(
            OperatingPoint(
                threshold=choice.threshold,
                method=choice.method,
                val=_measure(val_exits, val),
                test=_measure(test_exits, test, resample, config.confidence),
            )
        )
    return points


def _measure(
    exits: NDArray[np.int16],
    examples: Sample,
    resample: Resample | None = None,
    confidence: float = 0.95,
) -> SplitNumbers:
    """What leaving at `exits` [example] does; with intervals where there are resamples."""
    right = right_at(examples.correct, exits)
    lost = examples.correct[:, -1] & ~right
    weight, groups = group_weights(examples.group)
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * 3
    if resample is not None:
        means = resample.means(np.column_stack([exits, right, weight * lost, weight]))
        estimates = (means[:, 0], means[:, 1], means[:, 2] / means[:, 3])
        bounds = [interval(estimate, confidence)[1:] for estimate in estimates]
    depth, accuracy, risk = (
        Measured(value=float(value), low=low, high=high)
        for value, (low, high) in zip(
            (exits.mean(), right.mean(), weight @ lost / groups), bounds, strict=True
        )
    )
    return SplitNumbers(
        examples=len(exits), groups=groups, depth=depth, accuracy=accuracy, risk=risk
    )


def _saved(
    store: Store, readout: Readout, points: Sequence[OperatingPoint], config: TargetConfig
) -> SavedReadout:
    home = readouts_folder(store.name, config.cache_dir)
    is_risk = config.target == "risk"
    name = f"{readout.name}--{config.target}={config.level:.12g}"
    name += f"-delta={config.delta:.12g}" * is_risk
    name += f"-from={config.min_depth}" * (config.min_depth > 1)
    return SavedReadout(
        name=readout.name,
        kind=cast(RuleKind, readout.kind),
        direction=readout.direction,
        first_loop=readout.first_loop,
        min_depth=config.min_depth,
        scale=readout.scale,
        unit=readout.unit,
        formula=_formula(readout),
        gate=_gate_weights(store, readout, home, config) if readout.kind == "gate" else None,
        target=config.target,
        level=config.level,
        delta=config.delta if is_risk else None,
        store=store.name,
        fingerprint=store.fingerprint,
        model=str(store.record.model.get("name")),
        model_sha256=store.record.model.get("sha256"),
        point=points[0],
        conformal=points[1] if is_risk else None,
        path=home / f"{name}.json",
    )


def _formula(readout: Readout) -> str:
    if readout.gate is None:
        return READOUTS[readout.name].formula
    config = readout.gate.config
    asked = config.utility if config.objective == "utility" else config.objective
    return READOUTS[f"KIND-{asked}"].formula


def _gate_weights(store: Store, readout: Readout, home: Path, config: TargetConfig) -> GateWeights:
    folder = gates_folder(store.name, config.cache_dir) / readout.name
    for given in config.gates or ():
        if Path(given).name == readout.name and Path(given).is_dir():
            folder = Path(given)
    relative = os.path.relpath(folder.resolve(), home.resolve())
    return GateWeights(folder=Path(relative).as_posix(), sha256=weights_sha256(folder))
