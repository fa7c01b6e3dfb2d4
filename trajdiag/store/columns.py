"""The per-example columns of a store: what each example is, beside its trajectory."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from trajdiag.errors import ConfigError, shown
from trajdiag.names import require_name
from trajdiag.store import strings
from trajdiag.store.checksum import array_checksum, crc32c
from trajdiag.store.schema import COVARIATE, ArraySpec, column_spec
from trajdiag.whole_text import is_whole

_GREATEST = float(np.finfo(np.float32).max)
"""Of a difficulty, so that no mean of some of them is infinite."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Per-example values in store order, each [example]."""

    target: np.ndarray
    """int64: the index of the right class."""
    difficulty: np.ndarray
    """float64."""
    group: np.ndarray
    """int64: the resampling unit."""
    split: np.ndarray
    """str: fit, val or test."""
    id: np.ndarray
    """str."""
    input: np.ndarray | None = None
    """str; None leaves the text out."""
    covariates: Mapping[str, np.ndarray] = field(default_factory=dict)
    """float64 each."""

    def __post_init__(self) -> None:
        for name in self.covariates:
            require_name("covariate", name)
        for name, texts in (("id", self.id), ("input", self.input)):
            for text in [] if texts is None or _are_ascii(texts) else texts.tolist():
                if not isinstance(text, str) or not is_whole(text):
                    raise ConfigError(f"{name} must be text, got {ascii(text)[:80]}")
        large = np.flatnonzero(np.abs(self.difficulty) > _GREATEST)
        if len(large):
            raise ConfigError(
                f"difficulty must be of a size that float32 holds, up to {_GREATEST:g}, got "
                f"{self.difficulty[large[0]]:g} for example {large[0]} (counted from 0)"
            )
        if len(set(self.id.tolist())) < len(self.id):
            ids, counts = np.unique(self.id.astype(str), return_counts=True)
            raise ConfigError(
                f"id {shown(str(ids[counts.argmax()]))} is given more than once; ids must differ"
            )

    def __len__(self) -> int:
        return len(self.target)

    def only(self, examples: np.ndarray) -> "Columns":
        """Those of these examples, int64 [example]."""
        return Columns(
            target=self.target[examples],
            difficulty=self.difficulty[examples],
            group=self.group[examples],
            split=self.split[examples],
            id=self.id[examples],
            input=None if self.input is None else self.input[examples],
            covariates={name: column[examples] for name, column in self.covariates.items()},
        )

    def arrays(self) -> dict[str, tuple[ArraySpec, np.ndarray]]:
        """Spec and values of each column, by its name in the store."""
        values: dict[str, tuple[str, np.ndarray | None]] = {
            "target": ("int64", self.target),
            "difficulty": ("float64", self.difficulty),
            "group": ("int64", self.group),
            "split": ("string", self.split),
            "id": ("string", self.id),
            "input": ("string", self.input),
            **{COVARIATE + name: ("float64", column) for name, column in self.covariates.items()},
        }
        return {
            name: (column_spec(name, dtype, len(self)), column)
            for name, (dtype, column) in values.items()
            if column is not None
        }

    def checksum(self) -> str:
        """One checksum of all columns."""
        return array_checksum(
            crc32c(chunk)
            for spec, values in self.arrays().values()
            for chunk in column_chunks(spec, values).values()
        )


def _are_ascii(texts: np.ndarray) -> bool:
    """Whether all are text and of ASCII characters, told faster than one by one."""
    try:
        return "".join(texts.tolist()).isascii()
    except TypeError:
        return False


def column_chunks(spec: ArraySpec, values: np.ndarray) -> dict[str, bytes]:
    """The content of a column's chunk files, by key; the last is padded to the full chunk."""
    size = spec.chunk[0]
    chunks = {}
    for index, key in enumerate(spec.chunk_keys()):
        part = values[index * size : (index + 1) * size]
        if spec.is_string:
            chunks[key] = strings.encode(part.tolist(), size)
        else:
            padded = np.zeros(size, spec.disk_dtype)
            padded[: len(part)] = part
            chunks[key] = padded.tobytes()
    return chunks
