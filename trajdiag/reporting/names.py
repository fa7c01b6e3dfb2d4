"""How readouts, metrics and parts are called in a report, and how any text is made safe to show."""

import re
import unicodedata
from collections.abc import Iterable

READOUT_LABELS = {
    "native": "native gate",
    "fixed": "fixed depth",
    "bound": "learned bound",
    "oracle": "hindsight oracle",
}
"""A word beside the names of readouts that say little alone; every other is called as commands call
it."""

CONFIDENCE = ("entropy", "top1", "logit_margin", "probability_margin", "energy")
PREDICTION_CHANGE = (
    "entropy_change",
    "kl_current_previous",
    "kl_previous_current",
    "min_p_kl",
    "js",
    "logit_change",
    "argmax_stability",
    "vote_share",
)
STATE_CHANGE = (
    "hidden_displacement",
    "relative_change",
    "hidden_cosine",
    "acceleration",
    "acceleration_twice",
)
FAMILIES = (CONFIDENCE, PREDICTION_CHANGE, STATE_CHANGE)
"""The built-in signals by what they look at; hues follow them."""

AS_SURPRISE = ("top1", "probability_margin")
"""Signals whose values are kept as -log(1 - p) of the p that they are called after."""

METRIC_LABELS = {
    "area": "Area, %",
    "depth@final": "Loops at operating point",
    "accuracy@final": "Accuracy there, %",
    "depth@threshold": "Loops at threshold",
    "accuracy@threshold": "Accuracy there, %",
    "depth@matched": "Matched loops",
    "accuracy@matched": "Matched accuracy, %",
    "spearman": "Spearman ρ",
    "final_accuracy": "Accuracy of the last loop, %",
    "best_depth": "Best single loop",
    "accuracy@best_depth": "Accuracy there, %",
    "threshold@final": "Threshold at operating point",
    "threshold@threshold": "Threshold",
    "area/by-luck": "Area by luck, %",
}

_METRICS_AT = (
    (r"accuracy@depth=([\d.]+)", "Accuracy at mean depth {0}, %"),
    (r"accuracy@loop=(\d+)", "Accuracy of loop {0}, %"),
    (r"depth@([\d.]+)", "Loops to {0}%"),
    (r"depth@([\d.]+)/test-chosen", "Loops to {0}%, chosen on test"),
    (r"accuracy@([\d.]+)", "Accuracy at loops to {0}%, %"),
    (r"n_reached@([\d.]+)", "Reaches {0}% (1: yes)"),
)
"""Names of metrics that hold a number, and what they are called."""
_ON_GRID = "/quantile-grid"

PART_LABELS = {
    "ok": "right at the exit",
    "early": "readout: left too early",
    "late": "readout: left too late",
    "trajectory": "trajectory: no loop is right",
}


def readout_label(name: str) -> str:
    """A readout's name in a report: it holds the one that `--readouts` takes."""
    return READOUT_LABELS.get(name, visible(name))


def metric_label(metric: str) -> str:
    """A metric's name as a column's head."""
    if metric in METRIC_LABELS:
        return METRIC_LABELS[metric]
    name = metric.removesuffix(_ON_GRID)
    for pattern, label in _METRICS_AT:
        if found := re.fullmatch(pattern, name):
            return label.format(*found.groups()) + (", quantile grid" if name != metric else "")
    return visible(metric)


def shortened(text: str, most: int) -> str:
    """`text` cut in the middle to at most this many characters: the ends of names tell them
    apart."""
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


def visible(text: str) -> str:
    """`text` with control and invisible format characters (bidi overrides too) written as
    escapes."""
    return "".join(
        f"\\u{ord(c):04x}" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c
        for c in text
    )


def target_depths(metrics: Iterable[str]) -> list[str]:
    """Those that are mean depths at a target accuracy, such as depth@95, in order."""
    return [m for m in dict.fromkeys(metrics) if re.fullmatch(r"depth@\d[\d.e-]*", m)]
