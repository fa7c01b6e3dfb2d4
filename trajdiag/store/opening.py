"""Opening a store: its metadata must be trajdiag's, whole, and what it was written with."""

import json
from pathlib import Path

from trajdiag.errors import StoreError
from trajdiag.store.fingerprint import fingerprint
from trajdiag.store.record import StoreRecord
from trajdiag.store.schema import GROUP, SCHEMA_VERSION, ArraySpec

MAKE_AGAIN = "make it again with --overwrite"
"""What to do about a damaged store."""


def read_record(path: Path) -> StoreRecord:
    """What the store at `path` says of itself. Raises StoreError where it is none of ours."""
    if not path.is_dir():
        raise StoreError(f"no store at {path}")
    try:
        group = json.loads((path / GROUP).read_text(encoding="utf-8"))
        attributes = group["attributes"]["trajdiag"]
        version = attributes["schema"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise StoreError(
            f"{path} is not a store of trajdiag: its {GROUP} does not say so"
        ) from None
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"store {path} has schema version {version}, this trajdiag reads {SCHEMA_VERSION}; "
            "use the version that made it, or extract again"
        )
    try:
        return StoreRecord.from_dict(attributes)
    except TypeError as error:
        raise StoreError(
            f"store {path} is damaged: its attributes: {error}; {MAKE_AGAIN}"
        ) from None


def read_spec(path: Path, name: str) -> ArraySpec:
    """The spec of one array. Raises StoreError where its metadata is damaged."""
    try:
        metadata = json.loads((path / name / GROUP).read_text(encoding="utf-8"))
        return ArraySpec.from_metadata(name, metadata)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"store {path} is damaged: array {name}: {error}; {MAKE_AGAIN}") from None


def require_as_recorded(path: Path, record: StoreRecord, specs: dict[str, ArraySpec]) -> None:
    """The fingerprint covers the metadata too: shapes, types, model, task and checksums."""
    found = fingerprint(record=record, specs=specs.values(), checksums=record.checksums)
    if found != record.fingerprint:
        raise StoreError(
            f"store {path} is damaged: its metadata is not what it was made with; {MAKE_AGAIN}"
        )


def require_chunks(path: Path, spec: ArraySpec) -> None:
    """Raise StoreError unless every chunk file of an array is there, at its full size."""
    for key in spec.chunk_keys():
        file = path / spec.name / key
        try:
            size = file.stat().st_size
        except OSError:
            raise StoreError(
                f"store {path} is damaged: {spec.name}/{key} is missing; {MAKE_AGAIN}"
            ) from None
        if not spec.is_string and size != spec.chunk_bytes:
            raise StoreError(
                f"store {path} is damaged: {spec.name}/{key} has {size} bytes, "
                f"not {spec.chunk_bytes}; {MAKE_AGAIN}"
            )
