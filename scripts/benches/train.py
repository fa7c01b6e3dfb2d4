"""The trainer over its matrix products alone, and two runs at once over one with two threads.

1. A training step of the study's models over the floor: every product of that step, all loops
   forward and then all loops backward, with the same shapes: four linear maps a layer (query, key
   and value as one, gate and up as one), attention's two products a head and group of rows, the
   head, and for each its two gradients. Every loop has its own operands, as training must keep
   them, in memory that is there already. The floor leaves out the batch, embedding, norms,
   rotation, softmax, activation, residuals, losses, clipping and the optimiser. One thread,
   interleaved with the trainer at the same step.
2. Steps a second of two processes with one thread each, together, over those of one process with
   two threads.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
STEPS, WARM, REPEATS = 20, 60, 7
TIMED = 60
BARS = {"floor": 2.0, "two-runs": 1.3}
TASKS = {"mano": "fixed-uniform", "parity": "fixed-uniform"}


def run() -> list[dict[str, Any]]:
    """A row a task for the floor, one for the two runs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = [_row(f"train/{task}", over_floor(task), BARS["floor"]) for task in TASKS]
    finally:
        torch.set_num_threads(threads)
    return [*rows, _row("train/two-runs", two_runs(), BARS["two-runs"])]


def _row(name: str, value: float, bar: float) -> dict[str, Any]:
    holds = value >= bar if name == "train/two-runs" else value <= bar
    return {"name": name, "value": round(value, 3), "unit": "ratio", "bar": bar, "holds": holds}


def training(task: str) -> Any:
    """A training of the study's, at its hardest rows and with its dense labels, warmed up."""
    from studies.settings import SMALL

    from trajdiag.tasks.registry import make_task
    from trajdiag.training.run import TrainingRun

    study = SMALL.task(task)
    setting = next(s for s in study.settings if s.name == TASKS[task])
    config = study.config(setting, 0, "bench", "bench")
    made = make_task(task, **config.task_options)
    run = TrainingRun(config, made, torch.device("cpu"))
    run.curriculum = type(run.curriculum)(level=made.max_difficulty, last=made.max_difficulty)
    for _ in range(WARM):
        run.advance()
    return run


def over_floor(task: str) -> float:
    """The trainer's time over the floor's, the median of the ratios of pairs."""
    run = training(task)
    floor = matrix_products(run)
    ratios = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(STEPS):
            run.advance()
        ours = time.perf_counter() - began
        began = time.perf_counter()
        for _ in range(STEPS):
            floor()
        ratios.append(ours / (time.perf_counter() - began))
    return statistics.median(ratios)


Pair = tuple[Callable[[], None], Callable[[], None]]
"""What runs the products of a part forward, and those of its gradients."""


def matrix_products(run: Any) -> Callable[[], None]:
    """What runs the floor of one step of `run`."""
    groups, decisions = shapes(run)
    config = run.decoder.config
    heads, dim, width = config.num_attention_heads, config.head_dim, config.hidden_size
    inner, tokens = config.intermediate_size, sum(r * p for r, p in groups)
    maps = [(width, 3 * heads * dim), (heads * dim, width), (width, 2 * inner), (inner, width)]
    parts: list[Pair] = []
    for _ in range(config.total_ut_steps * config.num_hidden_layers):
        parts += [_linear(tokens, *shape) for shape in maps]
        parts += [_attention(rows * heads, positions, dim) for rows, positions in groups]
    parts.append(_linear(decisions * config.total_ut_steps, width, config.vocab_size))

    def products() -> None:
        for forward, _ in parts:
            forward()
        for _, backward in reversed(parts):
            backward()

    return products


def shapes(run: Any) -> tuple[list[tuple[int, int]], int]:
    """(rows, positions) of a step's groups, and its decisions."""
    import numpy as np

    from trajdiag.training.batch import pack
    from trajdiag.training.schedule import rows_by_difficulty

    task, config = run.task, run.config
    rows = rows_by_difficulty(config, task.min_difficulty, run.curriculum.level)
    groups = task.training_batch(np.random.default_rng(0), rows)
    batch = pack(groups, task.class_ids, config.dense, torch.device("cpu"))
    return [(g.shape[0], g.shape[1]) for g in batch.groups], len(batch.target)


def _linear(tokens: int, given: int, made: int) -> Pair:
    """y = x W'; dx = dy W, dW = dy' x."""
    x, dy, weight = torch.randn(tokens, given), torch.randn(tokens, made), torch.randn(made, given)
    y, dx, dw = torch.empty_like(dy), torch.empty_like(x), torch.empty_like(weight)

    def forward() -> None:
        torch.mm(x, weight.T, out=y)

    def backward() -> None:
        torch.mm(dy, weight, out=dx)
        torch.mm(dy.T, x, out=dw)

    return forward, backward


def _attention(matrices: int, positions: int, dim: int) -> Pair:
    """Scores and values of `matrices` rows and heads; their four gradients."""
    q, k, v, out, above = (torch.randn(matrices, positions, dim) for _ in range(5))
    scores, shares = (torch.randn(matrices, positions, positions) for _ in range(2))
    dq, dk, dv = (torch.empty_like(q) for _ in range(3))

    def forward() -> None:
        torch.bmm(q, k.transpose(1, 2), out=scores)
        torch.bmm(shares, v, out=out)

    def backward() -> None:
        torch.bmm(shares.transpose(1, 2), above, out=dv)
        torch.bmm(above, v.transpose(1, 2), out=scores)
        torch.bmm(scores, k, out=dq)
        torch.bmm(scores.transpose(1, 2), q, out=dk)

    return forward, backward


def two_runs() -> float:
    """Steps a second of two single-thread processes over those of one with two threads, the median
    over repeats that stand side by side."""
    ratios = []
    for _ in range(3):
        together = sum(_paces([1, 1]))
        ratios.append(together / _paces([2])[0])
    return statistics.median(ratios)


def _paces(threads: list[int]) -> list[float]:
    """Steps a second of processes that run at once."""
    running = [
        subprocess.Popen(
            [sys.executable, __file__, str(n)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(n), "OMP_WAIT_POLICY": "PASSIVE"},
        )
        for n in threads
    ]
    for process in running:  # each says that it is warm, and waits
        assert process.stdout is not None
        process.stdout.readline()
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [float(process.communicate()[0]) for process in running]


def _pace(threads: int) -> None:
    torch.set_num_threads(threads)
    run = training("mano")
    print("warm", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    for _ in range(TIMED):
        run.advance()
    print(TIMED / (time.perf_counter() - began), flush=True)


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "scripts"), str(ROOT)]
    _pace(int(sys.argv[1]))
