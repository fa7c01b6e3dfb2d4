"""How readouts, metrics and parts are called in a report, and how any text is made safe to show."""

import unicodedata

READOUT_LABELS = {
    "top1": "top-1 confidence",
    "predictive_kl": "predictive KL",
    "native": "native gate",
    "fixed": "fixed depth",
    "oracle": "hindsight oracle",
}

CONFIDENCE = ("entropy", "top1", "logit_margin", "probability_margin")
PREDICTION_CHANGE = ("predictive_kl", "logit_change", "argmax_stability")
STATE_CHANGE = ("hidden_displacement", "relative_change", "hidden_cosine")
FAMILIES = (CONFIDENCE, PREDICTION_CHANGE, STATE_CHANGE)
"""The built-in signals by what they look at; hues follow them."""

METRIC_LABELS = {
    "area": "Area, %",
    "depth@final": "Loops at operating point",
    "accuracy@final": "Accuracy there, %",
    "depth@threshold": "Loops at threshold",
    "accuracy@threshold": "Accuracy there, %",
    "depth@matched": "Matched loops",
    "accuracy@matched": "Matched accuracy, %",
    "depth@95": "Loops to 95%",
    "depth@98": "Loops to 98%",
    "depth@99": "Loops to 99%",
    "spearman": "Spearman ρ",
    "final_accuracy": "Accuracy of the last loop, %",
    "best_depth": "Best single loop",
}

PART_LABELS = {
    "ok": "right at the exit",
    "early": "readout: left too early",
    "late": "readout: left too late",
    "trajectory": "trajectory: no loop is right",
}


def readout_label(name: str) -> str:
    """A readout's name as running text."""
    return READOUT_LABELS.get(name, visible(name).replace("_", " "))


def metric_label(metric: str) -> str:
    """A metric's name as a column's head."""
    return METRIC_LABELS.get(metric, visible(metric))


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
