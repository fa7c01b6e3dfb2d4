"""A store's readouts run live beside full depth: what early exit saves, and where the rest of the
time goes."""

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any

from trajdiag.cachedir import latency_folder
from trajdiag.errors import ConfigError, shown
from trajdiag.extraction.plan import AnyTask
from trajdiag.latency.agreement import offline
from trajdiag.latency.chosen import choose
from trajdiag.latency.config import LatencyConfig
from trajdiag.latency.context import decodable, measure_context
from trajdiag.latency.latency_rows import context_rows, latency_rows
from trajdiag.latency.reopening import Reopened, reopen, some_units
from trajdiag.latency.saved import save_latency
from trajdiag.latency.side_by_side import Side, measure_side
from trajdiag.latency.timing import device_name
from trajdiag.models.base import LoopedModel
from trajdiag.models.own import require_model
from trajdiag.names import checked_options, require_type
from trajdiag.option_kinds import fits, plain
from trajdiag.progress import Progress
from trajdiag.results import LatencyRow, Results
from trajdiag.store.durable import require_writable
from trajdiag.store.reader import Store, open_store
from trajdiag.store.versions import software_versions
from trajdiag.tasks.foreign import require_task


def measure_latency(
    store: Store | str | os.PathLike[str] | None = None,
    readout: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    threshold: float | Sequence[float] | None = None,
    *,
    model: LoopedModel | str | None = None,
    task: AnyTask | str | None = None,
    command: str | None = None,
    progress: Progress = lambda line: None,
    **options: Any,
) -> Results:
    """Run readouts live on a store's model and examples, beside full depth, and measure what that
    saves, with `context="live"` also what it does to later tokens of a text: Results with the table
    `latency`. The numbers are kept in the cache too, for `report`.

    `store` is a name, a path or an open store, the newest complete one when None; the other
    arguments are LatencyConfig's fields, `model` and `task` names or the things themselves, and
    `command`, recorded as what made the numbers. `progress` is told what is run, and where live and
    offline differ. Raises what `reopen` and `choose` do, ConfigError for a readout that cannot be
    run live and for a device that cannot run it, NonFiniteError for NaN in a live state, and
    StoreError, before anything is run, where the numbers cannot be kept.
    """
    options = checked_options("measure_latency", LatencyConfig, options, "progress")
    command = require_type("command", command, str | None)
    model = model if isinstance(model, str | None) else require_model(model)
    task = task if isinstance(task, str | None) else require_task(task)
    config = LatencyConfig(
        readout=_names(readout),
        threshold=_numbers(threshold),
        model=model if isinstance(model, str | None) else model.record.name,
        task=task if isinstance(task, str | None) else task.name,
        **options,
    )
    opened = open_store(store, config.cache_dir)
    require_writable(latency_folder(opened.name, config.cache_dir))
    chosen = choose(opened, config)
    again = reopen(
        opened,
        model=model,
        task=task,
        device=config.device,
        cache_dir=config.cache_dir,
    )
    _require_able(again)
    is_live = config.context == "live"
    decoder = decodable(again, opened.record.task["name"]) if is_live else None
    device = device_name(again.model.device)
    for each in chosen:
        each.rule(again.model, again.loops)  # one that cannot be run is refused before any is
        progress(f"{each.readout.name}: threshold {each.threshold:.6g}, {each.said}")
    found: list[LatencyRow] = []
    for side in _sides(again, config):
        count = f"{len(side.work):,} of {len(opened.rows(config.split)):,} {config.split} examples"
        progress(f"{side.batch}: {count}, {device}")
        said = [offline(opened, each, side.examples, config.split) for each in chosen]
        if decoder is None:
            whole = measure_side(again, side, chosen, said, config.repeats, progress)
            found += [row for each in whole for row in latency_rows(each, opened.name, device)]
        else:
            whole = measure_context(
                decoder, side, chosen, said, again.loops, config.repeats, progress
            )
            found += [row for each in whole for row in context_rows(each, opened.name, device)]
        for line in (line for each in whole for line in each.said()):
            progress(line)
    results = Results(
        latency=found,
        config={
            **dataclasses.asdict(config),
            "store": opened.name,
            "fingerprint": opened.fingerprint,
            "model_sha256": again.model.record.sha256,
            "dtype": str(again.model.dtype).removeprefix("torch."),
            "device": device,
            "batch_tokens": config.batch_tokens or again.batch_tokens,
            "versions": software_versions(),
            "command": command,
        },
    )
    save_latency(results, config.cache_dir)
    return results


def _names(readout: Any) -> tuple[str, ...] | None:
    if readout is None:
        return None
    given = [readout] if isinstance(readout, str | os.PathLike) else readout
    if not fits(given, tuple[str, ...]):
        raise ConfigError(f"readout must be names or readout files, got {shown(readout)}")
    return tuple(os.fspath(name) for name in given)


def _numbers(threshold: Any) -> tuple[float, ...] | None:
    if threshold is None:
        return None
    given = [threshold] if fits(plain(threshold), float) else threshold
    if not fits(given, tuple[float, ...]):
        raise ConfigError(f"threshold must be numbers, got {shown(threshold)}")
    return tuple(float(each) for each in given)


def _require_able(again: Reopened) -> None:
    if again.model.device.type == "mps":
        raise ConfigError(
            "readouts run live on cpu or cuda: mps has no float64, in which they are computed; "
            "give --device cpu"
        )


def _sides(again: Reopened, config: LatencyConfig) -> Iterator[Side]:
    """The examples in batches, then fewer of them one at a time."""
    tokens = config.batch_tokens or again.batch_tokens
    for batch, most, batch_tokens in (
        ("batched", config.examples, tokens),
        ("one", min(config.singles, config.examples), 1),
    ):
        units = some_units(again.work, config.split, most, config.seed)
        yield Side(
            batch=batch,
            work=again.work.only(units),
            examples=again.work.examples(units),
            batch_tokens=batch_tokens,
        )
