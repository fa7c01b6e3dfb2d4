"""A halting gate as trained, at an exit probability of 1/2, beside its own operating point."""

import math
from dataclasses import dataclass

from trajdiag.metrics.frontier import exit_depth, right_at
from trajdiag.scoring.evaluation import Evaluation, Scored
from trajdiag.scoring.selection import FINAL
from trajdiag.spans import Span, Spans

HALF = math.log(2)
"""The cumulative hazard, -log(1 - CDF), at which a CDF reaches 1/2."""


@dataclass(frozen=True, kw_only=True)
class AsTrained:
    """Test examples that leave at the first loop at which the gate's CDF is at least 1/2, else at
    T, and the same examples at the threshold that val chooses, again in every resample."""

    depth: Span
    """Mean exit depth at 1/2, loops."""
    accuracy: Span
    """Accuracy there."""
    chosen: tuple[float, float]
    """Depth and accuracy at the chosen threshold."""
    deeper: Span
    """Depth at 1/2 less that at the chosen threshold, paired."""
    better: Span
    """Accuracy at 1/2 less that at the chosen threshold, paired."""


def as_trained(s: Scored, gate: Evaluation | None, spans: Spans) -> AsTrained | None:
    """The halting gate `gate` of `s` as it was trained; None where there is none, or where it was
    read part by part."""
    if gate is None or gate.exits is None or gate.readout.scale != "hazard":
        return None
    test, rule = s.outcomes.test, gate.readout
    leaves = exit_depth(gate.exits.values, HALF, rule.direction, rule.first_loop)
    depth = s.resamples.test.means(leaves[:, None])[:, 0]
    accuracy = s.resamples.test.means(right_at(test.correct, leaves)[:, None])[:, 0]
    own = {what: gate.estimates[f"{what}@{FINAL}"] for what in ("depth", "accuracy")}
    return AsTrained(
        depth=spans.sure(depth),
        accuracy=spans.sure(accuracy),
        chosen=(float(own["depth"][0]), float(own["accuracy"][0])),
        deeper=spans.sure(depth - own["depth"]),
        better=spans.sure(accuracy - own["accuracy"]),
    )
