"""Conditions on a diagnosis under which somebody's own CI is to fail: `readout > 0.05`."""

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trajdiag.errors import UnknownNameError, UsageError
from trajdiag.results import Results

SHARES = ("ok", "trajectory", "early", "late", "readout")
"""Shares of test examples at the operating point; `readout` is early and late together."""
REGRETS = ("regret", "trajectory_regret", "unexposed", "learnable", "misfit", "lucky")
"""Accuracy lost over depth budgets, and its parts."""
POINT = {name: (f"{name}@threshold", f"{name}@final") for name in ("accuracy", "depth")}
"""Of the operating point: the user's own threshold where one was given."""
_FORM = re.compile(
    r"\s*(?:(?P<readout>[^\s:<>=]+)\s*:)?\s*(?P<quantity>[^\s:<>=]+)\s*"
    r"(?P<sign><=|>=|<|>)\s*(?P<limit>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"
)
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
        readout = f"{self.readout}:" if self.readout else ""
        return f"{readout}{self.quantity} {self.sign} {self.limit:g}"


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
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(
            f"a check is [READOUT:]QUANTITY, one of < <= > >=, and a number, such as "
            f"'readout > 0.05' or 'entropy:depth >= 3', got {text!r}"
        )
    return Check(
        readout=found["readout"],
        quantity=found["quantity"],
        sign=found["sign"],
        limit=float(found["limit"]),
    )


def failures(results: Results, checks: Iterable[Check]) -> list[str]:
    """What came true, a text for each check and store: which store, which readout, the value and
    its interval.

    Values are compared, not bounds. A number that exists and is not reached or not defined fails
    too: a check must not pass on nothing. A store that lacks the readout, or the reference that a
    part needs, is passed over where another has it. Raises UnknownNameError for a quantity or
    readout that no store has.
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
        raise UnknownNameError("readout", check.readout, readouts)
    table = _table(results, check.quantity)
    if not table:
        alone = check.quantity == "trajectory_regret"
        hint = "trajectory_regret needs another store of the task as --reference" if alone else ""
        raise UnknownNameError("quantity", check.quantity, _names(results), hint)
    found = []
    for store in (row.store for row in results.stores):
        readout = check.readout or _diagnosed(results, store)
        if (store, readout) in table:
            found.append(table[store, readout])
    if not found:
        having = {readout for _, readout in table}
        whose = check.readout or "the readouts under diagnosis"
        raise UnknownNameError(f"readout with {check.quantity}", whose, having)
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


def _diagnosed(results: Results, store: str) -> str:
    """The store's native gate, else the rule with the largest area on val, as in
    diagnosis/regret.py."""
    kinds = {r.readout: r.kind for r in results.readouts if r.store == store}
    real = [
        name
        for name in results.ranked(store)
        if kinds[name] in ("signal", "native", "gate", "fixed")
    ]
    return next((name for name in real if kinds[name] == "native"), next(iter(real), ""))


def _text(check: Check, found: _Found) -> str:
    where = f"{check.quantity} of {found.readout} on {found.store}"
    if found.value is None:
        return f"{where} is not reached or not defined ({check})"
    bounds = [
        "not reached" if bound is None else f"{bound:.4g}" for bound in (found.low, found.high)
    ]
    interval = "" if found.low is None else f" [{', '.join(bounds)}]"
    return f"{where} is {found.value:.4g}{interval} ({check})"
