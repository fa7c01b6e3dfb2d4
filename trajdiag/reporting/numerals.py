"""Numbers as a report prints them: real minus signs, the decimals that the unit deserves."""

import math
from collections.abc import Callable

MISSING = "–"


def percent(value: float | None, decimals: int = 1) -> str:
    """A share as a percentage, without the sign: 0.9534 is `95.3`."""
    return MISSING if value is None else _fixed(100 * value, decimals)


def loops(value: float | None) -> str:
    """A mean depth."""
    return MISSING if value is None else _fixed(value, 2)


def signed(text: str) -> str:
    """A printed number with its sign."""
    return text if text == MISSING or text.startswith("−") or not text.strip("0.") else f"+{text}"


def plain(value: float | None, digits: int = 3) -> str:
    """So many significant digits, for values of no known unit."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:.{digits}g}".replace("-", "−")


def tick(value: float) -> str:
    """A number on an axis or a difficulty: integers without decimals."""
    return f"{value:.4g}".replace("-", "−")


def bracketed(low: float | None, high: float | None, text: Callable[[float], str]) -> str:
    """An interval, its ends printed by `text`; empty where there is none. An end that is missing
    beside the lower one lies at infinity: the number is not reached in that share of resamples."""
    if low is None:
        return ""
    return f"[{text(low)}, {'not reached' if high is None else text(high)}]"


def p_value(value: float) -> str:
    """A p value to the thousandth."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def metric_text(metric: str, value: float | None, decimals: int = 1) -> str:
    """A score in its metric's unit: depths in loops, accuracies, areas and shares in percent, these
    with so many decimals."""
    name = metric.removeprefix("frozen-fit/").split("/")[0]
    if name.startswith(("n_reached", "n_differ")):
        return MISSING if value is None else f"{value:.0f}"
    if name.startswith(("depth", "best_depth", "mean-depth")):
        return loops(value)
    if name.startswith(_SHARES):
        return percent(value, decimals)
    if value is None:
        return MISSING
    return _fixed(value, 2) if name.startswith(_UNITLESS) else plain(value)


_SHARES = (
    "acc",
    "area",
    "aurc",
    "ece",
    "final_accuracy",
    "flips",
    "learnable",
    "misfit",
    "overthinking",
    "regret",
    "risk@",
    "share",
    "swap",
    "unexposed",
    "wasteful",
)
"""Metrics in percent or percentage points, by how their names begin."""
_UNITLESS = ("auprc", "auroc", "exit", "partial", "spearman")
"""Correlations and areas under curves, between -1 and 1."""


def _fixed(value: float, decimals: int) -> str:
    if not math.isfinite(value):
        return MISSING
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")
