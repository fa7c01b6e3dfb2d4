"""The words of a report, each in a sentence or two."""

TERMS = (
    (
        "Trajectory",
        "The hidden states of all loops, shaped by training and frozen here.",
    ),
    (
        "Readout",
        "What turns a trajectory into an exit depth: a signal or a halting gate, and a threshold. "
        "An example leaves at the first loop that crosses, else at the last.",
    ),
    (
        "Operating point",
        "The readout’s least mean depth on validation whose accuracy is within half a point of the "
        "last loop’s. Its depth and accuracy are then measured on test.",
    ),
    (
        "Shares",
        "Of the test examples at the operating point. Trajectory: no loop is right, so that no "
        "readout could save them. Readout, too early: left before the first right loop. Readout, "
        "too late: was right, went on and lost it (overthinking).",
    ),
    (
        "Shortfall",
        "The model’s own gate against the reference’s best readout. What the best readout of the "
        "model’s own frozen states would recover is the readout’s part; the rest is the "
        "trajectory’s. The parts sum to the whole.",
    ),
    (
        "Area",
        "Mean test accuracy over all mean-depth budgets from 1 to the last loop T, along the upper "
        "concave hull of the readout’s operating points and two anchors, all leave at loop 1 and "
        "all run to T (mixing two points reaches what lies between). The hull’s vertices are "
        "chosen on validation. Readouts are ranked by their area on validation.",
    ),
    (
        "Cannot be told apart",
        "The paired interval of the difference in area includes 0.",
    ),
    (
        "Loops to X%",
        "The least mean depth that reaches X% on validation, measured on test. A target that "
        "validation never reaches is a miss, and shown as one.",
    ),
    (
        "Matched accuracy",
        "The depth at one accuracy that all compared stores reach: the lowest final validation "
        "accuracy among them, less half a point.",
    ),
    (
        "Hindsight oracle",
        "Leaves at the first right loop, the cheapest examples first under a depth budget, the "
        "rest at loop 1. It sees the answer, so no readout can do better at the same depth; luck "
        "helps it where classes are few. Its row shows the least depth at which it reaches the "
        "operating point’s accuracy.",
    ),
    (
        "Spearman ρ",
        "Rank correlation, over test examples, of the exit depth at the operating point with the "
        "task’s difficulty.",
    ),
    (
        "Native gate",
        "The model’s own gate, its CDF computed exactly. native-released is the same gate by the "
        "rule of Ouro’s released code, which rounds to the checkpoint’s dtype; "
        "native-continuation averages its logit over the tokens that score the choices, so it is "
        "not known at the decision. Neither is weighed as a rule to choose.",
    ),
    (
        "Findings",
        "trajectory-bound: what is lost is lost in the states. readout-misfit: another rule on the "
        "same states does better. no-clear-cause: neither is clear of 0 and large enough to "
        "matter. High: at least half of the shortfall.",
    ),
    (
        "Intervals",
        "Percentiles of one seeded bootstrap over groups of examples, shared by everything "
        "compared, so that differences are paired. They leave out the training seed.",
    ),
    (
        "Full-depth context",
        "Offline scores read states whose other tokens ran all loops.",
    ),
)
"""Term and meaning, in the order of reading."""
