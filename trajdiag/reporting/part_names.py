"""How the parts of regret, the swap and the measures of signal quality are called in a report."""

from trajdiag.reporting.names import PART_LABELS, metric_label, visible

REGRET_PARTS = {
    "trajectory_regret": "trajectory",
    "unexposed": "unexposed",
    "learnable": "learnable",
    "misfit": "misfit",
}
"""The role of each part, in the order in which they add up from the states to the readout."""

REGRET_WORDS = {
    "trajectory_regret": "another training’s states would have held it",
    "unexposed": "nothing in these states finds it",
    "learnable": "only a learned rule finds it",
    "misfit": "a simple signal already finds it",
}

REGRET_SCALES = {
    "integrated": ("accuracy lost, mean over depth budgets", "points"),
    "accuracy": ("loops lost at matched accuracy", "loops"),
    "matched": ("accuracy lost at the operating point’s depth", "points"),
}
"""What each way of splitting regret measures, and its unit; those that are drawn come first."""

DIFFERENCE_LABELS = {
    "area": "Area, points",
    "depth@matched": "Matched loops",
    "accuracy@matched": "Matched accuracy, points",
    "accuracy@equal-depth": "Accuracy at equal depth, points",
    **{f"share/{part}": f"{label.capitalize()}, points" for part, label in PART_LABELS.items()},
}

SWAP_LABELS = {
    "swap/total": "Total, points",
    "swap/trajectory": "Trajectory’s share",
    "swap/readout": "Readout’s share",
    "swap/interaction": "Interaction",
}

FROZEN_FIT_LABELS = {
    "frozen-fit/area": "Area, points",
    "frozen-fit/depth@matched": "Matched loops",
}

QUALITY_LABELS = {
    "auroc/right": "AUROC, right now",
    "auprc/right": "AUPRC, right now",
    "auroc/settled": "AUROC, settled",
    "auprc/settled": "AUPRC, settled",
    "aurc": "Risk over coverage, %",
    "risk@coverage=0.8": "Risk at 80% coverage, %",
    "ece": "Calibration error, %",
    "brier": "Brier score",
    "spearman/difficulty": "Signal with difficulty, ρ",
    "spearman-bins/difficulty": "The same on bin means, ρ",
    "partial/difficulty": "Given correctness, ρ",
    "exit/difficulty": "Exit depth with difficulty, ρ",
    "exit/stays-depth": "Exit depth with stays-correct depth, ρ",
    "overthinking": "Right at some loop, wrong at the last",
    "overthinking/beyond-luck": "Of that, more than by luck",
    "wasteful": "Right before the loop and after it",
    "flips": "The loop changes the prediction",
    "flips/gained": "The loop makes it right",
    "flips/lost": "The loop makes it wrong",
}


def replica_label(metric: str) -> str:
    """The head of a column of numbers over training seeds."""
    part, _, at = metric.partition("/")
    if at == "integrated":
        return f"{REGRET_PARTS.get(part, part).capitalize()}, points"
    kind, _, target = metric.partition("@")
    if kind == "mean-depth":
        return f"{metric_label(f'depth@{target}')}, mean"
    if kind == "depth" and metric_label(metric).startswith("Loops to"):
        return f"{metric_label(metric)}, median"
    return metric_label(metric)


def quality_label(metric: str) -> str:
    """A measure's name as the head of a row or column."""
    return QUALITY_LABELS.get(metric, visible(metric))


def part_label(part: str) -> str:
    """A part of regret with what it means."""
    return f"{REGRET_PARTS[part]}: {REGRET_WORDS[part]}"
