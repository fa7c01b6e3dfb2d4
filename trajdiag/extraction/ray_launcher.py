"""Extraction on a Ray cluster: a worker a shard, and another in the place of one that is lost."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trajdiag.cachedir import cache_root
from trajdiag.errors import ConfigError, StoreError, WorkerError
from trajdiag.extraction.config import ExtractConfig
from trajdiag.extraction.plan import AnyTask
from trajdiag.extraction.ray_worker import Begun, Order, Worker
from trajdiag.models.base import LoopedModel
from trajdiag.progress import Progress
from trajdiag.ray_cluster import on_ray
from trajdiag.store.folder import Folder, open_folder
from trajdiag.store.journal import read_journal
from trajdiag.store.opening import existing_record
from trajdiag.store.record import group_file
from trajdiag.store.repair import say_changed
from trajdiag.store.schema import GROUP
from trajdiag.store.shard import Shard

LOSSES = 3
"""Workers of one shard that may be lost in a row, none of which has written a block."""
_ROOM = 10.0
"""Seconds after which it is said that the cluster has no room."""


@dataclass(frozen=True, kw_only=True)
class Crew:
    """How many workers, and what each takes of the cluster."""

    workers: int
    cpus: int
    """Threads too, where there is no GPU."""
    gpus: int

    def __str__(self) -> str:
        each = "a GPU" if self.gpus else f"{self.cpus} CPU{'s' * (self.cpus > 1)}"
        return f"{self.workers} Ray worker{'s' * (self.workers > 1)} of {each} each"


def crew(machines: Sequence[Mapping[str, float]], *, workers: int | None, device: str) -> Crew:
    """The workers for `machines`, whose CPU and GPU are counts; `device` is auto or a kind.

    One a GPU, else one a machine, unless `workers` says; without GPUs each takes the largest number
    of CPUs with which all find room at once, else 1. Raises ConfigError where there is nothing.
    """
    gpus = sum(int(machine.get("GPU", 0)) for machine in machines)
    if device.startswith("cuda") or (device == "auto" and gpus):
        if not gpus:
            raise ConfigError("the Ray cluster has no GPU; give --device cpu, or add machines")
        return Crew(workers=workers or gpus, cpus=1, gpus=1)
    cpus = [int(machine.get("CPU", 0)) for machine in machines if machine.get("CPU", 0) >= 1]
    if not cpus:
        raise ConfigError("the Ray cluster has no CPUs for workers; add machines to it")
    wanted = workers or len(cpus)
    sizes = range(1, max(cpus) + 1)
    roomy = [size for size in sizes if sum(count // size for count in cpus) >= wanted]
    return Crew(workers=wanted, cpus=max(roomy, default=1), gpus=0)


def extract_on_ray(
    config: ExtractConfig, model: LoopedModel | None, task: AnyTask | None, progress: Progress
) -> str:
    """The location of the store of `config`, made by a Ray cluster; `model` and `task` are None
    where it names them.

    Raises WorkerError where workers are lost again and again, and what a worker raises.
    """
    given = None if model is None and task is None else (model, task)
    with on_ray() as ray:
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        device = config.device if model is None else model.device.type
        size = crew(machines, workers=config.workers, device=device)
        progress(str(size))
        order = Order(
            config=config,
            given=None if given is None else _pickled(ray, given),
            folder=str(Path.cwd()),
            cache_root=str(cache_root(None).absolute()),
            threads=None if size.gpus else size.cpus,
        )
        launch = _Launch(ray=ray, size=size, order=ray.put(order), progress=progress)
        try:
            return _extract(launch, config, size)
        finally:
            launch.end()


def _extract(launch: "_Launch", config: ExtractConfig, size: Crew) -> str:
    first = launch.hire(0)
    begun: Begun = launch.run([first], lambda hired: hired.actor.begin.remote())[0]
    folder = open_folder(begun.location, config.cache_dir)
    if begun.record is not None:
        created = _begin_store(folder, begun)
        count = min(size.workers, begun.blocks)
        launch.there = set(read_journal(folder, begun.blocks).blocks)
        launch.blocks, launch.shards = begun.blocks, count
        hired = [first, *(launch.hire(index) for index in range(1, count))]
        launch.run(
            hired,
            lambda each: each.actor.make.remote(each.index, count, created, each.losses > 0),
            lets_go=True,
        )
    record = existing_record(folder)
    if record is None or not record.complete:
        raise StoreError(
            f"the workers are done, and {begun.location} is not complete as this machine sees it: "
            "all machines must share that folder, or give --store an s3:// or gs:// URL"
        )
    say_changed(folder, begun.before, record, launch.progress)
    launch.progress(f"store {begun.location} is complete")
    return begun.location


def _begin_store(folder: Folder, begun: Begun) -> str:
    """When the store was begun, which is here unless it had been: by that workers know that they
    see the folder which this process sees."""
    found = existing_record(folder)
    if found is not None:
        return found.created
    assert begun.record is not None
    folder.create(GROUP, group_file(begun.record))
    return begun.record.created


def _pickled(ray: Any, given: object) -> bytes:
    try:
        return ray.cloudpickle.dumps(given)
    except Exception as error:  # whatever a user's classes raise
        raise ConfigError(
            "the model and the task cannot be sent to Ray's workers: "
            f"{' '.join(str(error).split())[:300]}; name them, as package.module:Class"
        ) from error


@dataclass(kw_only=True)
class _Hired:
    """A worker that makes a shard, or takes part in beginning the store."""

    index: int
    actor: Any
    since: float = field(default_factory=time.monotonic)
    losses: int = 0
    """In a row, without a block."""
    host: str = ""
    """Empty until the worker has room."""
    last: str = ""
    """What it said last."""
    work: Any = None
    """Ray's reference to what it does."""
    words: Any = None
    """Ray's reference to what it says next; None where it says no more."""


@dataclass(kw_only=True)
class _Launch:
    """The workers, and what they tell."""

    ray: Any
    size: Crew
    order: Any
    progress: Progress
    blocks: int = 0
    shards: int = 1
    there: set[int] = field(default_factory=set)
    """Blocks that are durable."""
    told: set[str] = field(default_factory=set)
    """Lines that a worker has said: others say the same."""
    hired: list[_Hired] = field(default_factory=list)
    waits: bool = False
    """Whether it has been said that the cluster has no room."""

    def hire(self, index: int) -> _Hired:
        """A worker, which begins once the cluster has room."""
        self.hired.append(_Hired(index=index, actor=self._actor()))
        return self.hired[-1]

    def run(
        self, hired: list[_Hired], work: Callable[[_Hired], Any], *, lets_go: bool = False
    ) -> list[Any]:
        """What `work`, a remote call, gives of each; a lost worker is replaced, and its work begun
        again. `lets_go`: whether each then makes room in the cluster."""
        results: dict[int, Any] = {}
        began, at_first = time.monotonic(), len(self.there)
        for each in hired:
            each.work, each.words = work(each), each.actor.said.remote()
        while len(results) < len(hired):
            busy = [each for each in hired if each.index not in results]
            pending = [each.work for each in busy]
            pending += [each.words for each in busy if each.words is not None]
            done, _ = self.ray.wait(pending, num_returns=1, timeout=1.0)
            before = len(self.there)
            for each in busy:
                if each.work in done:
                    try:
                        results[each.index] = self._result(each)
                    except _Lost as lost:
                        self._replace(each, lost)
                        each.work, each.words = work(each), each.actor.said.remote()
                    else:
                        if lets_go:
                            self.ray.kill(each.actor)
                elif each.words in done:
                    self._hear(each)
            if len(self.there) > before:
                speed = (len(self.there) - at_first) / (time.monotonic() - began)
                left = (self.blocks - len(self.there)) / speed
                self.progress(
                    f"{len(self.there):,} of {self.blocks:,} blocks, {speed:.2g}/s, "
                    f"{left:.0f} s left"
                )
            self._say_waiting(busy)
        return [results[each.index] for each in hired]

    def end(self) -> None:
        """Stop all workers; what they have recorded stays."""
        for each in self.hired:
            self.ray.kill(each.actor)

    def _say_waiting(self, busy: list[_Hired]) -> None:
        late = time.monotonic() - _ROOM
        outside = sum(not each.host and each.since < late for each in busy)
        if outside and not self.waits:
            self.waits = True
            self.progress(f"{outside} of {len(busy)} workers wait for room in the cluster")

    def _actor(self) -> Any:
        actor = self.ray.remote(Worker)
        resources = {"num_cpus": self.size.cpus, "num_gpus": self.size.gpus}
        return actor.options(**resources, max_concurrency=2).remote(self.order)

    def _result(self, each: _Hired) -> Any:
        """What the worker's work gave. Raises what it raised, or _Lost."""
        try:
            result = self.ray.get(each.work)
        except self.ray.exceptions.RayTaskError as error:
            # what a worker raised is the same error as without Ray, told in its own line
            raise (error.cause if isinstance(error.cause, Exception) else error) from error
        except self.ray.exceptions.RayError as error:
            self._hear(each)
            raise _Lost(_reason(str(error))) from error
        while each.words is not None:
            self._hear(each)
        return result

    def _hear(self, each: _Hired) -> None:
        """Take up what the worker says, and ask for more, unless it is done or lost."""
        if each.words is None:
            return
        try:
            each.host, said = self.ray.get(each.words)
        except self.ray.exceptions.RayError:  # which its work will tell
            each.words = None
            return
        each.words = None if said[-1:] == [None] else each.actor.said.remote()
        for words in said:
            if words is None:
                continue
            if isinstance(words, int):
                self.there.add(words)
                each.losses = 0
                continue
            each.last = words
            if words not in self.told:
                self.told.add(words)
                self.progress(words)

    def _replace(self, each: _Hired, lost: "_Lost") -> None:
        each.losses += 1
        shard = Shard(index=each.index, count=self.shards)
        who = f"the Ray worker of {shard}" + (f" on {each.host}" if each.host else "")
        if each.losses == LOSSES:
            raise WorkerError(
                f"{who} was lost {LOSSES} times in a row without a new block: {lost}"
                + (f"; it had said: {each.last}" if each.last else "")
                + "; often memory is what lacks: give fewer --workers, or lower --memory; Ray's "
                "logs there say more, and the same command goes on where it was"
            ) from lost
        self.progress(f"{who} was lost ({lost}); another takes it up")
        self.ray.kill(each.actor)
        each.actor, each.since, each.host, each.last = self._actor(), time.monotonic(), "", ""


class _Lost(Exception):
    """A worker that is no more, and why."""


def _reason(text: str) -> str:
    """The part of Ray's message that says what happened."""
    found = re.search(r"exit detail: (.*?)(?:\. Some common causes|$)", text, re.DOTALL)
    return " ".join((found[1] if found else text).split())[:300].rstrip(".")
