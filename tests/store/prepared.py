"""A process that has imported everything and forks extractions, which can be killed at any call
that changes the disk: `Prepared` begins it and talks to it."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CHANGES = ("open", "write", "fsync", "replace", "rename", "link", "unlink", "mkdir", "pwrite")
"""Calls of `os` at each of which an extraction can be killed."""
EXAMPLES_IN_BLOCK, BLOCKS = 8, 6


class Prepared:
    """Extractions of one tiny model on one tiny task, each in a process of its own."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.store.prepared"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, store: Path, *, kill_at: int = -1, **options: Any) -> int:
        """The process that extracts to `store`. It kills itself at call number `kill_at` of those
        in CHANGES, before it where that is even, else after it, or after half of a write."""
        return self._ask({"store": str(store), "kill_at": kill_at, "options": options})

    def end(self, process: int) -> int:
        """Its exit status: 0, 1 for an error, -9 where it was killed."""
        return os.waitstatus_to_exitcode(self._ask({"wait": process}))

    def run(self, store: Path, **options: Any) -> int:
        return self.end(self.begin(store, **options))

    def close(self) -> None:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait(timeout=30)
        self._server.stdout.close()

    def _ask(self, question: dict[str, Any]) -> int:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(question) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


def told(store: Path) -> dict[str, Any]:
    """What the last extraction to `store` that ended said: its `error`, or the number of `calls`
    that changed the disk."""
    return json.loads(store.with_suffix(".told").read_text(encoding="utf-8"))


def computed(store: Path) -> list[int]:
    """The blocks that extractions to `store` have begun to write, in that order."""
    path = store.with_suffix(".blocks")
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def _kill_at(at: int) -> list[int]:
    """Count the calls that change the disk, and be killed at one of them."""
    count, lock = [0], threading.Lock()

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not (arguments[1] & (os.O_WRONLY | os.O_RDWR)):
                return real(*arguments, **options)
            with lock:
                this = count[0]
                count[0] += 1
            if this == at // 2:
                with suppress(OSError):
                    if at % 2 and name in ("write", "pwrite"):
                        half = memoryview(arguments[1])[: len(arguments[1]) // 2]
                        real(arguments[0], bytes(half), *arguments[2:])
                    elif at % 2:
                        real(*arguments, **options)
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    for name in CHANGES:
        setattr(os, name, counted(name, getattr(os, name)))
    return count


def _extract(question: dict[str, Any]) -> int:
    import torch

    from tests.looped import Letters, Spiral
    from trajdiag.errors import TrajdiagError
    from trajdiag.extraction import extract
    from trajdiag.store.writer import StoreWriter

    torch.set_num_threads(1)
    store, write_block = Path(question["store"]), StoreWriter.write_block
    descriptor = os.open(store.with_suffix(".blocks"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    write = os.write

    def written(writer: StoreWriter, block: int, arrays: Any) -> None:
        write(descriptor, b"%d\n" % block)
        write_block(writer, block, arrays)

    StoreWriter.write_block = written
    count = _kill_at(question["kill_at"])
    said: dict[str, Any] = {}
    try:
        extract(Spiral(), Letters(fit=24, val=12, test=12), store=str(store), **question["options"])
    except TrajdiagError as error:
        said["error"] = str(error)
    said["calls"] = count[0]
    store.with_suffix(".told").write_text(json.dumps(said), encoding="utf-8")
    return 1 if "error" in said else 0


def _serve() -> None:
    import trajdiag.extraction.freeze  # noqa: F401
    from trajdiag.store import schema

    schema.BLOCK_EXAMPLES, schema.COLUMN_EXAMPLES = EXAMPLES_IN_BLOCK, 2 * EXAMPLES_IN_BLOCK
    for line in sys.stdin:
        question = json.loads(line)
        if "wait" in question:
            print(os.waitpid(question["wait"], 0)[1], flush=True)
            continue
        child = os.fork()
        if not child:
            status = 2
            try:
                status = _extract(question)
            finally:
                os._exit(status)
        print(child, flush=True)


if __name__ == "__main__":
    _serve()
