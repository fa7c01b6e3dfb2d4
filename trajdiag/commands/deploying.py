"""`--target` of `score` and `fit-gate`: thresholds to deploy, as a table, JSON or CSV."""

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from trajdiag.commands.console import print_table, to_stderr, with_interval
from trajdiag.deployment.choosing import choose_thresholds
from trajdiag.deployment.saved_readout import Measured, OperatingPoint, SavedReadout
from trajdiag.deployment.targets import TARGETS, NotReachedError, TargetConfig
from trajdiag.errors import UsageError
from trajdiag.reporting.csv_files import csv_field
from trajdiag.store.reader import Store


def read_target(target: str | None, delta: float | None, **options: Any) -> TargetConfig | None:
    """What `--target accuracy=0.95` and `--delta 0.05` ask for, None where neither is given;
    `options` are TargetConfig's other fields. Raises UsageError for what is no target."""
    if target is None:
        if delta is not None:
            raise UsageError("--delta belongs to --target risk=SHARE, such as --target risk=0.02")
        return None
    name, _, text = target.partition("=")
    try:
        level = float(text)
    except ValueError:
        level = None
    if name not in TARGETS or level is None:
        raise UsageError(
            f"--target must be accuracy=SHARE, depth=LOOPS or risk=SHARE, such as risk=0.02; got "
            f"{target!r}"
        )
    if delta is None:
        return TargetConfig(**{name: level}, **options)
    if name != "risk":
        raise UsageError(f"--delta belongs to --target risk=SHARE; leave it out of {target}")
    return TargetConfig(**{name: level}, delta=delta, **options)


def deploy(
    stores: Iterable[Store],
    readouts: Sequence[str] | None,
    config: TargetConfig,
    *,
    json_output: bool = False,
    csv_output: bool = False,
) -> None:
    """Choose, save and print; a readout that does not reach the target is a line on stderr.

    Raises NotReachedError where none does.
    """
    found: list[SavedReadout] = []
    missed: list[NotReachedError] = []
    for store in stores:
        saved, errors = choose_thresholds(store, readouts, config)
        found += sorted(saved, key=lambda readout: _order(readout, config.target))
        missed += errors
    if not found:
        raise missed[0] if len(missed) == 1 else _none_reached(missed, config)
    for error in missed:
        to_stderr(f"trajdiag: {error}")
    rows = [row for readout in found for row in _rows(readout)]
    if json_output:
        sys.stdout.write(json.dumps({"targets": rows}, indent=1, allow_nan=False) + "\n")
    elif csv_output:
        writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: csv_field(value) for name, value in row.items()} for row in rows)
    else:
        print_table(_table(found, config), keys=2 if _of_several_stores(found) else 1)
        for readout in found:
            sys.stdout.write(f"{_name(readout, found)} saved as {readout.path}\n")


def _none_reached(missed: Sequence[NotReachedError], config: TargetConfig) -> NotReachedError:
    return NotReachedError(
        f"none of the {len(missed)} readouts reaches {config.target} {config.level:g} on val: "
        + "; ".join(str(error) for error in missed)
    )


def _order(readout: SavedReadout, target: str) -> tuple[float, float]:
    """Best on val first: shallowest, or most accurate where the depth was given."""
    depth, accuracy = readout.point.val.depth.value, readout.point.val.accuracy.value
    return (-accuracy, depth) if target == "depth" else (depth, -accuracy)


def _points(readout: SavedReadout) -> list[tuple[OperatingPoint, str | None]]:
    """The point that was saved, with its file; the one beside it."""
    beside = [] if readout.conformal is None else [(readout.conformal, None)]
    return [(readout.point, str(readout.path)), *beside]


def _rows(readout: SavedReadout) -> list[dict[str, Any]]:
    """JSON's values; `threshold` is None where nothing leaves early, `path` where nothing was
    saved."""
    return [
        {
            "store": readout.store,
            "readout": readout.name,
            "target": readout.target,
            "level": readout.level,
            "delta": readout.delta,
            "method": point.method,
            "threshold": None if point.never_leaves else point.threshold,
            "unit": readout.unit,
            "val_depth": point.val.depth.value,
            "val_accuracy": point.val.accuracy.value,
            "val_risk": point.val.risk.value,
            **_with_bounds("test_depth", point.test.depth),
            **_with_bounds("test_accuracy", point.test.accuracy),
            **_with_bounds("test_risk", point.test.risk),
            "n_val": point.val.examples,
            "n_test": point.test.examples,
            "path": path,
        }
        for point, path in _points(readout)
    ]


def _with_bounds(name: str, number: Measured) -> dict[str, float | None]:
    return {name: number.value, f"{name}_low": number.low, f"{name}_high": number.high}


def _table(found: Sequence[SavedReadout], config: TargetConfig) -> Table:
    several = _of_several_stores(found)
    store = "" if several else f"{found[0].store}: "
    delta = f", delta {config.delta:g}" if config.target == "risk" else ""
    title = f"{store}{config.target} {config.level:g}{delta}, chosen on val"
    table = Table(title=escape(title), title_justify="left")
    for heading in ("store", "readout") if several else ("readout",):
        table.add_column(heading)
    for heading in ("threshold", "val depth", "val acc %", "val risk %"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("test depth", "test acc %", "test risk %"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for readout in found:
        for point, _ in _points(readout):
            val, test = point.val, point.test
            table.add_row(
                *([escape(readout.store)] if several else []),
                escape(readout.name),
                "never leaves" if point.never_leaves else f"{point.threshold:.6g}",
                *(_cell(val.depth, 1), _cell(val.accuracy, 100), _cell(val.risk, 100)),
                *(_cell(test.depth, 1), _cell(test.accuracy, 100), _cell(test.risk, 100)),
                point.method,
            )
    return table


def _of_several_stores(found: Sequence[SavedReadout]) -> bool:
    return len({readout.store for readout in found}) > 1


def _name(readout: SavedReadout, found: Sequence[SavedReadout]) -> str:
    """As it is told from the others."""
    return f"{readout.store}: {readout.name}" if _of_several_stores(found) else readout.name


def _cell(number: Measured, factor: int) -> str:
    decimals = 1 if factor == 100 else 2
    return with_interval(number.value, number.low, number.high, factor, decimals)
