"""Fitting the MLP gate to the val loss that a plain PyTorch loop reaches: half its time."""

import math
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from trajdiag.gates.gate import Gate
from trajdiag.gates.halting import ponder_loss, prior
from trajdiag.gates.network import GateNetwork
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.reader import Store

EXAMPLES, LOOPS, D_MODEL, REPEATS = 50_000, 6, 256, 5
BETA = 0.05
SPLIT = {"fit": 0.8, "val": 0.2}


def run() -> list[dict[str, object]]:
    """Time of ours, from the store on disk to the fitted gate, over the plain loop's, from arrays
    in memory to its early stop; our val loss's excess over the plain one, and its share of the
    prior's.
    """
    # torch's first optimiser imports its compiler, seconds that are not the plain loop's fault.
    torch.optim.AdamW([torch.zeros(1)])
    with tempfile.TemporaryDirectory() as folder:
        store = from_arrays(Path(folder) / "planted.zarr", *planted())
        arrays = {split: _in_memory(store, split) for split in SPLIT}
        pairs = [_pair(store, arrays, seed) for seed in range(REPEATS)]
    ours, plain, our_loss, _, baseline = (
        statistics.median(column) for column in zip(*pairs, strict=True)
    )
    excess = statistics.median((o - p) / p for _, _, o, p, _ in pairs)
    return [
        _row("gate/time-ratio", ours / plain, "ratio", 0.5),
        _row("gate/val-loss-excess", excess, "ratio", 0.0),
        _row("gate/val-loss-over-prior", our_loss / baseline, "ratio", 0.5),
        _row("gate/seconds", ours, "seconds", plain / 2),
    ]


def planted(
    kind: str = "smooth", strength: float = 1.0, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None, None, None, np.ndarray]:
    """The arguments of `from_arrays`: noisy states [example, loop, d_model] that tell, more or less
    plainly, whether the example is solved by this loop, and logits that are right just where it is.

    `linear`: one direction tells. `rotated`: two directions tell by the sign of their product, as
    in XOR. `spread`: the states' length tells. `smooth`: a smooth function of four directions
    decides what is solved.
    """
    rng = torch.Generator().manual_seed(seed)
    hidden = torch.randn(EXAMPLES, LOOPS, D_MODEL, generator=rng)
    first_right = torch.randint(1, LOOPS + 1, (EXAMPLES, 1), generator=rng)
    loop = torch.arange(1, LOOPS + 1)
    right = loop >= first_right
    sign = 2.0 * right - 1.0
    axes = torch.linalg.qr(torch.randn(D_MODEL, 4, generator=rng)).Q.T
    if kind == "linear":
        hidden += 3 * strength * sign[..., None] * axes[0]
    elif kind == "rotated":
        side = torch.randint(0, 2, right.shape, generator=rng) * 2.0 - 1.0
        hidden += 3 * strength * (side[..., None] * axes[0] + (side * sign)[..., None] * axes[1])
    elif kind == "spread":
        hidden *= (1 + 0.15 * strength * sign)[..., None]
    else:
        a, b, c, d = (2 * strength * hidden @ axes.T).unbind(-1)
        right = torch.tanh(a * b) + torch.sin(2 * c) + d + loop / 2 - 2 > 0
    noise = 0.5 * torch.randn(right.shape, generator=rng)
    margin = torch.where(right, 3.0, -2.0) + noise
    logits = torch.stack([margin, torch.zeros_like(margin)], -1)
    edge = round(SPLIT["fit"] * EXAMPLES)
    split = np.repeat(list(SPLIT), [edge, EXAMPLES - edge])
    return hidden, logits, torch.zeros(EXAMPLES, dtype=torch.int64), None, None, None, split


def _pair(
    store: Store, arrays: dict[str, tuple[torch.Tensor, torch.Tensor]], seed: int
) -> tuple[float, float, float, float, float]:
    """Seconds of ours and of the plain loop, their val losses, and the prior's."""
    start = time.perf_counter()
    gate = Gate(kind="mlp", beta=BETA, seed=seed).fit(store)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    plain_loss = plain_loop(*arrays["fit"], *arrays["val"], seed=seed)
    plain = time.perf_counter() - start
    return ours, plain, gate.val_loss_, plain_loss, gate.baseline_loss_


def plain_loop(
    hidden: torch.Tensor,
    ce: torch.Tensor,
    val_hidden: torch.Tensor,
    val_ce: torch.Tensor,
    seed: int,
) -> float:
    """The least val loss of the loop anyone would write: float32, AdamW 1e-3, shuffled minibatches
    of 1,024, stop after 3 passes without improvement."""
    torch.manual_seed(seed)
    pi = prior("uniform", LOOPS).float()
    network = GateNetwork("mlp", D_MODEL)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3)
    best, stale = math.inf, 0
    while stale < 3:
        for at in torch.randperm(len(hidden)).split(1024):
            loss = ponder_loss(ce[at], network(hidden[at]), pi, BETA)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            logits = torch.cat([network(part) for part in val_hidden.split(1024)])
            loss = ponder_loss(val_ce, logits, pi, BETA).item()
        best, stale = (loss, 0) if loss < best else (best, stale + 1)
    return best


def _in_memory(store: Store, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """float32 states [example, loop, d_model] and cross-entropies [example, loop]."""
    states = torch.from_numpy(store.numpy("hidden", split=split))
    return states, torch.from_numpy(store.cross_entropy(split)).float()


def _row(name: str, value: float, unit: str, bar: float) -> dict[str, object]:
    return {"name": name, "value": round(value, 5), "unit": unit, "bar": bar, "holds": value <= bar}
