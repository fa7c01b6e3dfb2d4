"""Content identity: which model, task and numbers; not when, where or in how many sittings."""

import hashlib
import json
from collections.abc import Iterable, Mapping

import google_crc32c

from trajdiag.store.record import StoreRecord
from trajdiag.store.schema import ArraySpec

_PIECE = 2**17


def crc32c(content: bytes | memoryview) -> int:
    """CRC-32C of one chunk file's content."""
    view, crc = memoryview(content), 0
    for start in range(0, len(view), _PIECE):
        # the library takes bytes only; a copy that fits in the processor's cache is almost free
        crc = google_crc32c.extend(crc, bytes(view[start : start + _PIECE]))
    return crc


def array_checksum(chunks: Iterable[int]) -> str:
    """SHA-256 over the CRC-32C of an array's chunk files, in C order of the chunk grid."""
    return hashlib.sha256(b"".join(crc.to_bytes(4, "big") for crc in chunks)).hexdigest()


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
