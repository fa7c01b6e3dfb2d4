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
from typing import Any, get_args

from trajdiag.deployment.saved_readout import (
    GateWeights,
    Kind,
    Measured,
    OperatingPoint,
    ReadoutError,
    SavedReadout,
    SplitNumbers,
)
from trajdiag.metrics.frontier import NEVER
from trajdiag.readouts.readout import Scale
from trajdiag.store.durable import disk_errors, write_file

READOUT_VERSION = 1


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
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ReadoutError(
            f"no readout file at {path}; make one with `trajdiag score STORE --readouts NAME "
            "--target risk=0.02`"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise ReadoutError(f"{path} is no readout file: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict) or "trajdiag_readout" not in content:
        raise ReadoutError(f"{path} is no readout file: it does not say trajdiag_readout")
    if content["trajdiag_readout"] != READOUT_VERSION:
        raise ReadoutError(
            f"readout file {path} has version {content['trajdiag_readout']}, this trajdiag reads "
            f"{READOUT_VERSION}; choose it again"
        )
    if content.pop("sha256", None) != _digest(content):
        raise ReadoutError(
            f"readout file {path} is damaged or was changed: its sha256 is not that of the rest; "
            "choose it again"
        )
    try:
        return _parse(content, path)
    except (KeyError, TypeError, ValueError) as error:
        raise ReadoutError(f"readout file {path} is damaged: {error!r}; choose it again") from error


def _parse(content: dict[str, Any], path: Path) -> SavedReadout:
    content = {key: value for key, value in content.items() if key != "trajdiag_readout"}
    for key, allowed in (
        ("kind", get_args(Kind)), ("direction", ("high", "low")), ("scale", get_args(Scale)),
    ):  # fmt: skip
        if content[key] not in allowed:
            raise ValueError(f"{key} is {content[key]!r}")
    for key in ("name", "unit", "formula", "target", "store", "fingerprint"):
        if not isinstance(content[key], str):
            raise ValueError(f"{key} is {content[key]!r}")
    for key in ("first_loop", "min_depth"):
        if not isinstance(content[key], int) or content[key] < 1:
            raise ValueError(f"{key} is {content[key]!r}")
    content["level"] = float(content["level"])
    gate, conformal = content.pop("gate"), content.pop("conformal")
    if (gate is None) == (content["kind"] == "gate"):
        raise ValueError("a gate readout names its gate, no other does")
    return SavedReadout(
        **{**content, "point": _point(content["point"])},
        gate=None if gate is None else GateWeights(**gate),
        conformal=None if conformal is None else _point(conformal),
        path=path,
    )


def _point(content: dict[str, Any]) -> OperatingPoint:
    threshold = NEVER if content["threshold"] is None else float(content["threshold"])
    return OperatingPoint(
        threshold=threshold,
        method=content["method"],
        val=_numbers(content["val"]),
        test=_numbers(content["test"]),
    )


def _numbers(content: dict[str, Any]) -> SplitNumbers:
    measured = {key: Measured(**content[key]) for key in ("depth", "accuracy", "risk")}
    return SplitNumbers(examples=content["examples"], groups=content["groups"], **measured)


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
