"""What a store says of itself: the `trajdiag` attribute of its group."""

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trajdiag.errors import ConfigError, StoreError, shown
from trajdiag.store.checksum import crc32c
from trajdiag.store.schema import ARRAYS, GROUP, SCHEMA_VERSION, group_metadata, metadata_file

RECORD, CHECK = "trajdiag", "trajdiag_crc32c"
REPAIR = (
    "run the extraction that made it again (all of it, where it was made in shards), which makes "
    "what is damaged anew"
)
"""What to do about a damaged store."""
FIND = "`trajdiag list stores` lists those of the cache"
"""What to do where no store is."""


class VersionError(StoreError):
    """A store of another schema version."""


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
    """Of each array: SHA-256 over its chunks' CRC-32C, in C order of the chunk grid."""
    attachments: dict[str, int] = field(default_factory=dict)
    """The CRC-32C of whole files beside the arrays, by name."""

    def identity(self) -> dict[str, Any]:
        """What must agree for an unfinished store to be resumed."""
        return {
            "schema": self.schema,
            "model.sha256": self.model.get("sha256"),
            **{f"{_OF_MODEL}{k}": v for k, v in (self.model.get("config") or {}).items()},
            "task.name": self.task.get("name"),
            **{f"task.{key}": value for key, value in (self.task.get("parameters") or {}).items()},
            **self.config,
        }

    def differences(self, other: "StoreRecord") -> list[str]:
        """The keys of `identity` in which `other` differs, as `key (this -> other)`, each
        value cut to what can be read at a glance."""
        mine, theirs = (json.loads(json.dumps(record.identity())) for record in (self, other))
        keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
        return [f"{key} ({_short(mine.get(key))} -> {_short(theirs.get(key))})" for key in keys]

    def require_same(self, wanted: "StoreRecord", location: str) -> None:
        """Raise ConfigError where the store at `location`, whose record this is, is not
        `wanted`."""
        self.require_made_of(wanted.model, location)
        differences = self.differences(wanted)
        if differences and self.task.get("name") == wanted.task.get("name") == ARRAYS:
            said = [
                f"{_OF_ARRAYS.get(key, key)} {values}"
                for key, values in (difference.split(" ", 1) for difference in differences)
            ]
            raise ConfigError(
                f"store {location} was made of other arrays: {', '.join(said)}; choose another "
                "--name, or --overwrite it"
            )
        if differences:
            if self.model.get("sha256") != wanted.model.get("sha256"):  # which says it all
                differences = [text for text in differences if not text.startswith(_OF_MODEL)]
            more = len(differences) - _SHOWN
            raise ConfigError(
                f"store {location} was made with other options: {', '.join(differences[:_SHOWN])}"
                f"{f' and {more} more' * (more > 0)}; choose another --name, or --overwrite it"
            )

    def require_made_of(self, model: Mapping[str, Any], location: str) -> None:
        """Raise ConfigError where the store at `location`, whose record this is, is of another
        model than this one, by its name and family."""
        if [self.model.get(key) for key in _NAMED] != [model.get(key) for key in _NAMED]:
            raise ConfigError(
                f"store {location} is of {_model_in_words(self.model)}, not of "
                f"{_model_in_words(model)}; choose another --name, or --overwrite it"
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
        for name in ("commands", "class_names"):
            if not all(isinstance(text, str) for text in getattr(record, name) or ()):
                raise TypeError(f"{name} is {getattr(record, name)!r:.40}")
        return record


_NAMED = ("name", "family")
_OF_MODEL = "model.config."
_SHOWN = 6
"""Differences in an error."""


def _model_in_words(model: Mapping[str, Any]) -> str:
    name, family = (str(model.get(key)) for key in _NAMED)
    return "arrays of your own" if family == ARRAYS else f"model {name} ({family})"


_OF_ARRAYS = {
    "model.sha256": "hidden, logits or gate_logit",
    "columns": "target or another value by example",
}
"""What has changed in somebody's own arrays, where a key of the identity has."""


def _short(value: Any) -> Any:
    """A hash's first digits, which are enough to tell it from another; all else as it is."""
    is_hash = isinstance(value, str) and re.fullmatch("[0-9a-f]{32,}", value) is not None
    return value[:12] if is_hash else shown(value)


def group_attributes(record: StoreRecord) -> dict[str, Any]:
    """The record, and a CRC-32C of it."""
    values = record.to_dict()
    return {RECORD: values, CHECK: _check(values)}


def group_file(record: StoreRecord) -> bytes:
    """The zarr.json of a store's group."""
    return metadata_file(group_metadata(group_attributes(record)))


def parse_group_file(content: bytes, location: str) -> StoreRecord:
    """The record in a store's zarr.json.

    Raises StoreError where the file is none of ours, has changed, or is of another version.
    """
    try:
        attributes = json.loads(content)["attributes"]
        values, check = attributes[RECORD], attributes.get(CHECK)
        version = values["schema"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StoreError(
            f"{location} is not a store of trajdiag: its {GROUP} does not say so; {FIND}"
        ) from None
    if version != SCHEMA_VERSION:
        newer = isinstance(version, int) and version > SCHEMA_VERSION
        raise VersionError(
            f"store {location} has schema version {version}, this trajdiag reads {SCHEMA_VERSION}; "
            + ("install a newer trajdiag" if newer else "extract again")
        )
    try:
        record = StoreRecord.from_dict(values)
        if check != _check(values):
            raise TypeError("the record is not what was written")
    except TypeError as error:
        raise StoreError(f"store {location} is damaged: {GROUP}: {error}; {REPAIR}") from None
    return record


def _check(values: Mapping[str, Any]) -> int:
    return crc32c(json.dumps(values, sort_keys=True, separators=(",", ":")).encode())


_TYPES: dict[Any, tuple[str, ...]] = {
    dict: ("model", "task", "config", "versions", "checksums", "attachments"),
    list: ("commands",),
    str: ("compute_dtype", "store_dtype", "batch_order", "created"),
    str | None: ("fingerprint",),
    list | None: ("class_names",),
}
