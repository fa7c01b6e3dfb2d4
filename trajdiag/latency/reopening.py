"""A store's model and task again, to be run: the same weights, the same examples."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trajdiag.errors import ConfigError, FingerprintError, UnknownNameError
from trajdiag.extraction.config import ExtractConfig
from trajdiag.extraction.config import Pool as StatePool
from trajdiag.extraction.job import prepare
from trajdiag.extraction.plan import AnyTask, length_rule, work_of
from trajdiag.extraction.work import Work
from trajdiag.models.base import LoopedModel
from trajdiag.store.reader import Store
from trajdiag.store.schema import ARRAYS
from trajdiag.tasks.questions import DocumentTask

_MAY_DIFFER = ("device",)
"""What may differ from the extraction: it moves last bits, which are counted."""


@dataclass(frozen=True, kw_only=True)
class Reopened:
    """What a store was made of."""

    model: LoopedModel
    work: Work
    """All its examples, in the store's order."""
    loops: int
    batch_tokens: int
    state_pool: StatePool
    """Whether the state is that of the last token before the decision, or the mean up to it."""
    is_text: bool
    """Whether the task is running text."""


def reopen(
    store: Store,
    *,
    model: LoopedModel | str | None = None,
    task: AnyTask | str | None = None,
    device: str = "auto",
    cache_dir: str | None = None,
) -> Reopened:
    """The model and the task of a complete `store`, as its own command names them; `model` and
    `task`, names or the things themselves, stand in for what that cannot say.

    Raises ConfigError for a store that no model made, or whose model or task cannot be had again,
    FingerprintError for a model of other weights and for a task of other examples, StoreError for
    an unfinished store.
    """
    _ = store.fingerprint  # which an unfinished store lacks
    record = store.record
    if record.model.get("family") == ARRAYS:
        raise ConfigError(
            f"store {store.name} was made of arrays, and there is no model to run: load the model "
            "as --model FOLDER or package.module:Class and extract a store with it"
        )
    config = dataclasses.replace(
        ExtractConfig.from_line(record.commands[0]),
        device=device,
        shards=1,
        shard=0,
        **({} if cache_dir is None else {"cache_dir": cache_dir}),
        **({"model": model} if isinstance(model, str) else {}),
        **({"task": task} if isinstance(task, str) else {}),
    )
    is_command = not record.commands[0].startswith("#")
    if model is None and is_command and record.model.get("source") == "local":
        _require_folder(store, config.model)
    given_model = None if model is None or isinstance(model, str) else model
    given_task = None if task is None or isinstance(task, str) else task
    try:
        job = prepare(config, given_model, given_task)
    except UnknownNameError as error:
        if isinstance({"model": model, "task": task}.get(error.kind), str):
            raise
        missing = str(error).partition(",")[0].partition(";")[0]
        raise ConfigError(
            f"the model and the task of store {store.name} cannot be had again ({missing}): name "
            "them as --model and --task, or give them in Python as model= and task="
        ) from error
    _require_model(store, job.model)
    differences = [
        difference
        for difference in record.differences(job.record)
        if difference.partition(" ")[0] not in _MAY_DIFFER
    ]
    if differences:
        raise FingerprintError(
            f"store {store.name} was made otherwise than would be run: {', '.join(differences)}; "
            "give the --model and --task that made it, or extract again"
        )
    work = work_of(config, job.model, job.task, length_rule(config, job.model))
    _require_examples(store, work, job.task.name)
    return Reopened(
        model=job.model,
        work=work,
        loops=store.loops,
        batch_tokens=config.batch_tokens,
        state_pool=config.pool,
        is_text=isinstance(job.task, DocumentTask),
    )


def some_units(work: Work, split: str, most: int, seed: int) -> np.ndarray:
    """Units of `split`, ascending, that hold at most `most` of its examples (or one unit that
    holds more), drawn with `seed`; all of them where they are that few."""
    of_split = np.flatnonzero(work.columns.split[work.unit_examples[:-1]] == split)
    held = np.diff(work.unit_examples)[of_split]
    if held.sum() <= most:
        return of_split
    order = np.random.default_rng(seed).permutation(len(of_split))
    count = max(1, int(np.searchsorted(np.cumsum(held[order]), most, side="right")))
    return of_split[np.sort(order[:count])]


def _require_folder(store: Store, folder: str) -> None:
    """Raise ConfigError where `folder`, of the store's model, is not there; a path with a slash in
    it would be taken for a model of the hub."""
    if Path(folder).is_dir():
        return
    seen = "" if Path(folder).is_absolute() else f" in {Path.cwd()}"
    raise ConfigError(
        f"the model of store {store.name} was the folder {folder}, which is not there{seen}: give "
        "the place that it has moved to as --model FOLDER, or the model in Python as model="
    )


def _require_model(store: Store, model: LoopedModel) -> None:
    known, found = store.record.model, model.record
    if found.sha256 != known["sha256"]:
        raise FingerprintError(
            f"store {store.name} is of model {known['name']} with SHA-256 "
            f"{known['sha256'][:12]}, and {found.name} has {found.sha256[:12]}; give the weights "
            "that made it as --model, or extract a store of these"
        )


def _require_examples(store: Store, work: Work, task: str) -> None:
    """Raise FingerprintError where the examples of `work` are not the store's, in its order."""
    fault = None
    if len(work) != len(store):
        fault = f"{len(work):,} examples where the store has {len(store):,}"
    else:
        for name in ("ids", "target", "split", "inputs"):
            there = getattr(store, name)
            here = getattr(work.columns, {"ids": "id", "inputs": "input"}.get(name, name))
            if there is None or here is None:
                continue
            differing = np.flatnonzero(here.astype(there.dtype) != there)
            if len(differing):
                at = int(differing[0])
                fault = f"{name.removesuffix('s')} {here[at]!r:.60} where it has {there[at]!r:.60}"
                break
    if fault is not None:
        raise FingerprintError(
            f"task {task} is not the one of store {store.name}: it gives {fault}; give the --task "
            "that made it, or extract again"
        )
