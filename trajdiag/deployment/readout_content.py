"""What a readout file says, checked field by field before anything is built of it."""

import dataclasses
import sys
from pathlib import Path
from typing import Any, get_args

from trajdiag.deployment.saved_readout import (
    GateWeights,
    Measured,
    OperatingPoint,
    SavedReadout,
    SplitNumbers,
)
from trajdiag.deployment.targets import TARGETS, TargetConfig
from trajdiag.errors import shown
from trajdiag.metrics.frontier import NEVER
from trajdiag.readout_registry import READOUTS, RuleKind, Scale, deployable

_TEXTS = ("name", "unit", "formula", "store", "fingerprint", "model")


def parse_readout(content: dict[str, Any], path: Path) -> SavedReadout:
    """The readout that `content`, a file's JSON object without version and digest, speaks of.

    Raises ValueError or ConfigError saying which field is not what a readout's is.
    """
    _require_fields("it", content, SavedReadout)
    for key, allowed in (
        ("kind", get_args(RuleKind)), ("direction", ("high", "low")), ("scale", get_args(Scale)),
        ("target", TARGETS),
    ):  # fmt: skip
        if content[key] not in allowed:
            raise ValueError(
                f"{key} must be one of {', '.join(allowed)}, got {shown(content[key])}"
            )
    for key in _TEXTS:
        _require_text(key, content[key])
    if content["model_sha256"] is not None:
        _require_text("model_sha256", content["model_sha256"])
    for key in ("first_loop", "min_depth"):
        _require_count(key, content[key])
    gate, conformal, is_risk = content["gate"], content["conformal"], content["target"] == "risk"
    if (gate is None) == (content["kind"] == "gate"):
        raise ValueError("a gate readout names its gate, no other does")
    if is_risk in (content["delta"] is None, conformal is None):
        raise ValueError("a readout chosen for a risk has a delta and a conformal point, no other")
    level = _number("level", content["level"])
    asked: dict[str, Any] = {content["target"]: level, "min_depth": content["min_depth"]}
    if is_risk:
        asked["delta"] = _number("delta", content["delta"])
    TargetConfig(**asked)
    _require_as_registered(content)
    return SavedReadout(
        **{
            **content,
            "level": level,
            "delta": asked.get("delta"),
            "point": _point("point", content["point"]),
            "gate": None if gate is None else _gate(gate),
            "conformal": None if conformal is None else _point("conformal", conformal),
        },
        path=path,
    )


def _require_as_registered(content: dict[str, Any]) -> None:
    """A readout that is not fitted is what the registry says of its name."""
    kind, name = content["kind"], content["name"]
    if kind == "gate":
        return
    entry = READOUTS.get(name)
    if entry is None or entry.kind != kind or not deployable(kind, name):
        raise ValueError(f"no {kind} readout that can be deployed is named {shown(name)}")
    for key in ("direction", "first_loop", "scale"):
        registered = getattr(entry, key)
        if content[key] != registered:
            raise ValueError(f"{key} of {name} is {registered}, got {shown(content[key])}")


def _gate(content: Any) -> GateWeights:
    _require_fields("gate", content, GateWeights)
    for key in ("folder", "sha256"):
        _require_text(f"gate.{key}", content[key])
    return GateWeights(**content)


def _point(where: str, content: Any) -> OperatingPoint:
    _require_fields(where, content, OperatingPoint)
    _require_text(f"{where}.method", content["method"])
    return OperatingPoint(
        threshold=_threshold(f"{where}.threshold", content["threshold"]),
        method=content["method"],
        val=_split_numbers(f"{where}.val", content["val"]),
        test=_split_numbers(f"{where}.test", content["test"]),
    )


def _threshold(what: str, value: Any) -> float:
    if value is None:
        return NEVER
    return float(value) if value in ("inf", "-inf") else _number(what, value)


def _split_numbers(where: str, content: Any) -> SplitNumbers:
    _require_fields(where, content, SplitNumbers)
    for key in ("examples", "groups"):
        _require_count(f"{where}.{key}", content[key])
    return SplitNumbers(
        examples=content["examples"],
        groups=content["groups"],
        **{key: _measured(f"{where}.{key}", content[key]) for key in ("depth", "accuracy", "risk")},
    )


def _measured(where: str, content: Any) -> Measured:
    _require_fields(where, content, Measured)
    low, high = (
        None if content[end] is None else _number(f"{where}.{end}", content[end])
        for end in ("low", "high")
    )
    return Measured(value=_number(f"{where}.value", content["value"]), low=low, high=high)


def _require_fields(where: str, content: Any, record: type) -> None:
    """`content` has the fields of the dataclass `record`, but for the path, and no others."""
    if not isinstance(content, dict):
        raise ValueError(f"{where} must be an object, got {shown(content)}")
    fields = [field.name for field in dataclasses.fields(record) if field.name != "path"]
    missing = [name for name in fields if name not in content]
    surplus = [name for name in content if name not in fields]
    if missing:
        raise ValueError(f"{where} does not say {', '.join(missing)}")
    if surplus:
        raise ValueError(f"{where} says {shown(surplus[0])}, which no readout file does")


def _require_text(what: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a text, got {shown(value)}")


def _require_count(what: str, value: Any) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"{what} must be a whole number from 1, got {shown(value)}")


def _number(what: str, value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"{what} must be a finite number, got {shown(value)}")
    return float(value)
