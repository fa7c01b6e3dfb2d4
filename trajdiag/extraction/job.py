"""A model and a task that go together, and the store that they make."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trajdiag.cachedir import STORE_SUFFIX, is_url, require_place, stores_folder
from trajdiag.errors import OutOfSpaceError
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
from trajdiag.extraction.running import WAITING, Written, probe, run
from trajdiag.extraction.vocabulary import TOP
from trajdiag.extraction.work import Work
from trajdiag.models.base import LoopedModel, Tokenizer
from trajdiag.models.registry import load_model
from trajdiag.names import require_name
from trajdiag.progress import Progress
from trajdiag.store.columns import Columns
from trajdiag.store.durable import require_writable
from trajdiag.store.folder import Folder, open_folder
from trajdiag.store.opening import existing_record
from trajdiag.store.record import StoreRecord
from trajdiag.store.removal import emptied
from trajdiag.store.schema import HEAD, SCHEMA_VERSION, TOKENS, ArraySpec
from trajdiag.store.versions import software_versions
from trajdiag.store.writer import StoreWriter
from trajdiag.tasks.base import Task
from trajdiag.tasks.foreign import facts


@dataclass(frozen=True, kw_only=True)
class Job:
    """A model and a task, loaded, and where their store goes."""

    config: ExtractConfig
    model: LoopedModel
    task: AnyTask
    folder: Folder
    record: StoreRecord

    def found(self) -> StoreRecord | None:
        """The record of the store that is there and is to stay; None where there is none.

        Raises ConfigError where it is a store of another identity.
        """
        found = None if self.config.overwrite else existing_record(self.folder)
        if found is not None:
            found.require_same(self.record, self.folder.location)
        return found


@dataclass(frozen=True, kw_only=True)
class Ready:
    """What is to be run and written, tried on one example, and known to fit."""

    work: Work
    specs: Mapping[str, ArraySpec]
    reading: Reading
    attachments: Mapping[str, bytes]
    record: StoreRecord
    needed: int
    """Bytes of the store."""
    free: int | None
    """Bytes; None where there is no end of them."""


def prepare(config: ExtractConfig, model: LoopedModel | None, task: AnyTask | None) -> Job:
    """The job of `config`; `model` and `task` are None where it names them.

    Raises TrajdiagError where they cannot be had, or do not go together.
    """
    command = config.command() if model is None and task is None else config.call()
    _require_place(config)
    if model is None:
        model = load_model(
            config.model,
            device=config.device,
            dtype=config.dtype,
            cache_dir=config.cache_dir,
            revision=config.revision,
            initial_state=config.initial_state,
        )
    own = own_task(model)
    if task is None:
        task = named_task(config, model, own)
    require_suited(config, model, task)
    return Job(
        config=config,
        model=model,
        task=task,
        folder=open_folder(_location(config, model, task, own), config.cache_dir),
        record=_record(config, model, task, command),
    )


def _require_place(config: ExtractConfig) -> None:
    """Raise StoreError where the store cannot be there already, nor be made: before a model is
    fetched and read."""
    if config.store is not None and is_url(config.store):
        return
    place = Path(config.store or stores_folder(config.cache_dir))
    if not place.exists():
        require_writable(place)


def make_ready(job: Job, progress: Progress) -> Ready:
    """Everything but the forward of more than one example. Nothing is written.

    Raises ConfigError where model or task do not hold together, OutOfSpaceError.
    """
    job.folder.require_space(0)  # before examples are made, whether anything can be written
    made = plan(job.config, job.model, job.task, job.record.config["loops"], job.record.store_dtype)
    work = made.work
    needed = sum(len(spec.chunk_keys()) * spec.chunk_bytes for spec in made.specs.values())
    needed += 0 if made.head is None else kept_bytes(made.head)
    needed += len(made.tokens or b"")
    for line in made.said:
        progress(line)
    try:
        free = job.folder.require_space(needed + _text_bytes(work.columns))
    except OutOfSpaceError as error:
        if made.vocabulary != "full":
            raise
        fewer = f"{error}, or keep fewer logits by --logits topk:{TOP}"
        raise OutOfSpaceError(fewer) from error
    reading = _reading(job.config, job.model, made)
    probe(job.model, work, reading)
    return Ready(
        work=work,
        specs=made.specs,
        reading=reading,
        attachments={
            **({} if made.tokens is None else {TOKENS: made.tokens}),
            **(
                {}
                if made.head is None
                else {HEAD: head_content(job.model, work, reading, made.head)}
            ),
        },
        record=dataclasses.replace(
            job.record,
            task={**job.record.task, "notes": made.notes},
            class_names=None if work.class_names is None else list(work.class_names),
            classes=made.classes,
        ),
        needed=needed,
        free=free,
    )


def make(
    job: Job, ready: Ready, progress: Progress, written: Written | None = None
) -> StoreRecord | None:
    """Write the blocks of the job's shard; the record of the store, if it is then complete.

    `written` is told each block in place of lines about them. Raises TrajdiagError for whatever
    stops it; what is recorded is kept.
    """
    config, folder = job.config, job.folder
    with (
        emptied(folder) if config.overwrite else nullcontext() as lock,
        StoreWriter(
            folder,
            record=ready.record,
            columns=ready.work.columns,
            specs=ready.specs,
            attachments=ready.attachments,
            shard=config.shard_of,
            lock=lock,
        ) as writer,
    ):
        there = writer.blocks - len(writer.missing())
        progress(
            f"store {folder.location}: {len(ready.work):,} examples, {ready.reading.loops} loops, "
            f"{ready.needed / 2**20:,.1f} MiB"
            + ("" if ready.free is None else f"; {ready.free / 2**30:,.1f} GiB are free")
            + (f"; {there} of {writer.blocks} blocks are there" * bool(there))
            + (f"; {len(writer.pending)} are for {config.shard_of}" * (config.shard_of.count > 1))
        )
        run(job.model, ready.work, writer, ready.reading, config.batch_tokens, progress, written)
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
        require_place(config.store)
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
    return numbers + sum(4 * len(column) + sum(map(len, column.tolist())) for column in texts)
