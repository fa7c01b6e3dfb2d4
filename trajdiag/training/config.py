"""The options of `trajdiag train`, and presets of them that are known to work."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from trajdiag.errors import ConfigError, UnknownNameError, shown
from trajdiag.gates.halting import PRIORS, PriorKind
from trajdiag.gates.network import GATE_KINDS, GateKind
from trajdiag.models.config_keys import MOST_LOOPS
from trajdiag.names import checked_options, require_type, settle_fields
from trajdiag.training.objectives import OBJECTIVES, ObjectiveKind

Decay = Literal["linear", "cosine"]
Precision = Literal["fp32", "bf16"]


def _require(condition: bool, option: str, wanted: str, came: object) -> None:
    if not condition:
        raise ConfigError(f"training option {option} must be {wanted}, not {shown(came)}")


def _choice(option: str, value: str, existing: tuple[str, ...]) -> None:
    if value not in existing:
        raise UnknownNameError(option, value, existing)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """What is trained, on what, and how; the defaults are the quick preset for MANO."""

    task: str = "mano"
    """Task to train on: a built-in name, or package.module:Class."""
    task_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the task, such as max_difficulty; the others keep the task's own defaults."""
    objective: ObjectiveKind = "fixed"
    """`final`: the last loop's loss; `fixed`: all loops', weighted by the prior; `joint`: weighted
    by a gate that is trained along, held to the prior."""
    prior: PriorKind = "uniform"
    """Prior over exit loops, for `fixed` and `joint`."""
    lam: float = 0.3
    """Rate of the geometric prior."""
    gate: GateKind = "linear"
    """Gate of `joint`."""
    beta: float = 0.1
    """Weight of KL(q || prior) in `joint`."""
    loops: int = 5
    """Loops T."""
    layers: int = 1
    """Layers in the looped block."""
    d_model: int = 64
    """Width of the states."""
    heads: int = 4
    """Attention heads."""
    feed_forward: int = 128
    """Width inside the feed-forward part."""
    init_std: float = 0.1
    """Standard deviation of the initial matrices."""
    rope_theta: float = 10_000.0
    """Base of the rotary positions."""
    tied: bool = False
    """Use the embedding as the head."""
    steps: int = 3300
    """Optimiser steps."""
    batch: int = 112
    """Rows a step, about."""
    lr: float = 4e-3
    """Highest learning rate, reached at the end of the warm-up."""
    final_lr: float = 0.0
    """Learning rate at the last step."""
    warmup: int = 50
    """Steps of linear warm-up."""
    decay: Decay = "linear"
    """Shape of the decay after the warm-up."""
    adam_betas: tuple[float, float] = (0.9, 0.98)
    """AdamW's averaging rates."""
    weight_decay: float = 0.05
    """AdamW's weight decay."""
    clip: float = 1.0
    """Largest norm of the gradient."""
    dense: bool = True
    """Also learn, with a weight that fades to 0 by 80% of the steps, the value of every part of
    the input that a token completes. Not in the paper; small models need it."""
    curriculum: bool = True
    """Begin with the least difficulty, and add the next when training accuracy at the hardest
    passes 80%. Not in the paper; small models need it."""
    harder_rows: bool = True
    """Draw more rows of the harder inputs: twice as many at the second difficulty as at the first,
    three times at the third, and so on. Off, as in the paper, every difficulty gets as many."""
    precision: Precision = "fp32"
    """`bf16` runs the matrix products under autocast; weights and losses stay float32."""
    seed: int = 0
    """Seed of the initial weights and of the training rows."""
    device: str = "auto"
    """cpu, cuda, or auto: cuda where there is one."""
    threads: int = 1
    """CPU threads; one is fastest for small models."""
    save_every: int = 500
    """Steps between the states that a killed run resumes from."""
    report_every: int = 250
    """Steps between progress lines."""
    name: str | None = None
    """Name of the checkpoint; made of task, objective and seed where it is left out."""
    cache_dir: str | None = None
    """Cache root; the checkpoint goes to its folder checkpoints/."""
    overwrite: bool = False
    """Throw away what is already there under this name."""

    def __post_init__(self) -> None:
        settle_fields(self)
        _choice("objective", self.objective, OBJECTIVES)
        _choice("prior", self.prior, PRIORS)
        _choice("gate", self.gate, GATE_KINDS)
        _choice("decay", self.decay, get_args(Decay))
        _choice("precision", self.precision, get_args(Precision))
        for option in dataclasses.fields(self):
            value = getattr(self, option.name)
            finite = not isinstance(value, float) or math.isfinite(value)
            _require(finite, option.name, "finite", value)
        for option, most in _MOST.items():
            value = getattr(self, option)
            _require(1 <= value <= most, option, f"from 1 to {most:,}", value)
        # Rows that val or test hold are left out, so a few must be drawn for one to stay.
        _require(self.batch >= 16, "batch", "at least 16", self.batch)
        _require(0 < self.lam < 1, "lam", "between 0 and 1", self.lam)
        _require(self.beta >= 0, "beta", "0 or more", self.beta)
        _require(self.lr > 0, "lr", "more than 0", self.lr)
        _require(0 <= self.final_lr <= self.lr, "final_lr", "from 0 to lr", self.final_lr)
        _require(0 <= self.warmup <= _MOST_STEPS, "warmup", f"0 to {_MOST_STEPS:,}", self.warmup)
        _require(self.init_std > 0, "init_std", "more than 0", self.init_std)
        _require(self.rope_theta > 0, "rope_theta", "more than 0", self.rope_theta)
        _require(
            all(0 <= beta < 1 for beta in self.adam_betas),
            "adam_betas",
            "from 0 to below 1",
            self.adam_betas,
        )
        _require(self.clip > 0, "clip", "more than 0", self.clip)
        _require(self.weight_decay >= 0, "weight_decay", "0 or more", self.weight_decay)
        _require(0 <= self.seed < 2**63, "seed", "from 0 to 2^63 - 1", self.seed)
        _require(
            self.d_model % self.heads == 0 and self.d_model // self.heads % 2 == 0,
            "d_model",
            f"a multiple of twice heads ({2 * self.heads}), for rotary positions",
            self.d_model,
        )

    @property
    def checkpoint_name(self) -> str:
        """`name`, or one that tells task, objective and seed."""
        if self.name is not None:
            return self.name
        task = self.task.rpartition(":")[2].lower()
        kind = {"final": "", "fixed": f"-{self.prior}", "joint": f"-{self.gate}"}[self.objective]
        return f"{task}-{self.objective}{kind}-seed{self.seed}"

    def identity(self) -> dict[str, Any]:
        """The options that determine the trained weights, as JSON values; those that say where, how
        fast and how loudly are left out."""
        kept = {k: v for k, v in dataclasses.asdict(self).items() if k not in _INCIDENTAL}
        return {
            **kept,
            "task_options": dict(self.task_options),
            "adam_betas": list(self.adam_betas),
        }


_MOST_STEPS = 2**53
_WIDEST = 2**28
_MOST = {
    **dict.fromkeys(("loops", "layers"), MOST_LOOPS),
    **dict.fromkeys(("d_model", "heads", "feed_forward", "batch"), _WIDEST),
    **dict.fromkeys(("steps", "save_every", "report_every"), _MOST_STEPS),
    "threads": 1024,
}
"""The greatest that an option of which there is at least 1 can be: beyond, sizes overflow or the
process dies before anything can be said."""
_INCIDENTAL = {
    *("device", "threads", "save_every", "report_every"),
    *("name", "cache_dir", "overwrite"),
}

_PAPER = TrainConfig(
    loops=6,
    layers=4,
    d_model=512,
    heads=4,
    # Three matrices of this width have the parameters of the paper's two of 4 d_model.
    feed_forward=1376,
    init_std=0.02,
    tied=True,
    steps=40_000,
    batch=1024,
    lr=5e-4,
    final_lr=5e-5,
    warmup=2000,
    decay="cosine",
    weight_decay=0.1,
    dense=False,
    curriculum=False,
    harder_rows=False,
    precision="bf16",
)
_FIFTY_THOUSAND = {"fit": 50_000, "val": 50_000, "test": 50_000}

PRESETS: dict[str, dict[str, TrainConfig]] = {
    "quick": {
        "mano": TrainConfig(),
        "parity": TrainConfig(
            task="parity",
            loops=6,
            d_model=48,
            heads=2,
            feed_forward=96,
            steps=1600,
            batch=128,
            lr=3e-3,
            harder_rows=False,
        ),
    },
    "paper": {
        "mano": dataclasses.replace(
            _PAPER, task_options={"modulus": 23, "max_difficulty": 10, **_FIFTY_THOUSAND}
        ),
        "parity": dataclasses.replace(
            _PAPER, task="parity", task_options={"max_difficulty": 40, **_FIFTY_THOUSAND}
        ),
    },
}
"""Settings by preset and task.

`quick` trains in minutes on a CPU core. `paper` has the sizes and the optimiser of arXiv
2607.20519, and is meant for a GPU; it differs from the paper in the block, which is Ouro's (no
biases, four RMSNorms a layer, rotary positions, SwiGLU, final norm fed back each loop), and in the
training rows, which are generated afresh for each step (the paper does so for parity; its MANO
models see 50,000 fixed rows).
"""


def train_config(preset: str = "quick", task: str = "mano", **options: Any) -> TrainConfig:
    """The settings of `preset` for `task`, with `options` on top; `task_options` add to the
    preset's.

    A task of the user's own takes the sizes and optimiser of MANO. Raises UnknownNameError for an
    unknown preset or option, ConfigError for a bad value.
    """
    preset, task = require_type("preset", preset, str), require_type("task", task, str)
    if preset not in PRESETS:
        raise UnknownNameError("preset", preset, PRESETS)
    options = checked_options("train_config", TrainConfig, options)
    by_task = PRESETS[preset]
    base = (
        by_task[task] if task in by_task else dataclasses.replace(by_task["mano"], task_options={})
    )
    task_options = {**base.task_options, **options.pop("task_options", {})}
    return dataclasses.replace(base, task=task, task_options=task_options, **options)
