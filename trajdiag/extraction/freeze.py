"""Model and task to store: made, resumed or found complete."""

import os
from typing import Any

from trajdiag.extraction.config import ExtractConfig
from trajdiag.extraction.job import Job, make, make_ready, prepare
from trajdiag.extraction.plan import AnyTask
from trajdiag.extraction.ray_launcher import extract_on_ray
from trajdiag.models.base import LoopedModel
from trajdiag.models.own import require_model
from trajdiag.names import checked_options
from trajdiag.progress import Progress
from trajdiag.store.opening import existing_record
from trajdiag.store.reader import Store
from trajdiag.store.repair import needs_writing, say_changed
from trajdiag.tasks.foreign import require_task


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
    options = checked_options("extract", ExtractConfig, options, "progress")
    given_model = None if isinstance(model, str | os.PathLike) else require_model(model)
    given_task = None if task is None or isinstance(task, str) else task
    if given_task is not None:
        require_task(given_task)
    config = ExtractConfig(
        model=os.fspath(model) if isinstance(model, str | os.PathLike) else model.record.name,
        task=task if task is None or isinstance(task, str) else task.name,
        **options,
    )
    if config.launcher == "ray":
        location = extract_on_ray(config, given_model, given_task, progress)
        return Store.open(location, cache_dir=config.cache_dir)
    job = prepare(config, given_model, given_task)
    before = job.found()
    if needs_writing(job.folder, before, progress):
        after = make(job, make_ready(job, progress), progress)
        say_changed(job.folder, before, after, progress)
    return _opened(job, progress)


def _opened(job: Job, progress: Progress) -> Store:
    """The store, if it is complete; else what its other shards have written so far."""
    config, location = job.config, job.folder.location
    record = existing_record(job.folder)
    if record is None or not record.complete:
        store = Store.open(location, unfinished=True, cache_dir=config.cache_dir)
        missing = store.missing
        progress(
            f"store {location}: {config.shard_of} is there; {len(missing)} of "
            f"{store.blocks} blocks are missing, which other shards write; the last of them "
            "completes it"
        )
        return store
    progress(f"store {location} is complete")
    return Store.open(location, cache_dir=config.cache_dir)
