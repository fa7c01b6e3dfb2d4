"""The paper's tables beside the study's."""

import math

from studies.ledger import Ledger, Number, table
from studies.paper import HEADLINE, ORDERING, PARITY, TARGETS, Depth

from trajdiag.reporting.names import readout_label
from trajdiag.reporting.numerals import MISSING, loops, percent


def key_of(ledger: Ledger, task: str, training: str) -> str | None:
    """The key of a training of the paper's; `gate/prior` is the best beta's, by val."""
    if "/" in training:
        gate, _, prior = training.partition("/")
        return ledger.best_beta(task, gate, prior)
    return f"{task}/{training}"


def headline(ledger: Ledger) -> str:
    """Loops to 95, 98 and 99%."""
    rows = []
    for line in HEADLINE:
        key = key_of(ledger, "mano", line.training)
        if key not in ledger.study["settings"]:
            continue
        for readout in line.readouts:
            row = [ledger.label(key), readout_label(readout)]
            for target, paper in zip(TARGETS, line.depths, strict=True):
                ours = ledger.number(key, readout, f"depth@{target}")
                row += [depth_text(paper), MISSING if ours is None else ours.text(counted=True)]
                row[-1] += meets(paper, ours)
            rows.append(row)
    head = ["training", "readout"]
    for target in TARGETS:
        head += [f"D@{target}, paper", f"D@{target}, here"]
    return table(head, rows)


def depth_text(depth: Depth) -> str:
    """A depth of the paper's."""
    if depth is None:
        return "n/a"
    mean, spread = depth
    return loops(mean) + ("" if spread is None else f" ± {loops(spread)}")


def meets(paper: Depth, ours: Number | None) -> str:
    """Marks a bounded interval that meets the paper's mean and standard deviation."""
    ends = None if ours is None else ours.ends
    if paper is None or ends is None:
        return ""
    mean, spread = paper
    if ends[1] == math.inf:
        return ""
    return " ≈" if ends[0] <= mean + (spread or 0) and ends[1] >= mean - (spread or 0) else ""


def every_setting(ledger: Ledger, task: str) -> str:
    """A line a setting: its last loop, its best signal of the three of confidence, its own gate."""
    rows = []
    for key in ledger.settings(task):
        signal = best_signal(ledger, key)
        rows.append(
            [
                ledger.label(key),
                ledger.text(key, "fixed", "final_accuracy"),
                readout_label(signal) if signal else MISSING,
                ledger.text(key, signal or "", "area"),
                ledger.text(key, signal or "", "depth@final"),
                ledger.text(key, "native", "area"),
                ledger.text(key, "native", "depth@final"),
            ]
        )
    head = (
        *("training", "accuracy at T, %", "best signal", "its area, %", "its loops"),
        *("own gate's area, %", "its loops"),
    )
    return table(head, rows)


CONFIDENCE = ("entropy", "top1", "logit_margin")


def best_signal(ledger: Ledger, key: str | None) -> str | None:
    """The signal of confidence that val prefers by area, over seeds."""
    areas = {
        name: found.value
        for name in CONFIDENCE
        if (found := ledger.number(key, name, "area/val")) and found.value is not None
    }
    return max(areas, key=lambda name: areas[name]) if areas else None


def ordering(ledger: Ledger) -> str:
    """Does a signal order inputs by difficulty?"""
    rows = []
    for training, signals in ORDERING.items():
        key = f"mano/{training}"
        for signal, paper in signals.items():
            if key in ledger.study["numbers"]:
                ours = ledger.number(key, signal, "ordering")
                text = MISSING if ours is None else ours.text() + meets((paper, None), ours)
                rows.append([ledger.label(key), readout_label(signal), f"{paper:.2f}", text])
    return table(("training", "signal", "paper", "here"), rows)


def parity(ledger: Ledger) -> str:
    """Accuracy and mean loops at the operating point."""
    rows = []
    for key in ledger.settings("parity", six=True) or ledger.settings("parity"):
        training = key.partition("/")[2]
        gated = ledger.study["settings"][key]["objective"] == "joint"
        readout, accuracy, depth = PARITY.get(training, ("native" if gated else "top1", None, None))
        paper = MISSING if accuracy is None else f"{percent(accuracy)} at {loops(depth)}"
        rows.append(
            [
                ledger.label(key),
                readout_label(readout),
                paper,
                ledger.text(key, readout, "accuracy@final"),
                ledger.text(key, readout, "depth@final")
                + meets(
                    None if depth is None else (depth, None),
                    ledger.number(key, readout, "depth@final"),
                ),
                ledger.text(key, "fixed", "final_accuracy"),
            ]
        )
    head = ("training", "readout", "paper, % at loops", "accuracy, %", "loops", "at T, %")
    return table(head, rows)


def frozen(ledger: Ledger, metric: str) -> str:
    """A number of the gates fitted on each of the six frozen trajectories."""
    keys = ledger.settings("mano", six=True)
    gates = sorted({r for key in keys for r in ledger.readouts(key) if "-" in r and _fitted(r)})
    rows = [
        [
            ledger.label(key),
            *(
                ledger.text(key, r, metric)
                for r in (best_signal(ledger, key) or "", "native", *gates)
            ),
        ]
        for key in keys
    ]
    return table(("trajectory", "best signal", "own gate", *map(readout_label, gates)), rows)


def _fitted(readout: str) -> bool:
    return readout.partition("-")[0] in ("linear", "mlp", "boosted")


def collapse(ledger: Ledger) -> str:
    """Each joint gate by its beta: how many examples leave at the commonest loop."""
    rows = []
    for gate in ("linear", "mlp"):
        for prior in ("uniform", "geometric"):
            for key in sorted(
                ledger.settings("mano", gate=gate, prior=prior),
                key=lambda k: ledger.study["settings"][k]["beta"],
            ):
                n = ledger.study["settings"][key]["finished"]
                rows.append(
                    [
                        ledger.label(key),
                        ledger.text(key, "native", "commonest-exit"),
                        ledger.text(key, "native", "modal-exit@0.5"),
                        ledger.text(key, "native", "modal-exit"),
                        ledger.text(key, "native", "depth@final"),
                        f"{ledger.finding('gate-collapsed', key)}/{n}",
                    ]
                )
    head = (
        *("training", "chosen on val, %", "at 1/2, %", "mean over probabilities, %"),
        *("mean loops", "found collapsed"),
    )
    return table(head, rows)


def later_states(ledger: Ledger) -> str:
    """Forced exits of the trajectories of fixed priors: does more depth hurt?"""
    keys = [
        *ledger.settings("mano", objective="final"),
        *ledger.settings("mano", objective="fixed"),
    ]
    last = ledger.loops("mano")
    rows = [
        [
            ledger.label(key),
            *(ledger.text(key, "fixed", f"accuracy@loop={t}") for t in range(1, last + 1)),
            ledger.text(key, "fixed", "overthinking/beyond-luck", 2),
        ]
        for key in keys
    ]
    head = ("training", *(f"loop {t}, %" for t in range(1, last + 1)), "lost again, %")
    return table(head, rows)


PARTS = ("trajectory_regret", "unexposed", "learnable", "misfit", "regret")


def regret(ledger: Ledger, unit: str) -> str:
    """The split of every joint gate's regret: `integrated` (accuracy) or `loops`."""
    rows = [
        [
            f"{task}: {ledger.label(key)}",
            *(ledger.text(key, "native", f"{part}/{unit}", 2) for part in PARTS),
        ]
        for task in ledger.study["sizes"]
        for key in ledger.settings(task, objective="joint")
    ]
    head = ("model", "trajectory", "unexposed", "learnable", "misfit", "all")
    return table(head, rows)


def longer(ledger: Ledger, task: str) -> str:
    """Beyond the trained difficulty: accuracy of the last loop by difficulty, and what signals
    do."""
    keys = [key for key in ledger.study["numbers"] if key.startswith(f"{task}-longer/")]
    if not keys:
        return ""
    levels = sorted(
        {
            float(metric.partition("=")[2])
            for key in keys
            for metric in ledger.study["numbers"][key].get("fixed", {})
            if metric.startswith("accuracy@difficulty=")
        }
    )
    rows = []
    for key in keys:
        signal = best_signal(ledger, key)
        rows.append(
            [
                ledger.label(key),
                *(ledger.text(key, "fixed", f"accuracy@difficulty={d:g}") for d in levels),
                ledger.text(key, signal or "", "depth@final"),
                ledger.text(key, "entropy", "ordering"),
                ledger.text(key, "hidden_displacement", "ordering"),
            ]
        )
    head = (
        *("training", *(f"{d:g}" for d in levels)),
        *("loops of the best signal", "entropy's ordering", "displacement's"),
    )
    return table(head, rows)
