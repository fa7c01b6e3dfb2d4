"""Stores to scores: every readout evaluated, one at a time, and written down as tidy rows."""

import dataclasses
import json
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from trajdiag.bound.rules import Rule
from trajdiag.errors import ConfigError, UnknownNameError, meant_share, shown
from trajdiag.metrics.bootstrap import LEFT_OUT, Estimate, Resample, require_resamples
from trajdiag.names import checked_options, require_type, settle_fields
from trajdiag.option_kinds import plain
from trajdiag.ray_cluster import Launcher, require_ray
from trajdiag.readout import FIXED, Readout, absence, bound, list_readouts, oracles
from trajdiag.results import Results
from trajdiag.scoring.evaluation import REAL, Resamples, Scored, evaluate
from trajdiag.scoring.hindsight import evaluate_bound, evaluate_oracle, null_points, rule_points
from trajdiag.scoring.samples import MOST_BINS, MOST_LEVELS, Outcomes, Sample, outcomes
from trajdiag.scoring.score_rows import rows
from trajdiag.scoring.selection import Targets
from trajdiag.scoring.streaming import evaluate_streamed
from trajdiag.scoring.trajectory import Trajectory, trajectory
from trajdiag.spans import Spans
from trajdiag.store.reader import Store, open_store
from trajdiag.store.schema import ARRAYS

StoreLike = Store | str | os.PathLike[str]
Fit = Callable[[Store], Sequence[Rule]]
"""Fits stopping rules on a store's frozen states."""

PART_EXAMPLES = 2**14
"""Examples that are read together of a store that does not fit into memory, at most."""


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """What `score` and `diagnose` are both told: which readouts, and how they are measured."""

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
    intervals: Literal["percentile", "bca"] = "percentile"
    """percentile, or bca: bias-corrected and accelerated."""
    min_depth: int = 1
    """The first loop at which any readout may leave."""
    memory: float = 8.0
    """GiB that scoring may take; a store that needs more is refused."""
    cache_dir: str | None = None
    """Root of the cache in which stores and gates are found."""

    def __post_init__(self) -> None:
        settle_fields(self)
        require_resamples(self.n_resamples, self.confidence, self.seed)
        if not 0 <= self.slack < 1:
            raise ConfigError(
                f"slack must be a share from 0 to below 1, got {self.slack}"
                f"{meant_share(self.slack)}"
            )
        for target in self.targets:
            if not 0 < target <= 1:
                raise ConfigError(
                    f"targets must be shares above 0, up to 1, got {shown(target)}"
                    f"{meant_share(target)}"
                )
        if not self.memory > 0:
            raise ConfigError(f"memory must be above 0 GiB, got {self.memory}")
        if self.intervals not in ("percentile", "bca"):
            raise ConfigError(f"intervals must be percentile or bca, got {shown(self.intervals)}")
        for readout, value in self.threshold.items():
            if value != value:
                raise ConfigError(
                    f"the threshold of {shown(readout)} must be a number, got {value}"
                )

    @property
    def bca(self) -> bool:
        return self.intervals == "bca"

    @property
    def spans(self) -> Spans:
        """How its intervals are read."""
        return Spans(confidence=self.confidence, left_out=2 * LEFT_OUT if self.bca else 0)


@dataclass(frozen=True, kw_only=True)
class ScoreConfig(EvaluationConfig):
    """What to score, and how."""

    memory: float = 8.0
    """GiB that scoring may take; stores that need more are read part by part, their thresholds
    those of a grid of 65,536."""
    launcher: Launcher = "local"
    """local: score in this process; ray: read every store part by part, as tasks on Ray."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.launcher not in get_args(Launcher):
            raise ConfigError(f"launcher must be local or ray, got {shown(self.launcher)}")


def score(
    stores: StoreLike | Iterable[StoreLike] | None = None,
    *,
    command: str | None = None,
    **options: Any,
) -> Results:
    """Score every readout of `stores`: names, paths or open stores; the newest complete one when
    None.

    `options` are ScoreConfig's fields; `command` is recorded as what made the results. Points are
    chosen on val and measured on test; intervals are over the inputs of both, the choice
    made again in each resample. Raises StoreError for a store without val or test examples,
    UnknownNameError for a name that nothing bears.
    """
    options = checked_options("score", ScoreConfig, options, "command")
    command = require_type("command", command, str | None)
    config = ScoreConfig(**options)
    found = open_stores(stores, config.cache_dir)
    return tables(score_stores(found, config, launcher=config.launcher), config, command)


def tables(scored: Sequence[Scored], config: EvaluationConfig, command: str | None) -> Results:
    """What was scored, as rows."""
    return rows(scored, spans=config.spans, config=dataclasses.asdict(config), command=command)


def open_stores(
    stores: StoreLike | Iterable[StoreLike] | None, cache_dir: str | os.PathLike[str] | None
) -> list[Store]:
    """The stores, opened, each once. Raises ConfigError where two of them bear one name."""
    stores = plain(stores)
    if stores is None or isinstance(stores, Store | str | os.PathLike):
        found = [open_store(stores, cache_dir)]
    elif isinstance(stores, Iterable):
        found = [open_store(store, cache_dir) for store in stores]
    else:
        raise ConfigError(f"stores must be names, paths or open stores, got {shown(stores)}")
    if not found:
        raise ConfigError("no store to score; name at least one")
    by_name: dict[str, Store] = {}
    for store in found:
        other = by_name.setdefault(store.name, store)
        if other.identity != store.identity:
            raise ConfigError(
                f"two stores are named {store.name}: {other.location} and {store.location}; "
                "rename one"
            )
    return list(by_name.values())


def comparable(store: Store) -> str:
    """What two stores must share to be set side by side: the task, but for its seeds; of arrays,
    whose task nobody knows, the test examples."""
    kind = kindred(store)
    if store.record.task.get("name") != ARRAYS or "test" not in store.splits:
        return kind
    rows = store.rows("test")
    same = zlib.crc32("\0".join(store.ids[rows]).encode())
    return f"{kind} {zlib.crc32(np.ascontiguousarray(store.target[rows]).tobytes(), same)}"


def kindred(store: Store) -> str:
    """What two stores must share to be compared where the user says so: the task, but for its
    seeds."""
    task = store.record.task
    parameters = task.get("parameters") or {}
    parameters = {key: value for key, value in parameters.items() if key not in ("seed", "seeds")}
    return json.dumps([task.get("name"), parameters, store.classes], sort_keys=True)


def score_stores(
    stores: Sequence[Store],
    config: EvaluationConfig,
    rules: Fit | None = None,
    alike: Callable[[Store], str] = comparable,
    launcher: Launcher = "local",
) -> list[Scored]:
    """Evaluate every readout of every store; stores that are `alike` share the point MATCHED, and
    stores with the same groups share their resamples. With `rules`, which fits stopping rules on a
    store, the learned bound and luck's null too: these read stores whole."""
    known = [_readouts(store, config) for store in stores]
    _require_known(config, stores, known)
    chosen = [_wanted(readouts, config) for readouts in known]
    if launcher == "ray":
        require_ray()
    if rules is not None:
        for store in stores:
            _require_fits(store, config)
    found = [outcomes(store, _part_examples(store, config, launcher)) for store in stores]
    drawn = _resamples(found, config)
    own_of = [trajectory(o, d, launcher) for o, d in zip(found, drawn, strict=True)]
    keys = [alike(store) for store in stores] if len(stores) > 1 else [""]
    matched: dict[str, Estimate] = {}
    for key, own in zip(keys, own_of, strict=True):
        final = own.val_final[:, -1] - config.slack
        matched[key] = np.fmin(final, matched.get(key, np.inf))
    scored: list[Scored] = []
    for key, readouts, o, d, own in zip(keys, chosen, found, drawn, own_of, strict=True):
        targets = Targets(
            accuracies=config.targets,
            final=own.val_final[:, -1] - config.slack,
            matched=matched[key],
        )
        scored.append(_score(o, readouts, d, own, targets, config, rules, launcher))
    return scored


def bytes_needed(store: Store) -> int:
    """Bytes that scoring the whole of a store at once takes, about: its larger split's signals,
    the points of their frontiers, one readout's work, and the columns."""
    splits = [split for split in ("val", "test") if split in store.splits]
    examples = max((len(store.rows(split)) for split in splits), default=0)
    derived = len(store.signal_names) - len(store.kept_signals)
    of_loop = 2 * 4 * derived + 12 * len(store.signal_names) + 64 + MOST_LEVELS
    return examples * (store.loops * of_loop + 8 * MOST_BINS) + 64 * len(store)


def _fits(store: Store, config: EvaluationConfig) -> bool:
    return bytes_needed(store) <= config.memory * 2**30


def _require_fits(store: Store, config: EvaluationConfig) -> None:
    """Raise where a store that must be read whole is too large for that."""
    if not _fits(store, config):
        raise ConfigError(
            f"store {store.name} is read whole here, which takes about "
            f"{bytes_needed(store) / 2**30:.3g} GiB, and --memory is {config.memory:g}: raise it, "
            "or `score` the store, which can be read part by part"
        )


def _part_examples(store: Store, config: EvaluationConfig, launcher: Launcher) -> int | None:
    """None for a store that is scored at once."""
    return None if launcher == "local" and _fits(store, config) else PART_EXAMPLES


def _resamples(found: Sequence[Outcomes], config: EvaluationConfig) -> list[Resamples]:
    """The draws of every store; the same object for the same groups, which saves its memory."""
    kept: list[tuple[np.ndarray, Resample]] = []

    def draw(sample: Sample, role: Literal["val", "test"]) -> Resample:
        for group, resample in kept:
            if resample.role == role and np.array_equal(group, sample.group):
                return resample
        resample = Resample(
            sample.group, config.n_resamples, config.seed, role=role, leave_out=config.bca
        )
        kept.append((sample.group, resample))
        return resample

    return [Resamples(val=draw(o.val, "val"), test=draw(o.test, "test")) for o in found]


def _score(
    o: Outcomes,
    readouts: Sequence[Readout],
    resamples: Resamples,
    own: Trajectory,
    targets: Targets,
    config: EvaluationConfig,
    rules: Fit | None,
    launcher: Launcher,
) -> Scored:
    causal = [readout for readout in readouts if readout.kind != "oracle"]
    if o.streamed:
        evaluations = evaluate_streamed(
            causal,
            o,
            resamples,
            targets,
            config.threshold,
            memory=config.memory,
            launcher=launcher,
        )
    else:
        evaluations = [
            evaluate(readout, o, resamples, targets, config.threshold.get(readout.name))
            for readout in causal
        ]
    evaluations += [
        evaluate_oracle(readout, own.hindsight[readout.name], targets, o.test.loops)
        for readout in readouts
        if readout.kind == "oracle"
    ]
    null = None
    if rules is not None:
        points = [e.points for e in evaluations if e.readout.kind in REAL]
        points += rule_points(rules(o.store), o, resamples)
        evaluations.append(evaluate_bound(bound(), points, targets, o.test.loops))
        null = null_points(o, resamples).path()
    return Scored(
        outcomes=o,
        evaluations=evaluations,
        targets=targets,
        resamples=resamples,
        final=own.final,
        val_final=own.val_final,
        by_score=own.by_score,
        by_bin=own.by_bin,
        null=null,
    )


def _readouts(store: Store, config: EvaluationConfig) -> list[Readout]:
    found = list_readouts(
        store, gates=config.gates, cache_dir=config.cache_dir, min_depth=config.min_depth
    )
    return [*found, *oracles()]


def readout_names(store: Store, config: EvaluationConfig) -> list[str]:
    """The readouts of `store` that are scored, but for the learned bound."""
    return [readout.name for readout in _wanted(_readouts(store, config), config)]


def _wanted(readouts: Sequence[Readout], config: EvaluationConfig) -> list[Readout]:
    """Those asked for. Fixed loops and hindsight are always there, since the others are read
    against them."""
    if config.readouts is None:
        return list(readouts)
    always = [FIXED, *(readout.name for readout in oracles())]
    asked = {*config.readouts, *config.threshold, *always}
    return [readout for readout in readouts if readout.name in asked]


def _require_known(
    config: EvaluationConfig, stores: Sequence[Store], readouts: Sequence[Sequence[Readout]]
) -> None:
    """Raise where a readout is asked for that no store has."""
    names = {readout.name for of_store in readouts for readout in of_store}
    for name in config.readouts or ():
        if name not in names:
            raise UnknownNameError("readout", name, names, _why_absent(stores, name, config))
    rules = names - {readout.name for readout in oracles()}
    for name in config.threshold:
        if name not in rules:
            why = (
                _why_absent(stores, name, config)
                or "A threshold is for a rule, which hindsight is not"
            )
            raise UnknownNameError("readout", name, rules, why)


def _why_absent(stores: Sequence[Store], name: str, config: EvaluationConfig) -> str:
    """Why the store lacks the readout, where there is one."""
    return (absence(stores[0], name, config.cache_dir) or "") if len(stores) == 1 else ""
