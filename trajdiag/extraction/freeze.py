"""Model and task to store: made, resumed or found complete."""

import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trajdiag.cachedir import STORE_SUFFIX, stores_folder
from trajdiag.errors import CheckpointError, ConfigError, OutOfSpaceError
from trajdiag.extraction.config import ExtractConfig
from trajdiag.extraction.examples import examples_in_store_order, store_columns
from trajdiag.extraction.forward import batches_by_length, trajectories
from trajdiag.models.base import LoopedModel
from trajdiag.models.registry import load_model
from trajdiag.names import require_name
from trajdiag.signals import SIGNALS
from trajdiag.store.columns import Columns
from trajdiag.store.reader import Store
from trajdiag.store.record import StoreRecord
from trajdiag.store.recorder import Recorder
from trajdiag.store.schema import SCHEMA_VERSION, ArraySpec, block_specs
from trajdiag.store.versions import software_versions
from trajdiag.store.writer import (
    StoreWriter,
    existing_record,
    remove_discarded,
    remove_store,
)
from trajdiag.tasks.base import Examples, Task
from trajdiag.tasks.foreign import facts, require_classes
from trajdiag.tasks.registry import make_task, task_names

Progress = Callable[[str], None]

_WAITING = 2
"""Batches held between the model and the recorder."""


def extract(
    model: str | os.PathLike[str] | LoopedModel,
    task: str | Task | None = None,
    *,
    progress: Progress = lambda line: None,
    **options: Any,
) -> Store:
    """The store of `model` on `task`, made, resumed, or, when it is complete, just opened.

    `model` and `task` are names as in ExtractConfig, whose other fields are `options`, or the
    things themselves. Raises a TrajdiagError for whatever stops it; every block written until then
    is kept, and the same call goes on from there.
    """
    is_named = not isinstance(model, LoopedModel) and not isinstance(task, Task)
    config = ExtractConfig(
        model=model.record.name if isinstance(model, LoopedModel) else os.fspath(model),
        task=task.name if isinstance(task, Task) else task,
        **options,
    )
    if not isinstance(model, LoopedModel):
        model = load_model(
            model, device=config.device, dtype=config.dtype, cache_dir=config.cache_dir
        )
    own = _own_task(model)
    if not isinstance(task, Task):
        task = _named_task(config, own)
    require_classes(task)
    if task.vocab_size > model.vocab_size:
        raise ConfigError(
            f"task {task.name} needs a vocabulary of {task.vocab_size}, model {config.model} has "
            f"{model.vocab_size}; choose a model trained on it"
        )
    path = _store_path(config, model, task, own)
    record = _record(config, model, task, [config.command()] if is_named else [])
    found = None if config.overwrite else existing_record(path)
    if found is not None:
        found.require_same(record, path)
    remove_discarded(path)
    if found is None or not found.complete:
        _freeze(config, model, task, path, record, progress)
    progress(f"store {path} is complete")
    return Store.open(path)


def _freeze(
    config: ExtractConfig,
    model: LoopedModel,
    task: Task,
    path: Path,
    record: StoreRecord,
    progress: Progress,
) -> None:
    examples, split = examples_in_store_order(task)
    columns = store_columns(examples, split, inputs=config.inputs)
    specs = block_specs(
        examples=len(examples),
        loops=record.config["loops"],
        classes=model.vocab_size if task.class_ids is None else len(task.class_ids),
        d_model=model.d_model,
        dtype=record.store_dtype,
        gate=model.has_gate,
        signals=list(SIGNALS),
    )
    needed = sum(len(spec.chunk_keys()) * spec.chunk_bytes for spec in specs.values())
    _require_space(path, needed + _text_bytes(columns))
    record = dataclasses.replace(record, task={**record.task, "notes": facts(task, "notes")})
    if config.overwrite:
        remove_store(path)
    with StoreWriter(path, record=record, columns=columns, specs=specs) as writer:
        there = writer.blocks - len(writer.pending)
        progress(
            f"store {path}: {len(examples):,} examples, {record.config['loops']} loops, "
            f"{needed / 2**20:,.1f} MiB"
            + (f"; {there} of {writer.blocks} blocks are there" * bool(there))
        )
        rows = _row_limit(config, model, specs)
        _run(model, task, examples, writer, rows, progress)
        writer.finish()


def _run(
    model: LoopedModel,
    task: Task,
    examples: Examples,
    writer: StoreWriter,
    rows: Callable[[int], int],
    progress: Progress,
) -> None:
    """Compute and write the pending blocks."""
    pending, loops = writer.pending, writer.specs["hidden"].shape[1]
    total = sum(len(writer.rows(block)) for block in pending)
    began, done = time.monotonic(), 0

    def written(block: int) -> None:
        nonlocal done
        done += len(writer.rows(block))
        speed = done / (time.monotonic() - began)
        left = (total - done) / speed
        progress(f"{done:,} of {total:,} examples, {speed:,.0f}/s, {left:.0f} s left")

    class_ids = None
    if task.class_ids is not None:
        class_ids = torch.from_numpy(task.class_ids).to(model.device)
    recorder = Recorder(writer, examples.id, waiting=_WAITING, written=written)
    with torch.inference_mode(), recorder:
        for block in pending:
            of_block = slice(writer.rows(block).start, writer.rows(block).stop)
            input_ids, length = examples.input_ids[of_block], examples.length[of_block]
            for at in batches_by_length(length, rows):
                ids = torch.from_numpy(input_ids[at, : length[at[0]]].astype(np.int64))
                recorder.put(trajectories(model, ids, class_ids, loops, block=block, at=at))


def _row_limit(
    config: ExtractConfig, model: LoopedModel, specs: Mapping[str, ArraySpec]
) -> Callable[[int], int]:
    """The most rows of a batch by their length: within `batch_tokens`, and within `memory` beside
    the block's buffers."""
    loops = specs["hidden"].shape[1]
    block = sum(len(spec.block_keys(0)) * spec.chunk_bytes for spec in specs.values())
    kept = loops * (model.vocab_size * 4 + model.d_model * model.dtype.itemsize)
    budget = config.memory * 2**30 - block
    most = max(1, int(budget / (kept * (_WAITING + 2)))) if budget > 0 else 1
    return lambda length: max(1, min(most, config.batch_tokens // length))


def _own_task(model: LoopedModel) -> dict[str, Any] | None:
    """Name and parameters of the task that a checkpoint says it was trained on, if it says so."""
    section = model.record.config.get("trajdiag")
    own = section.get("task") if isinstance(section, dict) else None
    if own is None:
        return None
    whole = isinstance(own, dict) and isinstance(own.get("parameters"), dict)
    if not whole or not isinstance(own.get("name"), str):
        raise CheckpointError(
            f"config.json of model {model.record.name}: trajdiag.task must hold a name and "
            f"parameters, got {own!r:.80}"
        )
    return own


def _named_task(config: ExtractConfig, own: Mapping[str, Any] | None) -> Task:
    if own is not None and config.task in (None, own["name"]):
        return make_task(own["name"], **{**own["parameters"], **config.task_options})
    if config.task is None:
        raise ConfigError(
            f"model {config.model} names no task of its own; choose one with --task: "
            f"{', '.join(task_names())}, or package.module:Class"
        )
    return make_task(config.task, **config.task_options)


def _store_path(
    config: ExtractConfig, model: LoopedModel, task: Task, own: Mapping[str, Any] | None
) -> Path:
    is_own = own is not None and own["name"] == task.name
    name = config.name or model.record.name + ("" if is_own else f"--{task.name}")
    name = name.removesuffix(STORE_SUFFIX).replace(":", ".")
    return stores_folder(config.cache_dir) / (require_name("store", name) + STORE_SUFFIX)


def _record(
    config: ExtractConfig, model: LoopedModel, task: Task, commands: list[str]
) -> StoreRecord:
    dtype = str(model.dtype).removeprefix("torch.")
    return StoreRecord(
        schema=SCHEMA_VERSION,
        model=dataclasses.asdict(model.record),
        task={"name": task.name, "parameters": facts(task, "parameters"), "notes": {}},
        config={
            "loops": model.loops if config.loops is None else config.loops,
            "dtype": dtype,
            "device": model.device.type,
            "batch_tokens": config.batch_tokens,
            "inputs": config.inputs,
        },
        compute_dtype=dtype,
        store_dtype=dtype,
        batch_order="within a block by length, then in store order; no padding",
        class_names=None if task.class_names is None else list(task.class_names),
        versions=software_versions(),
        commands=commands,
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
    )


def _text_bytes(columns: Columns) -> int:
    """About what the per-example columns take on disk."""
    texts = [columns.id, columns.split] + ([] if columns.input is None else [columns.input])
    numbers = 8 * (3 + len(columns.covariates)) * len(columns)
    return numbers + sum(4 + len(text) for column in texts for text in column.tolist())


def _require_space(path: Path, needed: int) -> None:
    home = path
    while not home.exists():
        home = home.parent
    free = shutil.disk_usage(home).free
    if needed > free:
        raise OutOfSpaceError(
            f"store {path} needs {needed / 2**20:,.0f} MiB, {free / 2**20:,.0f} MiB are free; "
            "free some space, or choose another --cache-dir"
        )
