"""What `extract` can be told, and the command line that tells it."""

import dataclasses
import shlex
from dataclasses import dataclass, field
from typing import Any

from trajdiag.errors import ConfigError

_MOST = 2**31


@dataclass(frozen=True, kw_only=True)
class ExtractConfig:
    """The options of `extract`."""

    model: str
    """A shipped model, a checkpoint in the cache, or a local folder."""
    task: str | None = None
    """A task, or package.module:Class; the checkpoint's own task when absent."""
    task_options: dict[str, Any] = field(default_factory=dict)
    """Options of the task, in place of its defaults or of the checkpoint's."""
    loops: int | None = None
    """Loops to run; the number that the model was trained with when absent."""
    name: str | None = None
    """The store's name. When absent: the model's, or MODEL--TASK for a task not its own."""
    inputs: bool = True
    """Keep each example's input as text."""
    batch_tokens: int = 16384
    """Tokens in a batch, about; the last bits of the states depend on it."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU where there is one."""
    dtype: str = "auto"
    """float32, bfloat16, or auto: the checkpoint's."""
    memory: float = 4.0
    """GiB that batches and buffers may take."""
    cache_dir: str | None = None
    """The cache root; $TRAJDIAG_CACHE or ./cache when absent."""
    overwrite: bool = False
    """Make the store again where there is one."""

    def __post_init__(self) -> None:
        for option, least in (("loops", 1), ("batch_tokens", 1), ("memory", 0.0)):
            value = getattr(self, option)
            if value is not None and not least <= value < _MOST:
                raise ConfigError(
                    f"{option} must be at least {least} and below {_MOST}, got {value}"
                )

    def command(self) -> str:
        """The command line that does the same."""
        words = ["trajdiag", "extract"]
        for option in dataclasses.fields(self):
            value, flag = getattr(self, option.name), option.name.replace("_", "-")
            if option.name == "overwrite" or (value == _default(option)):
                continue
            if isinstance(value, dict):
                for key, item in value.items():
                    words += [f"--{flag}.{key.replace('_', '-')}", _text(item)]
            elif isinstance(value, bool):
                words.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                words += [f"--{flag}", str(value)]
        return shlex.join(words)


def _default(option: "dataclasses.Field[Any]") -> Any:
    made = option.default_factory
    return option.default if made is dataclasses.MISSING else made()


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
