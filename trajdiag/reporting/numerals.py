"""Numbers as a report prints them: real minus signs, the decimals that the unit deserves."""

import math

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


def plain(value: float | None) -> str:
    """Three significant digits, for values of no known unit."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:.3g}".replace("-", "−")


def tick(value: float) -> str:
    """A number on an axis or a difficulty: integers without decimals."""
    return f"{value:.4g}".replace("-", "−")


def metric_text(metric: str, value: float | None) -> str:
    """A score in its metric's unit: depths in loops, accuracies, areas and shares in percent."""
    name = metric.split("/")[0]
    if name.startswith(("n_reached", "n_differ")):
        return MISSING if value is None else f"{value:.0f}"
    if name.startswith(("depth", "best_depth", "gap@", "readout_gap@", "trajectory_gap@")):
        return loops(value)
    if name.startswith(("acc", "area", "final_accuracy", "share")):
        return percent(value)
    return MISSING if value is None else _fixed(value, 2) if name == "spearman" else plain(value)


def _fixed(value: float, decimals: int) -> str:
    if not math.isfinite(value):
        return MISSING
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")
