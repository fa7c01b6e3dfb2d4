"""The runs of a study: trained, frozen, fitted, each kept on its own and none done twice."""

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
from trajdiag.errors import ConfigError, TrajdiagError

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
    """Whether the run is finished, by the settings as they stand, and all it left is there."""
    study = scale.task(run.task)
    stores = [root / "stores" / f"{name}.zarr" for name in stores_of(study, run)]
    gates = list((root / "gates" / run.name).glob("*/gate.safetensors"))
    whole = all(store.is_dir() for store in stores) and (
        run.setting not in study.six or len(gates) >= len(scale.gates)
    )
    return whole and _marked(root, run).get("identity") == _identity(root, scale, run)


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
    missing; then mark the run as done."""
    scale = SCALES[scale_name]
    study = scale.task(run.task)
    began, spent = time.process_time(), {}

    def timed(what: str) -> None:
        nonlocal began
        spent[what] = round(time.process_time() - began, 2)
        began = time.process_time()

    def progress(line: str) -> None:
        print(f"{run.name}: {line}", file=sys.stderr, flush=True)

    trajdiag.train(study.config(run.setting, run.seed, run.name, root), progress)
    timed("train")
    store = trajdiag.extract(run.name, name=run.name, cache_dir=root)
    if run.setting in study.longer:
        trajdiag.extract(
            run.name,
            name=run.name + LONGER,
            task_options=dict(study.longer_options),
            cache_dir=root,
        )
    timed("extract")
    if run.setting in study.six:
        for kind, objective in scale.gates:
            trajdiag.fit_gate(store, kind=kind, objective=objective, cache_dir=root)
        timed("gates")
    mark = _mark(Path(root), run)
    mark.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"identity": _identity(Path(root), scale, run), "cpu_seconds": spent})
    partial = mark.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text(text, encoding="utf-8")
    partial.replace(mark)


def cpu_seconds(root: Path, run: Run) -> Mapping[str, float]:
    """What each part of a finished run took; little where it was there already."""
    return _marked(root, run).get("cpu_seconds", {})


def _marked(root: Path, run: Run) -> dict[str, Any]:
    """What was kept of a finished run; empty where it is not there or cannot be read."""
    try:
        found = json.loads(_mark(root, run).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


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
