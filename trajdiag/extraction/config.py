"""What `extract` can be told, and the command line that tells it."""

import dataclasses
import os
import re
import shlex
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_type_hints

from trajdiag.errors import ConfigError, shown
from trajdiag.extraction.scheduler import scheduled_shard
from trajdiag.models.config_keys import MOST_LOOPS
from trajdiag.names import settle_fields
from trajdiag.ray_cluster import Launcher
from trajdiag.store.shard import Shard

Pool = Literal["last", "mean"]
TooLong = Literal["refuse", "truncate", "skip"]
Compress = Literal["none", "zstd"]


_MOST = 2**31
_HOW = ("overwrite", "shards", "shard", "launcher", "workers")
"""Options that say nothing of what is made."""
_COMMAND = "trajdiag extract "
_CALL = "# in Python, by trajdiag.extract with "


@dataclass(frozen=True, kw_only=True)
class ExtractConfig:
    """The options of `extract`."""

    model: str
    """A shipped model, an alias such as ouro-1.4b, a checkpoint in the cache, a local folder, a hub
    id, or package.module:Class."""
    task: str | None = None
    """A task, or package.module:Class; when absent the checkpoint's own, else arithmetic."""
    task_options: dict[str, Any] = field(default_factory=dict)
    """Options of the task, in place of its defaults or of the checkpoint's."""
    loops: int | None = None
    """Loops to run; the number that the model was trained with when absent."""
    store: str | None = None
    """Where the store goes, a folder or a URL such as s3://BUCKET/NAME.zarr, in place of the
    cache."""
    name: str | None = None
    """The store's name. When absent: the model's, or MODEL--TASK for a task not its own."""
    inputs: bool = True
    """Keep each example's input as text."""
    num_fewshot: int | None = None
    """Solved examples before each question; the task's own number when absent."""
    pool: Pool = "last"
    """The state that is kept: that of the last token before the decision, or the mean up to it."""
    logits: str = "auto"
    """Logits of the vocabulary at the decision: full, topk:K, none (recomputed later from the
    states and the head, which is kept once), or auto: for a task in text all of them within
    --logits-budget, else the top 64, and statistics; for a task of tokens, such as mano, none. A
    task's own classes always keep theirs."""
    logits_budget: float = 2.0
    """GiB up to which auto keeps all of the vocabulary's logits."""
    window: int = 1024
    """Tokens of context into which running text is cut."""
    truncate: bool = False
    """Cut prompts that are longer than the model's context from the left."""
    skip: bool = False
    """Leave prompts out that are longer than the model's context."""
    initial_state: str | None = None
    """Where a free first state starts: zeros (when absent) or noise:SEED."""
    revision: str | None = None
    """Branch, tag or commit of a model on the hub."""
    batch_tokens: int = 16384
    """Tokens in a batch, padding included; the last bits of the states depend on it."""
    device: str = "auto"
    """cpu, cuda, mps, or auto: a GPU where there is one."""
    dtype: str = "auto"
    """float32, bfloat16, or auto: the checkpoint's."""
    memory: float = 4.0
    """GiB that batches and buffers may take."""
    compress: Compress = "none"
    """none, or zstd: chunk files a fifth to a third smaller, that take many times longer to write
    and read."""
    shards: int | None = None
    """Processes that share the work, each the blocks of its shard; as Slurm's array or torchrun
    say when absent, else 1."""
    shard: int | None = None
    """The shard of this one, from 0."""
    launcher: Launcher = "local"
    """local: this process; ray: workers of a Ray cluster, that of RAY_ADDRESS, of this machine, or
    else one started here."""
    workers: int | None = None
    """Workers of the Ray cluster; one a GPU when absent, or one a machine where it has none."""
    cache_dir: str | None = None
    """The cache root; $TRAJDIAG_CACHE or ./cache when absent."""
    overwrite: bool = False
    """Make the store again where there is one."""

    def __post_init__(self) -> None:
        settle_fields(self)
        for option, least, most in (
            ("loops", 1, MOST_LOOPS),
            ("shards", 1, _MOST),
            ("workers", 1, _MOST),
            ("num_fewshot", 0, _MOST),
            ("window", 2, _MOST),
            ("batch_tokens", 1, _MOST),
            ("memory", 0.0, _MOST),
            ("logits_budget", 0.0, _MOST),
        ):
            value = getattr(self, option)
            if value is not None and not least <= value <= most:
                raise ConfigError(f"{option} must be from {least} to {most}, got {shown(value)}")

        if self.pool not in get_args(Pool):
            raise ConfigError(f"pool must be {' or '.join(get_args(Pool))}, got {shown(self.pool)}")
        if re.fullmatch(r"auto|full|none|topk:[1-9]\d*", self.logits) is None:
            raise ConfigError(
                f"logits must be auto, full, none or topk:K, got {shown(self.logits)}"
            )
        if self.num_fewshot is not None and "num_fewshot" in self.task_options:
            raise ConfigError("give --num-fewshot or --task-options.num-fewshot, not both")
        if self.compress not in get_args(Compress):
            raise ConfigError(
                f"compress must be {' or '.join(get_args(Compress))}, got {shown(self.compress)}"
            )
        if self.store is not None and self.name is not None:
            raise ConfigError("give --store, which ends in the store's name, or --name, not both")
        if (self.shards is None) != (self.shard is None):
            raise ConfigError("give --shards N and --shard I together, or neither")
        if self.launcher not in get_args(Launcher):
            raise ConfigError(
                f"launcher must be {' or '.join(get_args(Launcher))}, got {shown(self.launcher)}"
            )
        if self.launcher == "ray" and self.shard_of.count > 1:
            raise ConfigError(
                f"--launcher ray is run once, not by {self.shard_of}: its --workers share the "
                "blocks by themselves"
            )
        if self.launcher != "ray" and self.workers is not None:
            raise ConfigError("--workers are those of --launcher ray")
        if self.overwrite and self.shard_of.count > 1:
            raise ConfigError(
                f"--overwrite by {self.shard_of} would remove what the other shards have written; "
                "remove the store first, or --overwrite it by one process"
            )
        if self.truncate and self.skip:
            raise ConfigError("give --truncate or --skip, not both")

    @property
    def shard_of(self) -> Shard:
        """The part of the store that this process makes."""
        if self.shards is None or self.shard is None:
            return scheduled_shard(os.environ)
        return Shard(index=self.shard, count=self.shards)

    @property
    def too_long(self) -> TooLong:
        """What becomes of prompts longer than the model's context."""
        return "truncate" if self.truncate else "skip" if self.skip else "refuse"

    def command(self) -> str:
        """The command line that does the same."""
        words = ["trajdiag", "extract"]
        for option in dataclasses.fields(self):
            value, flag = getattr(self, option.name), option.name.replace("_", "-")
            if option.name in _HOW or value == _default(option):
                continue
            if isinstance(value, dict):
                for key, item in value.items():
                    words += [f"--{flag}.{key.replace('_', '-')}", _text(item)]
            elif isinstance(value, bool):
                words.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                words += [f"--{flag}", str(value)]
        return shlex.join(words)

    def call(self) -> str:
        """The call in Python, of a model or a task that has no name, as a comment in a shell."""
        return _CALL + self.command().removeprefix(_COMMAND)

    @classmethod
    def from_line(cls, line: str) -> "ExtractConfig":
        """The options that a line of `command` or of `call` says. Raises ConfigError for any
        other."""
        try:
            words = iter(shlex.split(line.removeprefix(_CALL).removeprefix(_COMMAND)))
            options: dict[str, Any] = {}
            kinds = get_type_hints(cls)
            for word in words:
                name, _, key = word.removeprefix("--").replace("-", "_").partition(".")
                if key:
                    options.setdefault(name, {})[key] = next(words)
                elif kinds.get(name.removeprefix("no_")) is bool:
                    options[name.removeprefix("no_")] = not name.startswith("no_")
                else:
                    options[name] = _parsed(kinds[name], next(words))
            return cls(**options)
        except (KeyError, StopIteration, TypeError, ValueError) as error:
            raise ConfigError(f"not a command of trajdiag extract: {line!r:.200}") from error


def _parsed(kind: Any, text: str) -> Any:
    """An option of this type, whose text stands on a command line."""
    number = next((number for number in (int, float) if number in (kind, *get_args(kind))), None)
    return text if number is None else number(text)


def _default(option: "dataclasses.Field[Any]") -> Any:
    made = option.default_factory
    return option.default if made is dataclasses.MISSING else made()


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
