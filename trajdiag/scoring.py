"""Stores to scores: every readout evaluated, one at a time, and written down as tidy rows."""

import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.evaluation import Scored, evaluate
from trajdiag.metrics.bootstrap import Resample
from trajdiag.names import require_options
from trajdiag.readout import FIXED, ORACLE, Readout, list_readouts, oracle
from trajdiag.results import Results
from trajdiag.score_rows import rows
from trajdiag.selection import Targets, outcomes
from trajdiag.store.reader import Store, open_store
from trajdiag.store.schema import ACCURACIES

StoreLike = Store | str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """What to score, and how."""

    readouts: tuple[str, ...] | None = None
    """Readouts to score; all of them when absent."""
    gates: tuple[str, ...] | None = None
    """Fitted gates to score, by name or folder; all that were fitted on the store when absent."""
    threshold: dict[str, float] = field(default_factory=dict)
    """Thresholds of your own, by readout and in its unit, in place of its operating point, such as
    `--threshold.entropy 0.3`."""
    targets: tuple[float, ...] = (0.95, 0.98, 0.99)
    """Accuracies whose least depth is reported."""
    slack: float = 0.005
    """The share of val accuracy that the operating point may give up against the last loop."""
    n_resamples: int = 1000
    """Bootstrap resamples behind every interval."""
    seed: int = 0
    """Seed of the resamples."""
    confidence: float = 0.95
    """Coverage of the intervals."""
    cache_dir: str | None = None
    """Root of the cache in which stores and gates are found."""

    def __post_init__(self) -> None:
        for option in ("readouts", "gates"):
            if isinstance(getattr(self, option), str):
                raise ConfigError(f"{option} must be a list of names, not one text")
        if not 0 <= self.slack < 1:
            raise ConfigError(f"slack must be a share from 0 to below 1, got {self.slack}")
        if not all(0 < target <= 1 for target in self.targets):
            raise ConfigError(f"targets must be shares above 0, up to 1, got {self.targets}")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be 0 or more, got {self.seed}")
        for readout, value in self.threshold.items():
            if value != value:
                raise ConfigError(f"the threshold of {readout} must be a number, got {value}")


def score(
    stores: StoreLike | Iterable[StoreLike] | None = None,
    *,
    command: str | None = None,
    **options: Any,
) -> Results:
    """Score every readout of `stores`: names, paths or open stores; the newest complete one when
    None.

    `options` are ScoreConfig's fields; `command` is recorded as what made the results. Points are
    chosen on val and measured on test; the intervals are over test inputs, the choice held fixed.
    Raises StoreError for a store without val or test examples, UnknownNameError for a name that
    nothing bears.
    """
    require_options("score", ScoreConfig, options, "command")
    config = ScoreConfig(**options)
    return tables(score_stores(open_stores(stores, config.cache_dir), config), config, command)


def tables(scored: Sequence[Scored], config: ScoreConfig, command: str | None) -> Results:
    """What was scored, as rows."""
    return rows(
        scored, confidence=config.confidence, config=dataclasses.asdict(config), command=command
    )


def open_stores(
    stores: StoreLike | Iterable[StoreLike] | None, cache_dir: str | os.PathLike[str] | None
) -> list[Store]:
    """The stores, opened, each once. Raises ConfigError where two of them bear one name."""
    if stores is None or isinstance(stores, Store | str | os.PathLike):
        found = [open_store(stores, cache_dir)]
    else:
        found = [open_store(store, cache_dir) for store in stores]
    if not found:
        raise ConfigError("no store to score; name at least one")
    by_name: dict[str, Store] = {}
    for store in found:
        other = by_name.setdefault(store.name, store)
        if other.path.resolve() != store.path.resolve():
            raise ConfigError(
                f"two stores are named {store.name}: {other.path} and {store.path}; rename one"
            )
    return list(by_name.values())


def comparable(store: Store) -> str:
    """What two stores must share to be set side by side: the task, but for its seeds."""
    task = store.record.task
    parameters = task.get("parameters") or {}
    parameters = {key: value for key, value in parameters.items() if key not in ("seed", "seeds")}
    return json.dumps([task.get("name"), parameters, store.classes], sort_keys=True)


def score_stores(stores: Sequence[Store], config: ScoreConfig) -> list[Scored]:
    """Evaluate every readout of every store; stores of one task share the point MATCHED, and stores
    with the same test groups share their resamples."""
    if config.n_resamples < 2 or not 0 < config.confidence < 1:
        raise ConfigError("n_resamples must be at least 2, confidence between 0 and 1")
    chosen = [_readouts(store, config) for store in stores]
    _require_known(config, chosen)
    found = [outcomes(store) for store in stores]
    final: dict[str, float] = {}
    for store, o in zip(stores, found, strict=True):
        key = comparable(store)
        final[key] = min(o.final_val, final.get(key, 1.0))
    # Fixed loops and hindsight are always there, since the others are read against them.
    wanted = (
        None if config.readouts is None else {*config.readouts, *config.threshold, FIXED, ORACLE}
    )
    scored: list[Scored] = []
    resample = None
    for store, readouts, o in zip(stores, chosen, found, strict=True):
        if resample is None or not np.array_equal(scored[-1].outcomes.group, o.group):
            resample = Resample(o.group, config.n_resamples, config.seed)
        matched = final[comparable(store)] - config.slack
        targets = Targets(accuracies=config.targets, slack=config.slack, matched=matched)
        evaluations = [
            evaluate(readout, o, resample, targets, config.threshold.get(readout.name))
            for readout in readouts
            if wanted is None or readout.name in wanted
        ]
        accuracy = resample.means(o.test)
        by_score = {
            ACCURACIES[name]: resample.means(store.correct("test", name))
            for name in store.score_names
        }
        scored.append(
            Scored(
                outcomes=o,
                evaluations=evaluations,
                matched=matched,
                final=accuracy,
                by_score=by_score,
            )
        )
    return scored


def _readouts(store: Store, config: ScoreConfig) -> list[Readout]:
    return [*list_readouts(store, gates=config.gates, cache_dir=config.cache_dir), oracle()]


def _require_known(config: ScoreConfig, readouts: Sequence[Sequence[Readout]]) -> None:
    """Raise where a readout is asked for that no store has."""
    names = {readout.name for of_store in readouts for readout in of_store}
    for name in config.readouts or ():
        if name not in names:
            raise UnknownNameError("readout", name, names)
    for name in config.threshold:
        if name not in names - {ORACLE}:
            raise UnknownNameError("readout", name, names - {ORACLE}, "A threshold needs one.")
