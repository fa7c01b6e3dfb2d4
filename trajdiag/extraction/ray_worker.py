"""A worker of a Ray cluster: makes one shard of a store, in a process of its own."""

import dataclasses
import functools
import os
import pickle
import platform
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from trajdiag.errors import BusyError, ConfigError, StoreError
from trajdiag.extraction.config import ExtractConfig
from trajdiag.extraction.job import Job, Ready, make, make_ready, prepare
from trajdiag.store.opening import existing_record
from trajdiag.store.record import StoreRecord
from trajdiag.store.removal import emptied
from trajdiag.store.repair import needs_writing
from trajdiag.store.versions import software_versions

HEARD = 1.0
"""Seconds after which a worker that has nothing to say says so."""
PATIENCE = 90.0
"""Seconds that a worker waits for one whose place it takes, which may live on where its machine
was only cut off."""

Said = list[str | int | None]
"""Lines of progress, and numbers of blocks that are durable; None says that no more will come."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What all workers are told."""

    config: ExtractConfig
    given: bytes | None
    """The model and the task, pickled; each None where `config` names it."""
    folder: str
    """Where the command runs, from which its relative paths start."""
    cache_root: str
    """The absolute path of the cache, where `config` does not say."""
    threads: int | None
    """Of a worker without a GPU."""
    version: str = field(default_factory=lambda: software_versions()["trajdiag"])


@dataclass(frozen=True, kw_only=True)
class Begun:
    """What the first worker has found out."""

    location: str
    before: StoreRecord | None
    """Of a store that was there."""
    record: StoreRecord | None
    """Of the store that is to be made; None where nothing is to be done."""
    blocks: int = 0


def _to_the_end(method: Callable[..., Any]) -> Callable[..., Any]:
    """Say at the end of it that no more will be said."""

    @functools.wraps(method)
    def whole(self: "Worker", *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        finally:
            self._said.put(None)

    return whole


class Worker:
    """An actor. `said` is called while another method runs, so that it takes two threads."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._said: queue.SimpleQueue[str | int | None] = queue.SimpleQueue()
        self._job: Job | None = None
        self._ready: Ready | None = None

    def said(self) -> tuple[str, Said]:
        """This machine's name, and what has been said since the last call."""
        said: Said = []
        try:
            said.append(self._said.get(timeout=HEARD))
            while True:
                said.append(self._said.get_nowait())
        except queue.Empty:
            return platform.node(), said

    @_to_the_end
    def begin(self) -> Begun:
        """Do all that one worker does for all: what is wrong with the request is met here, and a
        store that is to be made again, or repaired, is made ready for it."""
        job = self._prepared()
        before = job.found()
        if not needs_writing(job.folder, before, self._said.put):
            return Begun(location=job.folder.location, before=before, record=None)
        ready = self._readied(job)
        if job.config.overwrite:
            with emptied(job.folder):
                pass
        return Begun(
            location=job.folder.location,
            before=before,
            record=ready.record,
            blocks=ready.specs["hidden"].grid[0],
        )

    @_to_the_end
    def make(self, shard: int, shards: int, created: str, takes_over: bool) -> None:
        """Write the blocks of a shard that are missing. `created` is when the store was begun;
        `takes_over` says that another worker has tried."""
        job = self._prepared()
        config = dataclasses.replace(
            job.config, shards=shards, shard=shard, launcher="local", workers=None, overwrite=False
        )
        job = dataclasses.replace(job, config=config)
        record = existing_record(job.folder)
        if record is None or record.created != created:
            raise StoreError(
                f"the worker on {platform.node()} does not see the store that was begun at "
                f"{job.folder.location}: all machines must share that folder, or give --store an "
                "s3:// or gs:// URL"
            )
        if record.complete:
            return
        ready = self._readied(job)
        end = time.monotonic() + PATIENCE * takes_over
        while True:
            try:
                make(job, ready, self._said.put, self._said.put)
                return
            except BusyError:
                if time.monotonic() > end:
                    raise
                time.sleep(1)

    def _prepared(self) -> Job:
        if self._job is None:
            order, version = self._order, software_versions()["trajdiag"]
            if order.version != version:
                raise ConfigError(
                    f"the worker on {platform.node()} has trajdiag {version}, and this is "
                    f"{order.version}; install the same on all machines"
                )
            # where the machines share no such folder, the paths may still be absolute
            if os.path.isdir(order.folder):  # noqa: PTH112
                os.chdir(order.folder)
            os.environ["TRAJDIAG_CACHE"] = order.cache_root
            if order.threads is not None:
                torch.set_num_threads(order.threads)
            model, task = (None, None) if order.given is None else _unpickled(order.given)
            self._job = prepare(order.config, model, task)
        return self._job

    def _readied(self, job: Job) -> Ready:
        if self._ready is None:
            self._ready = make_ready(job, self._said.put)
        return self._ready


def _unpickled(given: bytes) -> Any:
    """What the driver has pickled: of the user's own making, as all that Ray carries."""
    try:
        return pickle.loads(given)
    except Exception as error:  # whatever a user's classes raise
        raise ConfigError(
            f"the worker on {platform.node()} cannot load the model or the task: "
            f"{type(error).__name__}: {' '.join(str(error).split())}; install their code on all "
            "machines, or name them as package.module:Class"
        ) from error
