"""What changes over a training: learning rate, weight of the dense labels, difficulty."""

import math
from dataclasses import dataclass

from trajdiag.tasks.splits import shares
from trajdiag.training.config import TrainConfig

DENSE_UNTIL = 0.8
"""The share of the steps by which the dense labels have faded out."""
PASSED = 0.8
"""Training accuracy at the hardest difficulty above which the curriculum adds the next."""


def learning_rate(config: TrainConfig, step: int) -> float:
    """The rate of 0-based `step`: linear warm-up to lr, then linear or cosine decay to final_lr."""
    if step < config.warmup:
        return config.lr * (step + 1) / config.warmup
    done = (step - config.warmup) / max(1, config.steps - config.warmup)
    left = 1 - done if config.decay == "linear" else (1 + math.cos(math.pi * done)) / 2
    return config.final_lr + (config.lr - config.final_lr) * left


def dense_weight(config: TrainConfig, step: int) -> float:
    """The weight of the dense labels' loss at 0-based `step`; the answers' weight is 1."""
    return max(0.0, 1 - step / (DENSE_UNTIL * config.steps)) if config.dense else 0.0


def rows_by_difficulty(config: TrainConfig, first: int, level: int) -> dict[int, int]:
    """How many of a step's rows each difficulty from `first` to `level` gets: the same number of
    each or, with `harder_rows`, in proportion to its place, the easiest 1, the next 2, and so
    on."""
    bins = level - first + 1
    if not config.harder_rows:
        return dict(zip(range(first, level + 1), shares(config.batch, bins), strict=True))
    counts = [config.batch * place // (bins * (bins + 1) // 2) for place in range(1, bins + 1)]
    counts[-1] += config.batch - sum(counts)
    return dict(zip(range(first, level + 1), counts, strict=True))


@dataclass(frozen=True, kw_only=True)
class Curriculum:
    """The hardest difficulty that training rows have."""

    level: int
    last: int

    @classmethod
    def begin(cls, config: TrainConfig, first: int, last: int) -> "Curriculum":
        """At the least difficulty, or at the last one at once where there is no curriculum."""
        return cls(level=first if config.curriculum else last, last=last)

    def advance(self, accuracy: float) -> "Curriculum":
        """The curriculum after a step that left `accuracy` at its level."""
        if self.level < self.last and accuracy > PASSED:
            return Curriculum(level=self.level + 1, last=self.last)
        return self
