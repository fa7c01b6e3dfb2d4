"""What `fit-gate` can be told, and the command line that tells it."""

import dataclasses
import math
import shlex
from dataclasses import dataclass
from typing import Any, Literal, get_args

from trajdiag.errors import ConfigError, UsageError, shown
from trajdiag.gates.halting import PRIORS, PriorKind
from trajdiag.gates.network import GateKind
from trajdiag.gates.objectives import (
    LABELLED,
    OBJECTIVES,
    UTILITIES,
    ObjectiveKind,
    UtilityKind,
)
from trajdiag.names import require_name, settle_fields
from trajdiag.readout_registry import READOUTS

FittedKind = Literal[GateKind, "boosted"]
FITTED_KINDS: tuple[FittedKind, ...] = get_args(FittedKind)

_OTHER_READOUTS = [name for name, entry in READOUTS.items() if entry.kind != "gate"]
"""Names that a gate would be confused with."""
_NOT_OF_THE_GATE = ("name", "memory", "cache_dir", "frozen", "overwrite")
"""Options that do not decide the fitted numbers."""
_READ_WITH = {
    "utility": ("objective", "utility"), "k": ("objective", "utility"),
    "gamma": ("objective", "utility"), "beta": ("objective", "ponder"),
    "prior": ("objective", "ponder"), "lam": ("prior", "geometric"),
}  # fmt: skip
"""Options that are read only where another has a certain value."""


@dataclass(frozen=True, kw_only=True)
class FitGateConfig:
    """The options of `fit-gate`."""

    kind: FittedKind = "mlp"
    """Of the states: linear, or mlp: two layers of their width. Of the signals, their changes and
    the loop: boosted trees, for every objective but ponder."""
    objective: ObjectiveKind = "ponder"
    """ponder: expected cross-entropy plus beta KL(q || prior). utility: is going on worth it, by
    --utility. correctness: is the prediction right at this loop. agreement: is it the last loop's.
    depth: how many more loops until it stays right."""
    utility: UtilityKind = "next"
    """The gain that the utility objective asks about: of the next loop, of the previous one (as
    Ouro's formula reads), or of the best later loop (any-later)."""
    beta: float = 0.05
    """Weight of the KL to the prior, in the ponder objective."""
    prior: PriorKind = "uniform"
    """Prior over exit loops, in the ponder objective: uniform or geometric."""
    lam: float = 0.3
    """Chance of leaving at each loop, in the geometric prior."""
    k: float = 50.0
    """Steepness of the utility label, 1/nats."""
    gamma: float = 0.005
    """Gain at which the utility label is undecided, nats."""
    seed: int = 0
    """Of the initial weights and the order of the examples; of those that trees are fitted on."""
    epochs: int = 100
    """Passes over the fit examples at most; a pass of boosted is ten trees."""
    patience: int = 2
    """Passes without improvement on val before stopping."""
    name: str | None = None
    """The gate's name; KIND-OBJECTIVE when absent."""
    memory: float = 4.0
    """GiB of states kept in memory; more are read from disk again in each pass."""
    cache_dir: str | None = None
    """The cache root; $TRAJDIAG_CACHE or ./cache when absent."""
    frozen: bool = True
    """Leave the model and its states as they are: always so here."""
    overwrite: bool = False
    """Fit again where there is a gate of this name."""

    def __post_init__(self) -> None:
        settle_fields(self)
        if not self.frozen:
            raise UsageError(
                "fit-gate only fits gates on frozen states; to train the model and its gate "
                "together run `trajdiag train --objective joint`"
            )
        for option, choices in (
            ("kind", FITTED_KINDS),
            ("objective", OBJECTIVES),
            ("utility", UTILITIES),
            ("prior", PRIORS),
        ):
            value = getattr(self, option)
            if value not in choices:
                raise ConfigError(
                    f"unknown {option} {shown(value)}; existing: {', '.join(choices)}"
                )
        if self.kind == "boosted" and self.objective not in LABELLED:
            raise ConfigError(
                f"boosted trees fit a label at each loop, and {self.objective} has none; "
                f"objectives for boosted: {', '.join(LABELLED)}"
            )
        for option, least in (
            ("beta", 0), ("k", 0), ("seed", 0), ("memory", 0), ("epochs", 1), ("patience", 1),
        ):  # fmt: skip
            value = getattr(self, option)
            if not least <= value < 2**63:
                raise ConfigError(
                    f"{option} must be at least {least}, finite and below 2^63, got {shown(value)}"
                )
        if not math.isfinite(self.gamma):
            raise ConfigError(f"gamma must be finite, got {self.gamma}")
        if not 0.0 < self.lam < 1.0:
            raise ConfigError(f"lam must lie between 0 and 1 (both excluded), got {self.lam}")
        if self.name is not None:
            require_name("gate", self.name)
        if self.name in _OTHER_READOUTS:
            raise ConfigError(f"{self.name} is another readout's name; choose another --name")

    @property
    def gate_name(self) -> str:
        """The gate's folder, and its name among the readouts."""
        asked = self.utility if self.objective == "utility" else self.objective
        return self.name or f"{self.kind}-{asked}"

    @property
    def network_kind(self) -> GateKind:
        """The kind of a gate that is a network."""
        if self.kind == "boosted":
            raise ConfigError("a boosted gate has no network")
        return self.kind

    def require_used(self) -> None:
        """Raise UsageError where an option is set that its objective does not read."""
        for option, (setting, value) in _READ_WITH.items():
            default = getattr(FitGateConfig, option)
            if getattr(self, option) != default and getattr(self, setting) != value:
                raise UsageError(
                    f"--{option} belongs to --{setting} {value}, and {setting} is "
                    f"{getattr(self, setting)}; leave --{option} out, or say --{setting} {value}"
                )

    def identity(self) -> dict[str, Any]:
        """The options that decide the fitted numbers."""
        return {k: v for k, v in dataclasses.asdict(self).items() if k not in _NOT_OF_THE_GATE}

    def command(self, store: str) -> str:
        """The command line that fits the same gate on the store of this name."""
        words = ["trajdiag", "fit-gate", store]
        for option in dataclasses.fields(self):
            value = getattr(self, option.name)
            if option.name != "overwrite" and value != option.default:
                words += [f"--{option.name.replace('_', '-')}", str(value)]
        return shlex.join(words)
