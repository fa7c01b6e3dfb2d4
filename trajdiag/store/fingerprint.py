"""Content identity: which model, task and numbers; not when, where or in how many sittings."""

import hashlib
import json
from collections.abc import Iterable, Mapping

from trajdiag.store.record import StoreRecord
from trajdiag.store.schema import ArraySpec


def fingerprint(
    *, record: StoreRecord, specs: Iterable[ArraySpec], checksums: Mapping[str, str]
) -> str:
    """SHA-256 over canonical JSON of the schema version, model, task and classes, and of every
    array's shape, chunking, dtype and checksum."""
    content = {
        "schema": record.schema,
        "model": record.model.get("sha256"),
        "task": {key: record.task.get(key) for key in ("name", "parameters")},
        "class_names": record.class_names,
        "arrays": {
            spec.name: [spec.shape, spec.chunk, spec.dtype, checksums[spec.name]] for spec in specs
        },
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
