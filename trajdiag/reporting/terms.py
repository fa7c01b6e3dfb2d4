"""The words of a report, each in a sentence or two."""

from trajdiag.reporting.numerals import plain

_TERMS = (
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
        "Names",
        "Readouts are called as commands take them: --readouts top1 or js, and native, fixed, "
        "bound and oracle for the native gate, fixed depth, the learned bound and the hindsight "
        "oracle. top1: the confidence in the likeliest class; min_p_kl, kl_current_previous and "
        "kl_previous_current: divergences between the predictions of two loops, js Jensen and "
        "Shannon’s; KIND-OBJECTIVE, such as mlp-ponder: a gate fitted to the frozen states. "
        "`trajdiag list readouts` has every formula.",
    ),
    (
        "Operating point",
        "The readout’s least mean depth on validation whose accuracy is within {slack} of the "
        "last loop’s. Its depth and accuracy are then measured on test.",
    ),
    (
        "Shares",
        "Of the test examples at the operating point. Trajectory: no loop is right, so that no "
        "readout could save them. Readout, too early: left before the first right loop. Readout, "
        "too late: was right, went on and lost it (overthinking).",
    ),
    (
        "Regret",
        "What a readout loses against hindsight on the reference’s states, or without a reference "
        "on its own, less what luck explains. Trajectory: hindsight on the reference’s states "
        "against hindsight on these. Unexposed: hindsight against the learned bound. Learnable: "
        "the learned bound against the best simple signal. Misfit: that signal against the "
        "readout. Positive is worse; the parts add up exactly. In points it is accuracy, averaged "
        "over all budgets of mean depth or at one of them; in loops it is depth at the matched "
        "accuracy.",
    ),
    (
        "Simple signal",
        "The signal, or fixed depth, with the largest area on validation.",
    ),
    (
        "Learned bound",
        "The best, at each depth, of all that was scored and of stopping rules learned from the "
        "frozen states by optimal stopping; chosen on validation.",
    ),
    (
        "Lucky",
        "How much of the hindsight oracle’s lead guessing would give: what it reaches when the "
        "targets of wrong examples are permuted among those that end in the same prediction, "
        "beyond what the stays-right oracle reaches, and never more than its lead over the "
        "learned bound.",
    ),
    (
        "Area",
        "Mean test accuracy over all mean-depth budgets from 1 to the last loop T, along the upper "
        "concave hull of the readout’s operating points and two anchors, all leave at loop 1 and "
        "all run to T (mixing two points reaches what lies between). The hull’s vertices are "
        "chosen on validation. Readouts are ranked by their area on validation.",
    ),
    (
        "Cannot tell",
        "The interval of the difference holds 0, or its p value after Holm’s correction over the "
        "readouts compared is above the level of the intervals.",
    ),
    (
        "Loops to X%",
        "The least mean depth that reaches X% on validation, measured on test, with the accuracy "
        "on test where that falls short. A target that validation never reaches is a miss; misses "
        "count as infinitely deep, so that an interval may end in “not reached”.",
    ),
    (
        "Matched accuracy",
        "The depth at one accuracy that all compared stores reach: the lowest final validation "
        "accuracy among them, less {slack}.",
    ),
    (
        "Hindsight oracle",
        "Leaves at the first right loop, the cheapest examples first under a depth budget, the "
        "rest at loop 1. It sees the answer, so no readout can do better at the same depth. Beside "
        "it, hindsight that waits for the loop after which it stays right (oracle-stays), for the "
        "least loss (oracle-loss), and for saturation, after which the prediction never changes "
        "(oracle-saturation).",
    ),
    (
        "Equal depth",
        "Both readouts run at the same mean depth; the same test examples are right or wrong under "
        "each (exact McNemar test).",
    ),
    (
        "Swap",
        "The gap in area between the store read by one readout and the reference read by another, "
        "shared between trajectory and readout: the mean over both orders of changing them "
        "(Shapley). Interaction is what both bring together beyond each alone.",
    ),
    (
        "Frozen fit",
        "A fresh gate of one kind fitted on both frozen trajectories, the store’s less the "
        "reference’s: what it does worse is the trajectory’s, not its training’s.",
    ),
    (
        "Right now, settled",
        "Right now: this loop’s prediction is right. Settled: more loops will not help, since it "
        "is right or no later loop is.",
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
        "not known at the decision; native-expected counts the loops beyond its expected depth, "
        "which takes its later loops too. These are never weighed as rules to choose.",
    ),
    (
        "Findings",
        "Whose it is: trajectory-bound, the states lack it; nothing-finds, hindsight finds what no "
        "learned rule does; signal-not-exposed, a learned rule finds what no simple signal shows; "
        "readout-behind, the model’s own gate leaves it on the table. High: at least half of the "
        "whole; medium: at least a quarter; info: less, or nothing to mend. The verdict blames "
        "high and medium, each loss once. too-few-examples: the data cannot tell. chance: the task "
        "is not learned, and nothing else is blamed.",
    ),
    (
        "Intervals",
        "One seeded bootstrap over groups of examples, shared by everything compared, so that "
        "differences are paired; what validation chooses is chosen again in each resample. They "
        "leave out the training seed, but for the numbers over training seeds, where each resample "
        "draws stores too.",
    ),
    (
        "Full-depth context",
        "Offline scores read states whose other tokens ran all loops.",
    ),
    (
        "Formulas",
        "docs/statistics.md, in trajdiag’s sources, has each number’s formula and source.",
    ),
)
"""Term and meaning, in the order of reading; `{slack}` stands for what the slack is."""


def terms(slack: float) -> list[tuple[str, str]]:
    """Term and meaning, in the order of reading, where the operating point may give up `slack`, a
    share of accuracy."""
    points = plain(100 * slack)
    said = f"{points} point{'' if points == '1' else 's'}"
    return [(term, meaning.format(slack=said)) for term, meaning in _TERMS]
