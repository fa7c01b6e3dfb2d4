"""What the paper leaves open, each answered with numbers of the study."""

from collections import Counter
from collections.abc import Sequence

from studies.claims import OPEN, Told
from studies.ledger import LONGER, Ledger, table
from studies.paper import HEADLINE, SPEEDUP, TARGETS
from studies.tables import PARTS, depth_text, key_of

from trajdiag.reporting.names import readout_label
from trajdiag.reporting.numerals import loops, percent, plain

Cell = tuple[str, str, int]
"""Key, readout and target of a cell of the headline table."""


def weak_points(ledger: Ledger, told: Sequence[Told]) -> str:
    """All of them, as Markdown."""
    sections = (
        ("Seeds that miss a target are dropped", _dropped(ledger)),
        ("Depths are chosen on the test curve", _chosen_on_test(ledger)),
        ("Single runs, no intervals", _intervals(ledger, told)),
        ("Attribution by eye", _attribution(ledger)),
        ("Latency estimated, not timed", _latency(ledger)),
        ("Hindsight that is luck", _luck(ledger)),
        ("Scores that assume full-depth context", _context(ledger)),
    )
    return "\n\n".join(
        f"### {number}. {title}\n\n{text}" for number, (title, text) in enumerate(sections, 1)
    )


def _cells(ledger: Ledger) -> list[Cell]:
    found = []
    for line in HEADLINE:
        key = key_of(ledger, "mano", line.training)
        if key in ledger.study["numbers"]:
            found += [(key, r, target) for r in line.readouts for target in TARGETS]
    return found


def _dropped(ledger: Ledger) -> str:
    rows, partly = [], 0
    for key, readout, target in _cells(ledger):
        kept = ledger.number(key, readout, f"depth@{target}/if-reached")
        if kept is None or kept.reached in (0, kept.n):
            continue
        partly += 1
        rows.append(
            [
                f"{ledger.label(key)}, {readout_label(readout)}, {target}%",
                loops(kept.value),
                ledger.text(key, readout, f"depth@{target}", counted=True),
            ]
        )
    mean = depth_text(HEADLINE[0].depths[0])
    said = (
        f"The paper's {mean} loops of a fixed depth over 3 seeds cannot be a mean of three whole "
        "numbers: seeds that missed the target were left out. Here how many reached it stands "
        "beside every number; where some miss, it is the median over seeds, a miss infinitely "
        f"deep. Of {len(_cells(ledger))} cells, {partly} are reached by some seeds only."
    )
    if not rows:
        return said
    head = ("cell", "mean of those that reach it", "median, misses infinite")
    return f"{said}\n\n{table(head, rows)}"


def _chosen_on_test(ledger: Ledger) -> str:
    rows, gaps = [], []
    for key, readout, target in _cells(ledger):
        val = ledger.number(key, readout, f"depth@{target}/if-reached")
        test = ledger.number(key, readout, f"depth@{target}/test-chosen")
        accuracy = ledger.number(key, readout, f"accuracy@{target}")
        if val is None or test is None or accuracy is None:
            continue
        if val.value is None or test.value is None or val.reached < val.n or test.reached < test.n:
            continue
        gaps.append(val.value - test.value)
        rows.append(
            [
                f"{ledger.label(key)}, {readout_label(readout)}, {target}%",
                loops(val.value),
                loops(test.value),
                accuracy.text(2),
            ]
        )
    said = (
        "Thresholds here are chosen on val and measured on test. Choosing on test reports another "
        "depth, and claims an accuracy that a threshold chosen beforehand need not have."
    )
    if not rows:
        return f"{said} No cell is reached by all seeds both ways."
    less = sum(gap > 0 for gap in gaps)
    largest = max(gaps, key=abs)
    said += (
        f" Of {len(rows)} cells that all seeds reach both ways, choosing on test gives the lesser "
        f"depth in {less}; the largest difference is {loops(largest)} loops."
    )
    head = ("cell", "chosen on val", "chosen on test", "test accuracy of val's choice, %")
    return f"{said}\n\n{table(head, rows)}"


def _intervals(ledger: Ledger, told: Sequence[Told]) -> str:
    open_ = sum(each.verdict == OPEN for each in told)
    finished = {key: s["finished"] for key, s in ledger.study["settings"].items()}
    widths = [
        found.ends[1] - found.ends[0]
        for key in finished
        if (found := ledger.number(key, "entropy", "depth@final")) and found.ends and found.n > 1
    ]
    width = max(widths, default=None)
    return (
        f"Means over seeds have an interval or a range, of {_span(finished.values())} seeds a "
        f"setting. The widest interval of entropy's loops at its operating point is "
        f"{loops(width)} loops wide. Of the {len(told)} claims above, {open_} cannot be told."
    )


def _span(counts: object) -> str:
    values = sorted(set(counts))  # type: ignore[call-overload]
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


def _attribution(ledger: Ledger) -> str:
    """In how many joint settings each part of the regret is shown, and is the largest."""
    said = (
        "The regret split above puts a number and an interval on each part of what a jointly "
        "trained gate loses."
    )
    shown, largest, settings = Counter[str](), Counter[str](), 0
    for task in ledger.study["sizes"]:
        for key in ledger.settings(task, objective="joint"):
            parts = {
                part: found
                for part in PARTS[:-1]
                if (found := ledger.number(key, "native", f"{part}/integrated")) and found.value
            }
            if not parts:
                continue
            settings += 1
            shown.update(part for part, found in parts.items() if found.low and found.low > 0)
            largest[max(parts, key=lambda part: parts[part].value or 0.0)] += 1
    if not settings:
        return f"{said} No setting has one."
    words = {part: part.replace("_regret", "") for part in PARTS}
    rows = [[words[part], f"{shown[part]}", f"{largest[part]}"] for part in PARTS[:-1]]
    head = (f"part, of {settings} joint settings", "interval above 0 in", "largest in")
    return f"{said}\n\n{table(head, rows)}"


def _latency(ledger: Ledger) -> str:
    full, exit_, measured = SPEEDUP
    rows = []
    for (store, readout, batch), by in _live(ledger).items():
        rows.append(
            [
                f"{store}, {readout_label(readout)}",
                "batches" if batch == "batched" else "one at a time",
                loops(by.get("depth")),
                plain(by.get("speedup/ideal")),
                plain(by.get("speedup")),
            ]
        )
    said = (
        f"Loops are not time: the paper's own timing turns {full:g} to {exit_:g} loops into "
        f"{measured:g}x, where loops promise {full / exit_:.2f}x. Below, readouts are run live, "
        "loop by loop, beside full depth on the machine that ran the study."
    )
    head = ("model and readout", "run", "mean loops", "loops promise, x", "measured, x")
    return f"{said}\n\n{table(head, rows)}" if rows else f"{said} Nothing was run live."


def _live(ledger: Ledger) -> dict[tuple[str, str, str], dict[str, float | None]]:
    found: dict[tuple[str, str, str], dict[str, float | None]] = {}
    for row in ledger.study["timings"]["live"]:
        key = row["store"], row["readout"], row["batch"]
        found.setdefault(key, {"n": row["n"]})[row["metric"]] = row["value"]
    return found


def _luck(ledger: Ledger) -> str:
    rows = []
    for key in ledger.study["numbers"]:
        setting = ledger.study["settings"].get(key)
        if LONGER in key or setting is None or setting["objective"] == "joint":
            continue
        last = ledger.loops(setting["task"])
        rows.append(
            [
                f"{setting['task']}: {ledger.label(key)}",
                ledger.text(key, "fixed", "final_accuracy"),
                ledger.text(key, "oracle", f"accuracy@depth={last}"),
                ledger.text(key, "oracle", "area", 2),
                ledger.text(key, "oracle", "area/by-luck", 2),
                ledger.text(key, "oracle-stays", "area", 2),
            ]
        )
    guess = 1 - 0.5**6
    said = (
        "Right at some loop is cheap: pure guessing between two classes is right at one of six "
        f"loops in {percent(guess, 0)}% of examples. The oracle is therefore held against a null "
        "in which the wrong answers meet other examples' targets, and against the oracle that "
        "counts only what stays right."
    )
    head = (
        *("model", "right at T, %", "right at some loop, %", "oracle's area, %"),
        *("by luck, %", "stays right, %"),
    )
    return f"{said}\n\n{table(head, rows)}"


def _context(ledger: Ledger) -> str:
    differing = [
        f"{plain(by.get('differing/depth'))} of {by['n']:,} examples leave at another loop and "
        f"{plain(by.get('differing/prediction'))} are answered otherwise ({store}, "
        f"{readout_label(readout)}, "
        f"{'in batches' if batch == 'batched' else 'one at a time'})"
        for (store, readout, batch), by in _live(ledger).items()
    ]
    said = (
        "Offline scores take each loop's states from a run in which every token ran all loops. In "
        "these tasks a row has one decision, and all its tokens leave with it, so the assumption "
        "holds exactly; in text it does not."
    )
    return f"{said} Live against offline: {'; '.join(differing)}." if differing else said
