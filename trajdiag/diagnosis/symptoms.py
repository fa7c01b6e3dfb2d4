"""What goes wrong beside or behind a shortfall: signs that point at training, gate or data."""

import dataclasses
import math
import shlex

from trajdiag.diagnosis.causes import MATERIAL, amount
from trajdiag.diagnosis.evidence import Evidence
from trajdiag.diagnosis.regret import INTEGRATED
from trajdiag.readout_registry import NATIVE, RELEASED
from trajdiag.results import Finding

COLLAPSED = 0.95
"""Share of examples at one depth from which a gate has collapsed to it."""
SPREAD = 0.9
"""Share of examples that need one depth below which a gate should not have."""
TO_GAIN = 0.02
"""Area that adaptive depth could add to a fixed one, below which nothing is asked of a readout."""
LITTLE = 0.1
"""Share of what can be found above fixed depth, below which a gain that is not shown is none."""
ORDERED = 0.1
"""Spearman of needed depth with difficulty from which exit depths should follow it."""
DRIFT = {"depth": 0.1, "accuracy": 0.02}
"""Changes from val to test, in loops and in accuracy, that matter."""
MISTIMED = {"depth": 0.1, "accuracy": 0.02}
"""Loops too many, or accuracy too little, from which a gate as trained leaves at the wrong time."""


def symptoms(evidence: Evidence) -> list[Finding]:
    """The findings that name no cause."""
    found = []
    for one in (
        _bound_beaten,
        _overthinking,
        _collapsed,
        _no_better_than_fixed,
        _misordered,
        _miscalibrated,
        _drift,
    ):
        found += one(evidence)
    return found


def _bound_beaten(e: Evidence) -> list[Finding]:
    beaten = [
        part
        for part in e.parts.get("left", ())
        if part.span.negative and part.span.value <= -MATERIAL[part.at]
    ]
    if not beaten:
        return []
    part = beaten[0]
    return [
        finding_of(
            e,
            "bound-beaten",
            "medium",
            f"{e.readout} beats the learned bound by {amount(e, part.at, part.span.negated)}: what "
            "it uses, the bound's fit has not found on val",
            "Extract more fit and val examples: unexposed is too large, learnable too small.",
            part.span.numbers("left"),
        )
    ]


def _overthinking(e: Evidence) -> list[Finding]:
    lost = e.overthinking.positive and e.overthinking.value >= 0.01
    peak = e.peak.positive and e.peak.value >= MATERIAL[INTEGRATED]
    if not lost and not peak:
        return []
    said = []
    if lost:
        said.append(
            f"{e.overthinking.text(100, 1, '%')} of test examples are right earlier and wrong at "
            "the last loop, beyond what luck explains"
        )
    if peak:
        said.append(
            f"loop {e.peak_loop} is {e.peak.text(100, 1)} accuracy points better than loop "
            f"{e.loops}"
        )
    found = finding_of(
        e,
        "overthinking",
        "medium",
        "; ".join(said),
        "Do not run to the last loop by default; train with weight on the later losses too.",
        e.overthinking.numbers("overthinking") | e.peak.numbers("peak"),
    )
    return [dataclasses.replace(found, readout=None)]


def collapsed(e: Evidence) -> bool:
    """Whether a gate sends nearly all examples to one depth, though they need several."""
    return e.modal_share is not None and e.modal_share >= COLLAPSED and e.needed_share <= SPREAD


def _collapsed(e: Evidence) -> list[Finding]:
    if not collapsed(e) or e.modal_share is None:
        return []
    return [
        finding_of(
            e,
            "gate-collapsed",
            "medium",
            f"whatever its threshold, {e.readout} sends {100 * e.modal_share:.1f}% of examples to "
            f"one depth (loop {e.modal_depth} at an exit probability of 1/2), where at most "
            f"{100 * e.needed_share:.1f}% need the same",
            "Lower beta or change the prior; until then read the states with another rule.",
            {"modal_share": e.modal_share, "needed_share": e.needed_share},
        )
    ]


def no_better_than_fixed(e: Evidence) -> bool:
    """Whether the readout's gain on a fixed depth is not shown, and the data rule out that it is a
    tenth of what can be found (at least half a point), where something could be gained; or they
    rule out half a point, shown or not."""
    high = e.over_fixed.high
    if high is None or e.to_gain < TO_GAIN or e.readout == "fixed":
        return False
    tenth = LITTLE * min(e.to_gain, e.found_gain)
    return high < MATERIAL[INTEGRATED] or (high < tenth and not e.over_fixed.positive)


def _no_better_than_fixed(e: Evidence) -> list[Finding]:
    if not no_better_than_fixed(e):
        return []
    by = f" ({e.over_fixed.text(100, 2)} accuracy points over all budgets)" * (
        abs(e.over_fixed.value) >= 5e-5
    )
    return [
        finding_of(
            e,
            "no-better-than-fixed",
            "medium" if e.native else "info",
            f"at equal cost {e.readout} is no better than leaving everywhere at one loop{by}, "
            f"where knowing the needed depth would bring {100 * e.to_gain:.1f}",
            f"Run a fixed depth, or read the states with {e.best}."
            if e.best not in ("fixed", e.readout)
            else "Run a fixed depth.",
            {
                **e.over_fixed.numbers("over_fixed"),
                "to_gain": e.to_gain,
                "found_gain": e.found_gain,
            },
        )
    ]


def misordered(e: Evidence) -> bool:
    """Whether harder inputs leave the readout earlier, though they need more loops."""
    return e.order is not None and e.order.negative and e.needed_order > ORDERED


def _misordered(e: Evidence) -> list[Finding]:
    if not misordered(e) or e.order is None:
        return []
    return [
        finding_of(
            e,
            "misordered",
            "medium",
            f"harder inputs leave {e.readout} earlier (Spearman {e.order.text()}), though they "
            f"need more loops (Spearman {e.needed_order:.2f})",
            "It takes giving up for being done: prefer a gate that asks whether going on helps "
            f"(`trajdiag fit-gate {shlex.quote(e.store)} --objective utility`).",
            {**e.order.numbers("order"), "needed_order": e.needed_order},
        )
    ]


def mistimed(e: Evidence) -> str | None:
    """`early` or `late`: where the model's own gate leaves at an exit probability of 1/2, against
    the threshold that val chooses; None where neither is shown."""
    if e.trained is None:
        return None
    deeper, better = e.trained.deeper, e.trained.better
    if better.negative and better.value <= -MISTIMED["accuracy"]:
        return "early" if deeper.value < 0 else None
    # running on is a fault only where the data rule out that it brings many more right answers
    in_vain = better.high is not None and better.high < MISTIMED["accuracy"]
    late = deeper.positive and deeper.value >= MISTIMED["depth"] and in_vain
    return "late" if late else None


def _miscalibrated(e: Evidence) -> list[Finding]:
    way, trained = mistimed(e), e.trained
    if way is None or trained is None:
        return []
    depth, accuracy = trained.chosen
    found = finding_of(
        e,
        "gate-miscalibrated",
        "medium",
        f"at an exit probability of 1/2 {NATIVE} leaves after {trained.depth.text()} loops and is "
        f"{trained.accuracy.text(100, 1, '%')} right, too {way}: at the threshold chosen on val it "
        f"takes {depth:.2f} for {100 * accuracy:.1f}%",
        "The order of its exits may be fine while their scale is not: run it at a threshold chosen "
        f"on val (`trajdiag score {shlex.quote(e.store)} --readouts {NATIVE} --target "
        f"accuracy={_whole_percent(accuracy):g}`).",
        {
            **trained.depth.numbers("depth_at_half"),
            **trained.accuracy.numbers("accuracy_at_half"),
            **trained.deeper.numbers("depth_over_chosen"),
            **trained.better.numbers("accuracy_over_chosen"),
        },
    )
    return [dataclasses.replace(found, readout=NATIVE)]


def _whole_percent(accuracy: float) -> float:
    """An accuracy to ask for, in whole points: what is reached on test, rounded down."""
    return min(99, max(1, math.floor(100 * accuracy))) / 100


def _drift(e: Evidence) -> list[Finding]:
    depth, accuracy = e.drift_depth, e.drift_accuracy
    deeper = (depth.positive or depth.negative) and abs(depth.value) >= DRIFT["depth"]
    worse = accuracy.negative and accuracy.value <= -DRIFT["accuracy"]
    said = []
    if deeper:
        way, size = ("deeper", depth) if depth.value > 0 else ("shallower", depth.negated)
        said.append(f"runs {size.text()} loops {way}")
    if worse:
        said.append(f"is {accuracy.negated.text(100, 1)} points less accurate")
    if not said:
        return []
    return [
        finding_of(
            e,
            "threshold-drift",
            "medium",
            f"at the threshold chosen on val, {e.readout} {' and '.join(said)} on test than on val "
            "(99% intervals)",
            f"Val and test differ, or val is too small to place it ({e.n_val:,} independent "
            "inputs): choose the threshold on more data, like that which it will meet.",
            depth.numbers("depth") | accuracy.numbers("accuracy"),
        )
    ]


def released(e: Evidence) -> list[Finding]:
    """How far the released exit rule is from the exact one, where the model has it."""
    rule = e.released
    if rule is None or rule.differing == 0:
        return []
    found = finding_of(
        e,
        "released-rule-differs",
        "info",
        f"at its released threshold {rule.threshold:g}, computed in {rule.dtype}, the model's own "
        f"exit rule leaves {rule.differing:,} of {rule.examples:,} test examples at another loop "
        "than the same rule without rounding",
        "Keep gate logits and sum hazards in float64; the released rule is `native-released`.",
        {"differing": float(rule.differing), "examples": float(rule.examples)},
    )
    return [dataclasses.replace(found, readout=RELEASED)]


def finding_of(
    e: Evidence,
    code: str,
    severity: str,
    message: str,
    advice: str,
    numbers: dict[str, float | None],
) -> Finding:
    """A finding about the readout under diagnosis."""
    return Finding(
        code=code,
        store=e.store,
        readout=e.readout,
        severity=severity,
        message=message,
        advice=advice,
        numbers=numbers,
    )
