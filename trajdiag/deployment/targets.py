"""What a threshold is to do, and the threshold that does it on val: an accuracy at the least depth,
a mean depth at the most accuracy, or a risk that is promised of new data."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trajdiag.errors import ConfigError, TrajdiagError, meant_share
from trajdiag.metrics.bootstrap import require_resamples
from trajdiag.metrics.frontier import TIE, Frontier, frontier
from trajdiag.metrics.risk_control import (
    binomial_p,
    conformal,
    fixed_sequence,
    group_weights,
    hoeffding_bentkus_p,
    risk_path,
)
from trajdiag.names import settle_fields

TARGETS = ("accuracy", "depth", "risk")


class NotReachedError(TrajdiagError):
    """No threshold of a readout does on val what was asked."""


@dataclass(frozen=True, kw_only=True)
class TargetConfig:
    """What a threshold is to do, one of `accuracy`, `depth` and `risk`, and how that is found."""

    accuracy: float | None = None
    """Share right: the least mean depth that reaches it on val."""
    depth: float | None = None
    """Loops: the most accurate threshold whose mean depth on val is at most this."""
    risk: float | None = None
    """Share of examples that are right at the last loop but wrong at the exit: the boldest
    threshold whose risk is at most this on new data, with a chance of 1 - delta."""
    delta: float = 0.05
    """The chance that the promised risk is broken."""
    min_depth: int = 1
    """The least loop at which anything may leave."""
    gates: tuple[str, ...] | None = None
    """Fitted gates, by name or folder; all that were fitted on the store when absent."""
    n_resamples: int = 1000
    """Bootstrap resamples behind every interval on test."""
    seed: int = 0
    """Seed of the resamples."""
    confidence: float = 0.95
    """Coverage of the intervals on test."""
    cache_dir: str | None = None
    """Root of the cache in which the store is found and the readout file is put."""

    def __post_init__(self) -> None:
        settle_fields(self)
        if sum(getattr(self, name) is not None for name in TARGETS) != 1:
            given = [name for name in TARGETS if getattr(self, name) is not None]
            raise ConfigError(
                f"a threshold has one target, of {', '.join(TARGETS)}; got "
                f"{' and '.join(given) or 'none'}"
            )
        if self.accuracy is not None and not 0 < self.accuracy <= 1:
            raise ConfigError(
                f"accuracy must be a share above 0, up to 1, got {self.accuracy:g}"
                f"{meant_share(self.accuracy)}"
            )
        if self.depth is not None and not 1 <= self.depth < math.inf:
            raise ConfigError(f"depth must be at least 1 loop, got {self.depth}")
        if self.risk is not None and not 0 < self.risk < 1:
            raise ConfigError(
                f"risk must be a share between 0 and 1, got {self.risk:g}{meant_share(self.risk)}"
            )
        if not 0 < self.delta < 1:
            raise ConfigError(
                f"delta must be a chance between 0 and 1, got {self.delta}{meant_share(self.delta)}"
            )
        if self.min_depth < 1:
            raise ConfigError(f"min_depth must be at least 1 loop, got {self.min_depth}")
        require_resamples(self.n_resamples, self.confidence, self.seed)

    @property
    def target(self) -> str:
        """Which of the three it is."""
        return next(name for name in TARGETS if getattr(self, name) is not None)

    @property
    def level(self) -> float:
        """Its value."""
        return float(getattr(self, self.target))


@dataclass(frozen=True, kw_only=True)
class ChosenThreshold:
    """A threshold in the readout's unit, NaN where nothing leaves early, and how it was found."""

    threshold: float
    method: str


def choose_on_val(
    name: str,
    values: NDArray[np.floating],
    correct: NDArray[np.bool_],
    group: NDArray[np.integer],
    direction: str,
    first_loop: int,
    config: TargetConfig,
) -> list[ChosenThreshold]:
    """The threshold of the readout `name` that does what `config` asks on val; for a risk a second
    one, conformal risk control's.

    `values` and `correct` are [example, loop], `group` [example]; `direction` and `first_loop` as
    in `frontier`. Raises NotReachedError where there is none; a risk always has one.
    """
    found = frontier(values, correct, direction, first_loop)
    if config.target == "accuracy":
        point, method = _reaching(name, found, config.level), "least depth that reaches it"
        return [ChosenThreshold(threshold=float(found.threshold[point]), method=method)]
    if config.target == "depth":
        point, method = _within(name, found, config.level), "most accurate within it"
        return [ChosenThreshold(threshold=float(found.threshold[point]), method=method)]
    weight, groups = group_weights(group)
    along = (found, values, given_up(correct), weight, direction, first_loop)
    single = groups == len(group)
    # The first candidate runs to T: its risk is 0 whatever the data, and needs no test.
    risk = risk_path(*along)[1:] / groups
    p = (binomial_p if single else hoeffding_bentkus_p)(risk, groups, config.level)
    tested = fixed_sequence(p, config.delta)
    risk = risk_path(*along, monotone=True)[1:] / groups
    kept = conformal(risk, groups, config.level)
    bound = "exact binomial" if single else "Hoeffding-Bentkus"
    return [
        ChosenThreshold(
            threshold=float(found.threshold[tested]), method=f"Learn-then-Test, {bound}"
        ),
        ChosenThreshold(threshold=float(found.threshold[kept]), method="conformal risk control"),
    ]


def given_up(correct: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where leaving loses what running on would have had: right at the last loop, wrong at this
    one, [example, loop]."""
    return correct[:, -1:] & ~correct


def _reaching(name: str, found: Frontier, accuracy: float) -> int:
    """The shallowest point that reaches the accuracy."""
    point = found.least_depth(accuracy)
    if point is None:
        best = int(np.flatnonzero(found.accuracy == found.accuracy.max())[-1])
        raise NotReachedError(
            f"no threshold of {name} reaches accuracy {accuracy:g} on val; the most is "
            f"{found.accuracy[best]:.4f}, at mean depth {found.depth[best]:.2f}"
        )
    return point


def _within(name: str, found: Frontier, depth: float) -> int:
    """The most accurate point at the mean depth or less; the shallowest of equals."""
    within = np.flatnonzero(found.depth <= depth + TIE)
    if not len(within):
        raise NotReachedError(
            f"no threshold of {name} has a mean depth of {depth:g} loops or less on val; the least "
            f"is {found.depth[-1]:.2f}"
        )
    return int(within[found.accuracy[within] == found.accuracy[within].max()][-1])
