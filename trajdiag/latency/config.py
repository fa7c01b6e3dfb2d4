"""What `latency` can be told."""

from dataclasses import dataclass
from typing import Literal, get_args

from trajdiag.errors import ConfigError, shown
from trajdiag.names import settle_fields

Split = Literal["test", "val", "fit"]
LatencyContext = Literal["full", "live"]


@dataclass(frozen=True, kw_only=True)
class LatencyConfig:
    """What is measured, and how."""

    readout: tuple[str, ...] | None = None
    """A readout file (NAME.json, as `score --target` saves it), a signal, native, native-released,
    native-continuation, fixed, or a gate fitted on the store; may be repeated. When absent: by
    their area on val the best signal and the best fitted gate, and the model's own gate."""
    threshold: tuple[float, ...] | None = None
    """The threshold of each --readout, in its order; nan never leaves. When absent a file's own,
    else the least val depth within half a point of the last loop's val accuracy."""
    context: LatencyContext = "full"
    """full: whole rows at once, of which what comes before a decision has run all loops, as offline
    scores assume; live: running text token by token, whose earlier tokens have left early."""
    split: Split = "test"
    """The examples that are run: test, val or fit."""
    examples: int = 2048
    """The most that are run in batches, drawn by --seed."""
    singles: int = 32
    """The most of these that are run one at a time too."""
    repeats: int = 5
    """How often everything is timed."""
    batch_tokens: int | None = None
    """Tokens in a batch, padding included; the extraction's when absent."""
    min_depth: int = 1
    """The first loop at which a readout given by its name may leave."""
    seed: int = 0
    """Seed of the draw of examples."""
    model: str | None = None
    """The model, where the store's own command cannot find it again."""
    task: str | None = None
    """The task, likewise."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU where there is one."""
    cache_dir: str | None = None
    """Root of the cache in which stores and gates are found, and the numbers kept."""

    def __post_init__(self) -> None:
        settle_fields(self)
        if self.split not in get_args(Split):
            raise ConfigError(f"split must be test, val or fit, got {shown(self.split)}")
        if self.context not in get_args(LatencyContext):
            raise ConfigError(f"context must be full or live, got {shown(self.context)}")
        for option, least in (("examples", 1), ("singles", 1), ("repeats", 1), ("seed", 0)):
            if getattr(self, option) < least:
                raise ConfigError(
                    f"{option} must be {least} or more, got {shown(getattr(self, option))}"
                )
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise ConfigError(f"batch_tokens must be 1 or more, got {self.batch_tokens}")
        readouts = 0 if self.readout is None else len(self.readout)
        thresholds = 0 if self.threshold is None else len(self.threshold)
        if thresholds and not readouts:
            raise ConfigError(
                "a threshold is that of a readout: name it too, as by --readout entropy "
                f"--threshold {self.threshold_of(0):g}"
            )
        if self.threshold is not None and thresholds != readouts:
            raise ConfigError(
                "give a --threshold for each --readout, in their order, or none: got "
                f"{_counted(readouts, 'readout')} and {_counted(thresholds, 'threshold')}"
            )

    def threshold_of(self, number: int) -> float | None:
        """The threshold that is given for readout `number`, from 0."""
        return None if self.threshold is None else float(self.threshold[number])


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
