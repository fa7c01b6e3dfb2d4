"""What the study trains and measures, by scale: the one place to read or change it.

`small` is for two CPU cores, `paper` for a GPU, `tiny` for the test. A setting is a way to train; a
run is a setting and a seed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trajdiag.training.config import TrainConfig, train_config

UNIFORM, GEOMETRIC = "uniform", "geometric"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A way to train."""

    objective: str
    prior: str = UNIFORM
    lam: float = 0.3
    gate: str = "linear"
    beta: float = 0.1

    @property
    def name(self) -> str:
        """Such as final, fixed-uniform, fixed-geometric-0.3, linear-uniform-b0.1, and
        mlp-geometric-b0.1, whose lam is 0.3."""
        if self.objective == "final":
            return "final"
        if self.objective == "fixed":
            return f"fixed-{self.prior}" + (f"-{self.lam:g}" if self.prior == GEOMETRIC else "")
        return f"{self.gate}-{self.prior}-b{self.beta:g}"


def fixed(prior: str, lam: float = 0.3) -> Setting:
    """All loops' losses, weighted by a prior."""
    return Setting(objective="fixed", prior=prior, lam=lam)


def joint(gate: str, prior: str, *betas: float) -> tuple[Setting, ...]:
    """A gate trained along, held to a prior by each beta; the geometric prior's lam is .3."""
    return tuple(Setting(objective="joint", gate=gate, prior=prior, beta=beta) for beta in betas)


FIXED = (fixed(UNIFORM), *(fixed(GEOMETRIC, lam) for lam in (0.2, 0.3, 0.5, 0.7)))
SIX = (
    *(fixed(UNIFORM), fixed(GEOMETRIC)),
    *(joint("linear", UNIFORM, 0.1) + joint("linear", GEOMETRIC, 0.1)),
    *(joint("mlp", UNIFORM, 0.1) + joint("mlp", GEOMETRIC, 0.1)),
)
"""Fixed, linear gate and MLP gate, each with the uniform prior and the geometric one of lam .3, at
the beta of the paper's parity: the trajectories that gates are fitted on again."""


@dataclass(frozen=True, kw_only=True)
class TaskStudy:
    """What is trained on one task."""

    task: str
    settings: tuple[Setting, ...]
    seeds: int
    """Training seeds 0, 1, .. of each setting."""
    preset: str = "quick"
    """Of trajdiag.train_config."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Over the preset's."""
    six: tuple[Setting, ...] = ()
    """Settings on whose frozen states gates are fitted."""
    longer: tuple[Setting, ...] = ()
    """Settings whose models are also run beyond the trained difficulty."""
    longer_options: Mapping[str, Any] = field(default_factory=dict)
    """The task's options there."""

    def config(self, setting: Setting, seed: int, name: str, cache_dir: str) -> TrainConfig:
        """The training of one run."""
        given: dict[str, Any] = {
            "objective": setting.objective,
            "prior": setting.prior,
            "lam": setting.lam,
            "gate": setting.gate,
            "beta": setting.beta,
            **self.options,
        }
        return train_config(
            self.preset, self.task, seed=seed, name=name, cache_dir=cache_dir, **given
        )


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A whole study."""

    name: str
    about: str
    """Its sizes in a sentence, for the page."""
    tasks: tuple[TaskStudy, ...]
    gates: tuple[tuple[str, str], ...] = (
        *(("linear", "ponder"), ("mlp", "ponder")),
        *(("linear", "utility"), ("mlp", "utility")),
    )
    """(kind, objective) of the gates that are fitted on frozen states."""
    workers: int = 2
    """Runs at once, each one thread."""
    bound: tuple[str, ...] = ("ridge", "mlp", "boosted")
    """Regressors of the learned bound."""
    resamples: int = 500
    """Behind every interval."""
    live: tuple[tuple[str, str, str], ...] = (
        ("mano", "fixed-uniform", "entropy"),
        ("mano", "linear-uniform-b0.1", "native"),
    )
    """(task, setting, readout) that are run live, on the models of seed 0."""
    live_options: Mapping[str, Any] = field(default_factory=dict)
    """Of trajdiag.measure_latency."""

    def task(self, name: str) -> TaskStudy:
        """The task of this name."""
        return next(task for task in self.tasks if task.task == name)


READOUTS = (
    *("entropy", "top1", "logit_margin", "kl_current_previous", "logit_change"),
    *("hidden_displacement", "hidden_cosine", "native"),
)
"""The paper's signals and the model's own gate; gates fitted on frozen states come with them."""

# Sizes of `small`, from single runs of fixed uniform, seed 0, on one core (CPU seconds; accuracy of
# the last loop on val, in brackets on the hardest inputs):
#   MANO mod 7, 1..3 operations, T=5, 9,000 steps    300 s  .955 (.85): 95% is near its ceiling
#   MANO mod 5, 1..3 operations, T=5, 3,000 steps     99 s  .92  (.76): nor is it time,
#   the same at width 96, or feed-forward 256      93-98 s  .91  (.74): nor width, that it lacks
#   MANO mod 3, 1..3 operations, T=5, 2,400 steps     48 s  .991 (.97): loops 3 to 5 do nothing
#   MANO mod 3, 1..5 operations, T=6, 6,000 steps    170 s  .979 (.93): 98% is near its ceiling
#   MANO mod 3, 1..4 operations, T=6, 5,000 steps    127 s  .993 (.97): taken, with loop 2 at .949
#   parity 1..10, T=6, 1,200 steps                    24 s  .999 (.99)
#     its MLP gate trained jointly                    37 s  .999 (.99)
# Mod 3 has 10,935 inputs of three operations; the splits are as large as keeps those of val and
# test out of training (ten times fewer). Shorter inputs repeat, and are resampled together.
_MANO = {"fit": 2000, "val": 936, "test": 1436}
_PARITY = {"fit": 4000, "val": 2000, "test": 4000}
_LONGER = {"fit": 1500, "val": 1000, "test": 2000}

SMALL = Scale(
    name="small",
    about="Sizes that two CPU cores run through in an hour and a half.",
    tasks=(
        TaskStudy(
            task="mano",
            settings=(
                Setting(objective="final"),
                *FIXED,
                *joint("linear", UNIFORM, 0.001, 0.01, 0.1, 0.5),
                *joint("linear", GEOMETRIC, 0.01, 0.1),
                *joint("mlp", UNIFORM, 0.01, 0.1, 0.2),
                *joint("mlp", GEOMETRIC, 0.1),
            ),
            seeds=3,
            options={
                "steps": 5000,
                "loops": 6,
                "task_options": {"modulus": 3, "max_difficulty": 4, **_MANO},
            },
            six=SIX,
            longer=SIX[:3],
            longer_options={"max_difficulty": 6, **_LONGER},
        ),
        TaskStudy(
            task="parity",
            settings=SIX,
            seeds=5,
            options={"steps": 1200, "task_options": {"max_difficulty": 10, **_PARITY}},
            longer=SIX[:3],
            longer_options={"max_difficulty": 16, **_LONGER},
        ),
    ),
)

PAPER = Scale(
    name="paper",
    about="The paper's sizes and optimiser.",
    tasks=(
        TaskStudy(
            task="mano",
            preset="paper",
            settings=(
                Setting(objective="final"),
                *FIXED,
                *joint("linear", UNIFORM, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
                *joint("linear", GEOMETRIC, 0.01, 0.05, 0.1),
                *joint("mlp", UNIFORM, 0.001, 0.01, 0.1, 0.2),
                *joint("mlp", GEOMETRIC, 0.05, 0.1),
            ),
            seeds=3,
            six=SIX,
            longer=SIX,
            longer_options={"max_difficulty": 15},
        ),
        TaskStudy(
            task="parity",
            preset="paper",
            settings=SIX,
            seeds=5,
            longer=SIX,
            longer_options={"max_difficulty": 60},
        ),
    ),
    workers=1,
    resamples=1000,
)

_TINY_SPLITS = {"fit": 120, "val": 90, "test": 120}
_TINY = {"steps": 12, "batch": 48, "d_model": 16, "feed_forward": 32, "heads": 2, "loops": 4}

TINY = Scale(
    name="tiny",
    about="Too small to learn anything: for the test of the script alone.",
    tasks=(
        TaskStudy(
            task="mano",
            settings=(
                *(fixed(UNIFORM), fixed(GEOMETRIC)),
                *joint("linear", UNIFORM, 0.1),
            ),
            seeds=2,
            options={
                **_TINY,
                "task_options": {"modulus": 5, "max_difficulty": 3, **_TINY_SPLITS},
            },
            six=(fixed(UNIFORM), *joint("linear", UNIFORM, 0.1)),
            longer=(fixed(UNIFORM),),
            longer_options={"max_difficulty": 4},
        ),
        TaskStudy(
            task="parity",
            settings=(fixed(UNIFORM),),
            seeds=1,
            options={**_TINY, "task_options": {"max_difficulty": 6, **_TINY_SPLITS}},
        ),
    ),
    gates=(("linear", "ponder"), ("linear", "utility")),
    bound=("ridge",),
    resamples=40,
    live=(("mano", "fixed-uniform", "entropy"),),
    live_options={"examples": 64, "singles": 2, "repeats": 1},
)

SCALES = {scale.name: scale for scale in (SMALL, PAPER, TINY)}
