"""A readout file: a saved readout as one JSON document in CACHE/readouts/STORE.

Other programs can read it: of a signal it says all there is, of a fitted gate the folder and the
SHA-256 of its weights. Its own `sha256` is over the rest of it.
"""

import dataclasses
import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

from trajdiag.deployment.readout_content import parse_readout
from trajdiag.deployment.saved_readout import ReadoutError, SavedReadout
from trajdiag.errors import ConfigError, shown
from trajdiag.store.durable import disk_errors, write_file

READOUT_VERSION = 1
_MAKE = "make one with `trajdiag score STORE --readouts NAME --target risk=0.02`"


def save_readout(readout: SavedReadout) -> Path:
    """Write it durably to its `path`: the same bytes for the same readout."""
    content = _plain({k: v for k, v in dataclasses.asdict(readout).items() if k != "path"})
    content = {"trajdiag_readout": READOUT_VERSION, **content}
    text = json.dumps({**content, "sha256": _digest(content)}, indent=1, allow_nan=False)
    with disk_errors(readout.path.parent):
        readout.path.parent.mkdir(parents=True, exist_ok=True)
    write_file(readout.path, (text + "\n").encode())
    return readout.path


def load_readout(path: str | os.PathLike[str]) -> SavedReadout:
    """The readout in the file `path`. Raises ReadoutError where it is missing, damaged, foreign or
    of another version."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise ReadoutError(f"a readout file is named by its path, got {shown(path)}")
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        digest = None if not isinstance(content, dict) else _digest(_without_digest(content))
    except FileNotFoundError as error:
        raise ReadoutError(f"no readout file at {path}; {_MAKE}") from error
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = " ".join(reason.split())
        raise ReadoutError(f"{path} is no readout file: {reason}; {_MAKE}") from error
    if not isinstance(content, dict) or "trajdiag_readout" not in content:
        raise ReadoutError(f"{path} is no readout file: it does not say trajdiag_readout; {_MAKE}")
    if content["trajdiag_readout"] != READOUT_VERSION:
        raise ReadoutError(
            f"readout file {path} has version {shown(content['trajdiag_readout'])}, this trajdiag "
            f"reads {READOUT_VERSION}; choose it again"
        )
    if content.get("sha256") != digest:
        raise ReadoutError(
            f"readout file {path} is damaged or was changed: its sha256 is not that of the rest; "
            "choose it again"
        )
    del content["sha256"], content["trajdiag_readout"]
    try:
        return parse_readout(content, path)
    except (ConfigError, ValueError) as error:
        raise ReadoutError(f"readout file {path} is damaged: {error}; choose it again") from error


def _without_digest(content: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != "sha256"}


def _plain(value: Any) -> Any:
    """JSON's values: NaN, never leaving, becomes null, and infinity a text that float() reads."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
