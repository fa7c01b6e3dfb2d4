"""Conditions on a diagnosis under which somebody's own CI is to fail: `readout > 0.05`."""

import difflib
import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trajdiag.errors import UsageError
from trajdiag.reporting.names import READOUT_LABELS
from trajdiag.results import Results
from trajdiag.scoring.selection import FINAL, GRID, MATCHED, THRESHOLD, accuracy_name
from trajdiag.store.schema import ACCURACIES

SHARES = ("ok", "trajectory", "early", "late", "readout")
"""Shares of test examples at the operating point; `readout` is early and late together."""
REGRETS = ("regret", "trajectory_regret", "unexposed", "learnable", "misfit", "lucky")
"""Accuracy lost over depth budgets, and its parts."""
POINT = {name: (f"{name}@threshold", f"{name}@final") for name in ("accuracy", "depth")}
"""Of the operating point: the user's own threshold where one was given."""
OTHERS = ("area", "area/by-luck", "spearman", "final_accuracy", "best_depth")
"""Metrics of the scores that bear no point's name."""
_PLAIN = r"[^\s:<>=\"']+(?:=[^\s:<>=\"']+)*"
_LABELS = {label: name for name, label in READOUT_LABELS.items()}
"""Readouts by what a report calls them, which may have blanks without quotes."""
_FORM = re.compile(
    rf"\s*(?:(?P<readout>{'|'.join(_LABELS)}|{_PLAIN}|\"[^\"]+\"|'[^']+')\s*:)?\s*(?P<quantity>{_PLAIN})\s*"
    r"(?P<sign><=|>=|<|>)\s*(?P<limit>[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*"
)
_SHOWN = 6
"""Readouts that an error names."""
_SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True, kw_only=True)
class Check:
    """`[READOUT:]QUANTITY < LIMIT`, or <=, >, >=."""

    quantity: str
    """A share, a part of regret, `accuracy`, `depth`, or a metric of the scores."""
    sign: str
    limit: float
    readout: str | None = None
    """None: of each store the readout under diagnosis."""

    def __str__(self) -> str:
        readout = self.readout or ""
        plain = re.fullmatch(_PLAIN, readout) is not None
        whose = f"{readout if plain else _quoted(readout)}:" if readout else ""
        return f"{whose}{self.quantity} {self.sign} {self.limit:g}"


def _quoted(name: str) -> str:
    return f'"{name}"'


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A number that a check is about."""

    store: str
    readout: str
    value: float | None
    low: float | None
    high: float | None


def parse_check(text: str) -> Check:
    """The check that `text` names. Raises UsageError for what is none."""
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None or not math.isfinite(float(found["limit"])):
        raise UsageError(
            "a check is [READOUT:]QUANTITY, one of < <= > >=, and a finite number, such as "
            "'readout > 0.05', 'entropy:depth >= 3' or '\"my gate\":depth >= 3', got "
            f"{ascii(text)[:80]}"
        )
    readout = found["readout"]
    return Check(
        readout=_LABELS.get(readout, readout.strip("\"'")) if readout else None,
        quantity=found["quantity"],
        sign=found["sign"],
        limit=float(found["limit"]),
    )


def require_known(
    checks: Iterable[Check], readouts: Iterable[str], quantities: Iterable[str]
) -> None:
    """Raise UsageError where a check names what a diagnosis with these readouts and quantities will
    not give."""
    readouts, quantities = list(readouts), list(quantities)
    for check in checks:
        if check.readout is not None and check.readout not in readouts:
            raise _unknown("readout", check.readout, readouts)
        if check.quantity not in quantities:
            raise _unknown("quantity", check.quantity, quantities)


def quantities(loops: int, targets: Iterable[float], released: Iterable[float]) -> list[str]:
    """What a check can be about; `released` are the thresholds of the stores' released rules."""
    reached = [accuracy_name(target) + grid for target in targets for grid in ("", GRID)]
    points = (FINAL, THRESHOLD, MATCHED, *reached)
    found = [*SHARES, *REGRETS, *POINT, *OTHERS, "accuracy@best_depth"]
    found += [f"{name}@{point}" for name in POINT for point in points]
    found += [f"threshold@{point}" for point in (FINAL, THRESHOLD)]
    found += [f"n_reached@{point}" for point in reached]
    found += [f"n_differ@{threshold:g}" for threshold in released]
    found += [f"accuracy@depth={depth}" for depth in range(1, loops + 1)]
    metrics = ("accuracy", *ACCURACIES.values())
    return found + [f"{m}@loop={loop}" for m in metrics for loop in range(1, loops + 1)]


_METRICS = (
    f"they are {', '.join((*SHARES, *REGRETS, *POINT))}, and the metrics that "
    "`trajdiag score --csv` names"
)
"""Too many to be listed."""


def _unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    known = list(known)
    close = difflib.get_close_matches(name, known, 3, cutoff=0.7)
    meant = f", did you mean {' or '.join(close)}?" if close else ";"
    listed = _METRICS if kind == "quantity" else f"existing: {', '.join(sorted(set(known)))}"
    return UsageError(f"--fail-if: unknown {kind} {ascii(name)[:80]}{meant} {listed}")


def failures(results: Results, checks: Iterable[Check]) -> list[str]:
    """What came true, a text for each check and store: which store, which readout, the value and
    its interval.

    Values are compared, not bounds. A number that exists and is not reached or not defined fails
    too: a check must not pass on nothing. A store that lacks the readout, or the reference that a
    part needs, is passed over where another has it. Raises UsageError for a quantity or readout
    that no store has.
    """
    return [
        _text(check, found)
        for check in checks
        for found in _numbers(results, check)
        if found.value is None or _SIGNS[check.sign](found.value, check.limit)
    ]


def _numbers(results: Results, check: Check) -> Sequence[_Found]:
    readouts = {row.readout for row in results.readouts}
    if check.readout is not None and check.readout not in readouts:
        raise _unknown("readout", check.readout, readouts)
    table = _table(results, check.quantity)
    if not table:
        if check.quantity in REGRETS:
            raise UsageError(
                f"--fail-if: no store has {check.quantity}"
                + "; it needs another store of the task as --reference"
                * (check.quantity == "trajectory_regret")
            )
        raise _unknown("quantity", check.quantity, {*SHARES, *_names(results)})
    found = []
    for row in results.stores:
        readout = check.readout or row.diagnosed
        if readout is not None and (row.store, readout) in table:
            found.append(table[row.store, readout])
    if not found:
        having = sorted({readout for _, readout in table})
        more = f" and {len(having) - _SHOWN} more" if len(having) > _SHOWN else ""
        raise UsageError(
            f"--fail-if: {check.quantity} is no number of "
            f"{check.readout or 'the readouts under diagnosis'}, but of "
            f"{', '.join(having[:_SHOWN])}{more}"
        )
    return found


def _table(results: Results, quantity: str) -> dict[tuple[str, str], _Found]:
    """The numbers of that name by store and readout, on test."""
    found: dict[tuple[str, str], _Found] = {}
    if quantity in (*SHARES, *REGRETS):
        places = ("integrated",) if quantity in REGRETS else ("threshold", "point")
        rows = [r for r in results.diagnosis if r.part == quantity and r.at in places]
    else:
        names = POINT.get(quantity, (quantity,))
        rows = [
            r for name in names for r in results.scores if r.metric == name and r.split == "test"
        ]
    for row in rows:
        number = _Found(
            store=row.store, readout=row.readout, value=row.value, low=row.low, high=row.high
        )
        found.setdefault((row.store, row.readout), number)
    return found


def _names(results: Results) -> set[str]:
    parts = {r.part for r in results.diagnosis}
    return parts | set(POINT) | {r.metric for r in results.scores if r.split == "test"}


def _text(check: Check, found: _Found) -> str:
    where = f"{check.quantity} of {found.readout} on {found.store}"
    if found.value is None:
        return f"{where} is not reached or not defined ({check})"
    bounds = [
        "not reached" if bound is None else f"{bound:.4g}" for bound in (found.low, found.high)
    ]
    interval = "" if found.low is None else f" [{', '.join(bounds)}]"
    return f"{where} is {found.value:.4g}{interval} ({check})"
