"""The runs of a study: trained, frozen, fitted, each kept on its own and none done twice."""

import dataclasses
import fcntl
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from studies.settings import SCALES, Scale, Setting, TaskStudy

import trajdiag
from trajdiag.errors import CheckpointError, ConfigError, GateError, TrajdiagError
from trajdiag.gates.config import FitGateConfig
from trajdiag.gates.gate import load_gate
from trajdiag.store.folder import open_folder
from trajdiag.store.inspection import inspect
from trajdiag.store.reader import Store

LONGER = "-longer"
"""Ends the name of a run's store beyond the trained difficulty, and of the task there."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A setting and a seed."""

    task: str
    setting: Setting
    seed: int

    @property
    def name(self) -> str:
        """Of its checkpoint and its store."""
        return f"{self.task}-{self.setting.name}-s{self.seed}"


def runs_of(scale: Scale) -> list[Run]:
    """All runs, seed by seed within a task, so that an interrupted study has whole sets."""
    return [
        Run(task=study.task, setting=setting, seed=seed)
        for study in scale.tasks
        for seed in range(study.seeds)
        for setting in study.settings
    ]


def stores_of(study: TaskStudy, run: Run) -> list[str]:
    """The names of the stores that a run leaves."""
    return [run.name] + [run.name + LONGER] * (run.setting in study.longer)


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """One study at a time in a folder. Raises ConfigError where another is at work in it."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"another study is at work in {root}; wait until it ends, or give another "
                "--cache-dir"
            ) from None
        yield


def is_done(root: Path, scale: Scale, run: Run) -> bool:
    """Whether the run is finished, by the settings as they stand, and its stores and gates can be
    opened, which does not read all their bytes."""
    if _marked(root, run).get("identity") != _identity(root, scale, run):
        return False
    try:
        _open_all(root, scale, run)
    except TrajdiagError:
        return False
    return True


def forget_damaged(
    root: Path, scale: Scale, runs: Iterable[Run], say: Callable[[str], None]
) -> bool:
    """Whether one of these finished runs is damaged, by every byte of its stores: it is then no
    longer finished, and `run_all` makes what is damaged again."""
    found = False
    for run in runs:
        for damage in _damage(root, scale, run):
            say(f"{run.name}: {damage}")
            _set_mark(root, run, {**_marked(root, run), "identity": None})
            found = True
    return found


def _damage(root: Path, scale: Scale, run: Run) -> Iterator[str]:
    try:
        for name in stores_of(scale.task(run.task), run):
            damaged = inspect(open_folder(_store(root, name))).damage
            yield from (f"store {name} is damaged: {damage}" for damage in damaged[:1])
        if _has_other_weights(root, run):
            yield "its checkpoint is not the one that its store was made of"
        _open_all(root, scale, run)
    except TrajdiagError as error:
        yield str(error)


def _open_all(root: Path, scale: Scale, run: Run) -> None:
    """Raise TrajdiagError where a store or a gate of the run is missing or damaged."""
    study = scale.task(run.task)
    store, *_ = [Store.open(_store(root, name)) for name in stores_of(study, run)]
    for kind, objective in scale.gates if run.setting in study.six else ():
        options: dict[str, Any] = {"kind": kind, "objective": objective}
        load_gate(root / "gates" / run.name / FitGateConfig(**options).gate_name, store)


def _store(root: Path, name: str) -> Path:
    return root / "stores" / f"{name}.zarr"


def _has_other_weights(root: Path, run: Run) -> bool:
    """Whether the run's checkpoint has changed since its store was made. Raises CheckpointError
    where it cannot be read, StoreError where the store cannot."""
    made_of = Store.open(_store(root, run.name), unfinished=True).record.model.get("sha256")
    return trajdiag.load_model(run.name, cache_dir=str(root)).record.sha256 != made_of


def run_all(
    root: Path, scale: Scale, runs: Iterable[Run], say: Callable[[str], None]
) -> dict[str, str]:
    """Do the runs that are not done, some at once, each in one thread; gives what stopped those
    that failed, by name. The others go on."""
    waiting = [run for run in runs if not is_done(root, scale, run)]
    total, failed = len(waiting), {}
    while waiting:
        with _workers(scale.workers) as pool:
            flying: dict[Future[None], Run] = {}
            broken = False
            while flying or (waiting and not broken):
                while waiting and not broken and len(flying) < scale.workers:
                    run = waiting.pop(0)
                    flying[pool.submit(do_run, str(root), scale.name, run)] = run
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    run, error = flying.pop(future), future.exception()
                    broken |= isinstance(error, BrokenProcessPool)
                    if error is not None:
                        failed[run.name] = _in_a_line(error)
                    left = len(waiting) + len(flying)
                    told = "done" if error is None else f"FAILED: {failed[run.name]}"
                    say(f"{run.name}: {told} ({total - left} of {total})")
    return failed


@contextmanager
def _workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with this one, and at once where it is interrupted: whatever they do can
    be gone on with."""
    parent = os.getpid()
    with ProcessPoolExecutor(count, get_context("spawn"), _follow, (parent,)) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            for worker in active_children():
                worker.kill()
            raise


def _follow(parent: int) -> None:
    """Leave interrupts to the parent, and end once it has."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def do_run(root: str, scale_name: str, run: Run) -> None:
    """Train, extract, extract beyond the trained difficulty, and fit gates, whatever of it is
    missing or damaged; then mark the run as done."""
    scale, folder = SCALES[scale_name], Path(root)
    study = scale.task(run.task)
    began, spent = time.process_time(), {}

    def timed(what: str) -> None:
        nonlocal began
        spent[what] = round(time.process_time() - began, 2)
        began = time.process_time()

    def progress(line: str) -> None:
        print(f"{run.name}: {line}", file=sys.stderr, flush=True)

    if _marked(folder, run):
        try:
            _open_all(folder, scale, run)
        except TrajdiagError as error:
            progress(f"{error}: made again")
    _train(study, run, root, progress)
    timed("train")
    store = _extract(study, run, root, progress)
    timed("extract")
    if run.setting in study.six:
        for kind, objective in scale.gates:
            _fit(store, kind, objective, root, progress)
        timed("gates")
    identity = _identity(folder, scale, run)
    # what a run took when it was made, not when a part of it was made again
    known = _marked(folder, run).get("identity") in (None, identity)
    before = cpu_seconds(folder, run) if known else {}
    most = {part: max(seconds, before.get(part, 0.0)) for part, seconds in spent.items()}
    _set_mark(folder, run, {"identity": identity, "cpu_seconds": most})


def _train(
    study: TaskStudy, run: Run, root: str, progress: Callable[[str], None], *, again: bool = False
) -> None:
    """Train the run's model, unless its checkpoint is there and not `again`."""
    config = study.config(run.setting, run.seed, run.name, root)
    try:
        trajdiag.train(dataclasses.replace(config, overwrite=again), progress)
    except CheckpointError as error:
        if again:
            raise
        progress(f"{error}: trained again")
        _train(study, run, root, progress, again=True)


def _extract(study: TaskStudy, run: Run, root: str, progress: Callable[[str], None]) -> Store:
    """The run's stores, of which it gives the first; where its checkpoint has changed since they
    were made, it is trained again."""

    def stores() -> Store:
        found = [
            trajdiag.extract(
                run.name,
                name=name,
                task_options=dict(study.longer_options) if name.endswith(LONGER) else {},
                cache_dir=root,
            )
            for name in stores_of(study, run)
        ]
        return found[0]

    try:
        return stores()
    except (CheckpointError, ConfigError) as error:
        if isinstance(error, ConfigError) and not _has_other_weights(Path(root), run):
            raise
        progress(f"{error}: trained again")
    _train(study, run, root, progress, again=True)
    return stores()


def _fit(
    store: Store, kind: str, objective: str, root: str, progress: Callable[[str], None]
) -> None:
    """Fit a gate, unless the one that is there is whole and was fitted on this store."""
    options: dict[str, Any] = {"kind": kind, "objective": objective, "cache_dir": root}
    try:
        trajdiag.fit_gate(store, **options)
    except (GateError, ConfigError) as error:
        progress(f"{error}: fitted again")
        trajdiag.fit_gate(store, overwrite=True, **options)


def cpu_seconds(root: Path, run: Run) -> Mapping[str, float]:
    """What each part of a finished run took at most, of all times that it was done."""
    found = _marked(root, run).get("cpu_seconds")
    parts = found.items() if isinstance(found, dict) else ()
    return {part: seconds for part, seconds in parts if isinstance(seconds, int | float)}


def _marked(root: Path, run: Run) -> dict[str, Any]:
    """What was kept of a finished run; empty where it is not there or cannot be read."""
    try:
        found = json.loads(_mark(root, run).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _set_mark(root: Path, run: Run, content: Mapping[str, Any]) -> None:
    mark = _mark(root, run)
    mark.parent.mkdir(parents=True, exist_ok=True)
    partial = mark.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text(json.dumps(content), encoding="utf-8")
    partial.replace(mark)


def _mark(root: Path, run: Run) -> Path:
    return root / "runs" / f"{run.name}.json"


def _identity(root: Path, scale: Scale, run: Run) -> dict[str, Any]:
    """What a run's artifacts follow from."""
    study = scale.task(run.task)
    identity = {
        "train": study.config(run.setting, run.seed, run.name, str(root)).identity(),
        "longer": dict(study.longer_options) if run.setting in study.longer else None,
        "gates": [list(gate) for gate in scale.gates] if run.setting in study.six else None,
    }
    return json.loads(json.dumps(identity))


def _in_a_line(error: BaseException) -> str:
    if isinstance(error, BrokenProcessPool):
        return "a worker process died beside it or in it (out of memory, or killed); run it again"
    kind = "" if isinstance(error, TrajdiagError) else f"{type(error).__name__}: "
    return kind + " ".join(str(error).split())
