"""What a store says of itself: the `trajdiag` attribute of its group."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trajdiag.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class StoreRecord:
    """Where a store's numbers came from, and whether they are all there. All values are JSON's."""

    schema: int
    model: dict[str, Any]
    """ModelRecord's fields."""
    task: dict[str, Any]
    """name, parameters, notes."""
    config: dict[str, Any]
    """The resolved options that decide the numbers; a resumed run must agree in all of them."""
    compute_dtype: str
    store_dtype: str
    batch_order: str
    """How examples were batched, since the last bits depend on it."""
    class_names: list[str] | None
    versions: dict[str, str]
    commands: list[str]
    created: str
    """UTC, ISO 8601."""
    classes: int | None = None
    """The number of classes, where the store does not keep their logits."""
    complete: bool = False
    fingerprint: str | None = None
    checksums: dict[str, str] = field(default_factory=dict)
    """Of each array: SHA-256 over its chunk files' CRC-32C, in C order of the chunk grid."""

    def identity(self) -> dict[str, Any]:
        """What must agree for an unfinished store to be resumed."""
        return {
            "schema": self.schema,
            "model.sha256": self.model.get("sha256"),
            **{f"model.config.{k}": v for k, v in (self.model.get("config") or {}).items()},
            "task.name": self.task.get("name"),
            **{f"task.{key}": value for key, value in (self.task.get("parameters") or {}).items()},
            **self.config,
        }

    def differences(self, other: "StoreRecord") -> list[str]:
        """The keys of `identity` in which `other` differs, as `key (this -> other)`."""
        mine, theirs = (json.loads(json.dumps(record.identity())) for record in (self, other))
        keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
        return [f"{key} ({mine.get(key)} -> {theirs.get(key)})" for key in keys]

    def require_same(self, wanted: "StoreRecord", path: Path) -> None:
        """Raise ConfigError where the store at `path`, whose record this is, is not `wanted`."""
        differences = self.differences(wanted)
        if differences:
            raise ConfigError(
                f"store {path} was made with other options: {', '.join(differences)}; "
                "choose another --name, or --overwrite it"
            )

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "StoreRecord":
        """Raises TypeError where a field is missing, unknown or of another type."""
        record = cls(**values)
        for kind, names in _TYPES.items():
            for name in names:
                if not isinstance(getattr(record, name), kind):
                    raise TypeError(f"{name} is {getattr(record, name)!r:.40}")
        return record


_TYPES: dict[Any, tuple[str, ...]] = {
    dict: ("model", "task", "config", "versions", "checksums"),
    list: ("commands",),
    str: ("compute_dtype", "store_dtype", "batch_order", "created"),
    str | None: ("fingerprint",),
    list | None: ("class_names",),
}
