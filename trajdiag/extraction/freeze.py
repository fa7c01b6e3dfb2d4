"""Model and task to store: made, resumed or found complete."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trajdiag.cachedir import STORE_SUFFIX, stores_folder
from trajdiag.extraction.config import ExtractConfig
from trajdiag.extraction.forward import Reading
from trajdiag.extraction.head import head_content, kept_bytes
from trajdiag.extraction.plan import (
    AnyTask,
    Plan,
    named_task,
    own_task,
    plan,
    require_suited,
)
from trajdiag.extraction.running import WAITING, probe, run
from trajdiag.models.base import LoopedModel, Tokenizer
from trajdiag.models.own import require_model
from trajdiag.models.registry import load_model
from trajdiag.names import require_name, require_options
from trajdiag.store.columns import Columns
from trajdiag.store.folder import Folder, open_folder
from trajdiag.store.opening import existing_record
from trajdiag.store.reader import Store
from trajdiag.store.record import StoreRecord
from trajdiag.store.repair import needs_writing, say_changed
from trajdiag.store.schema import HEAD, SCHEMA_VERSION
from trajdiag.store.versions import software_versions
from trajdiag.store.writer import StoreWriter, remove_store
from trajdiag.tasks.base import Task
from trajdiag.tasks.foreign import facts, require_task

Progress = Callable[[str], None]


def extract(
    model: str | os.PathLike[str] | LoopedModel,
    task: str | AnyTask | None = None,
    *,
    progress: Progress = lambda line: None,
    **options: Any,
) -> Store:
    """The store of `model` on `task`, made, resumed, or, when it is complete, just opened.

    `model` and `task` are names as in ExtractConfig, whose other fields are `options`, or the
    things themselves. Raises a TrajdiagError for whatever stops it; every block written until then
    is kept, and the same call goes on from there.
    """
    require_options("extract", ExtractConfig, options, "progress")
    is_named = isinstance(model, str | os.PathLike) and (task is None or isinstance(task, str))
    if not isinstance(model, str | os.PathLike):
        require_model(model)
    if task is not None and not isinstance(task, str):
        require_task(task)
    config = ExtractConfig(
        model=os.fspath(model) if isinstance(model, str | os.PathLike) else model.record.name,
        task=task if task is None or isinstance(task, str) else task.name,
        **options,
    )
    if isinstance(model, str | os.PathLike):
        model = load_model(
            model,
            device=config.device,
            dtype=config.dtype,
            cache_dir=config.cache_dir,
            revision=config.revision,
            initial_state=config.initial_state,
        )
    own = own_task(model)
    if task is None or isinstance(task, str):
        task = named_task(config, model, own)
    require_suited(config, model, task)
    folder = open_folder(_location(config, model, task, own), config.cache_dir)
    record = _record(config, model, task, config.command() if is_named else _call(config))
    found = None if config.overwrite else existing_record(folder)
    if found is not None:
        found.require_same(record, folder.location)
    if needs_writing(folder, found, progress):
        after = _freeze(config, model, task, folder, record, progress)
        say_changed(folder, found, after, progress)
    return _opened(config, folder, progress)


def _opened(config: ExtractConfig, folder: Folder, progress: Progress) -> Store:
    """The store, if it is complete; else what its other shards have written so far."""
    record = existing_record(folder)
    if record is None or not record.complete:
        store = Store.open(folder.location, unfinished=True, cache_dir=config.cache_dir)
        missing = store.missing
        progress(
            f"store {folder.location}: {config.shard_of} is there; {len(missing)} of "
            f"{store.blocks} blocks are missing, which other shards write; the last of them "
            "completes it"
        )
        return store
    progress(f"store {folder.location} is complete")
    return Store.open(folder.location, cache_dir=config.cache_dir)


def _freeze(
    config: ExtractConfig,
    model: LoopedModel,
    task: AnyTask,
    folder: Folder,
    record: StoreRecord,
    progress: Progress,
) -> StoreRecord | None:
    """The record of the store, if it is complete."""
    loops = record.config["loops"]
    made = plan(config, model, task, loops, record.store_dtype)
    work, specs = made.work, made.specs
    needed = sum(len(spec.chunk_keys()) * spec.chunk_bytes for spec in specs.values())
    needed += 0 if made.head is None else kept_bytes(made.head)
    for line in made.said:
        progress(line)
    free = folder.require_space(needed + _text_bytes(work.columns))
    record = dataclasses.replace(
        record,
        task={**record.task, "notes": made.notes},
        class_names=None if work.class_names is None else list(work.class_names),
        classes=made.classes,
    )
    reading = _reading(config, model, made)
    probe(model, work, reading)
    head = {} if made.head is None else {HEAD: head_content(model, work, reading, made.head)}
    if config.overwrite:
        remove_store(folder)
    with StoreWriter(
        folder,
        record=record,
        columns=work.columns,
        specs=specs,
        attachments=head,
        shard=config.shard_of,
    ) as writer:
        there = writer.blocks - len(writer.missing())
        progress(
            f"store {folder.location}: {len(work):,} examples, {loops} loops, "
            f"{needed / 2**20:,.1f} MiB"
            + ("" if free is None else f"; {free / 2**30:,.1f} GiB are free")
            + (f"; {there} of {writer.blocks} blocks are there" * bool(there))
            + (f"; {len(writer.pending)} of them for {config.shard_of}" * (config.shards != 1))
        )
        run(model, work, writer, reading, config.batch_tokens, progress)
        return writer.finish()


def _reading(config: ExtractConfig, model: LoopedModel, made: Plan) -> Reading:
    loops = made.specs["hidden"].shape[1]
    block = sum(len(spec.block_keys(0)) * spec.chunk_bytes for spec in made.specs.values())
    left = max(0.0, config.memory * 2**30 - block)
    most = int(left / (loops * model.vocab_size * 4 * (WAITING + 2)))
    return Reading(loops=loops, pool=config.pool, vocabulary=made.vocabulary, most=max(1, most))


def _location(
    config: ExtractConfig, model: LoopedModel, task: AnyTask, own: Mapping[str, Any] | None
) -> str | Path:
    if config.store is not None:
        return config.store
    is_own = own is not None and own["name"] == task.name
    of_task = "" if is_own else f"--{task.name}".replace(":", ".").replace("/", ".")
    name = (config.name or model.record.name + of_task).removesuffix(STORE_SUFFIX)
    return stores_folder(config.cache_dir) / (require_name("store", name) + STORE_SUFFIX)


def _record(config: ExtractConfig, model: LoopedModel, task: AnyTask, command: str) -> StoreRecord:
    dtype = str(model.dtype).removeprefix("torch.")
    pads = "right" in model.padding
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
            "logits": config.logits,
            **({} if config.compress == "none" else {"compress": config.compress}),
            "pool": config.pool,
            "initial_state": model.record.initial_state,
            **({} if isinstance(task, Task) else _of_text(config, model)),
        },
        compute_dtype=dtype,
        store_dtype=dtype,
        batch_order="within a block by length, longest first; "
        + ("padded on the right" if pads else "no padding"),
        class_names=None,
        versions=software_versions(),
        commands=[command],
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
    )


def _call(config: ExtractConfig) -> str:
    """The call in Python, of a model or a task that has no name, as a comment in a shell."""
    given = config.command().removeprefix("trajdiag extract ")
    return f"# in Python, by trajdiag.extract with {given}"


def _of_text(config: ExtractConfig, model: LoopedModel) -> dict[str, Any]:
    """What else decides the numbers of a task in text."""
    return {
        "tokenizer": _identity(model.tokenizer),
        "logits_budget": config.logits_budget,
        "too_long": config.too_long,
        "window": config.window,
    }


def _identity(tokenizer: Tokenizer | None) -> str | None:
    """A hash that tells tokenizers apart: of tokenizer.json, or of a user's own's vocabulary."""
    if tokenizer is None:
        return None
    digest = getattr(tokenizer, "sha256", None)
    if digest is None:
        vocabulary = json.dumps(sorted(tokenizer.get_vocab().items()))
        digest = hashlib.sha256(vocabulary.encode()).hexdigest()
    return f"{digest}, bos {tokenizer.bos_token_id}, eos {tokenizer.eos_token_id}"


def _text_bytes(columns: Columns) -> int:
    """About what the per-example columns take on disk."""
    texts = [columns.id, columns.split] + ([] if columns.input is None else [columns.input])
    numbers = 8 * (3 + len(columns.covariates)) * len(columns)
    return numbers + sum(4 + len(text) for column in texts for text in column.tolist())
