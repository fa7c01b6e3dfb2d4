"""docs/study.md: every number and every judgement on it comes from study.json."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studies import tables
from studies.claims import OPEN, VERDICTS, Told, claims_table, differing, weigh
from studies.drawings import figures
from studies.ledger import ENTRY, Ledger
from studies.paper import HEADLINE, LOOPS, SOURCE, TARGETS
from studies.weak_points import weak_points

from trajdiag.errors import ConfigError

FIGURES = {
    "study-depth.svg": "Accuracy by mean exit depth, a panel a trajectory",
    "study-regret.svg": "The regret of every jointly trained gate, split into its parts",
    "study-states.svg": "Accuracy of each loop by prior, and where gates leave by beta",
}


def write_page(study: Mapping[str, Any], folder: Path) -> Path:
    """Write study.md and figures/study-*.svg into `folder`; gives the page's path."""
    for name, text in files(study).items():
        write_whole(folder / name, text)
    return folder / "study.md"


def write_whole(path: Path, text: str) -> None:
    """Put the text into a file, wholly or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    partial.write_text(text, encoding="utf-8", newline="\n")
    partial.replace(path)


def read_study(path: Path) -> dict[str, Any]:
    """A study's JSON. Raises ConfigError where there is none."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"there is no {path} to write the page from; run scripts/study first"
        ) from None
    except ValueError:
        found = None
    if not _is_study(found):
        raise ConfigError(f"{path} holds no study; run scripts/study again")
    return found


def _is_study(found: Any) -> bool:
    if not isinstance(found, dict) or not {"sizes", "settings", "numbers", "curves"} <= set(found):
        return False
    entries = (e for of in found["numbers"].values() for r in of.values() for e in r.values())
    return all(len(entry) == ENTRY for entry in entries)


def files(study: Mapping[str, Any]) -> dict[str, str]:
    """The text of every file by its path; the same study gives the same bytes."""
    ledger = Ledger(study)
    drawn = figures(ledger)
    page = _page(ledger, set(drawn))
    return {"study.md": page, **{f"figures/{name}": text for name, text in drawn.items()}}


def _page(ledger: Ledger, drawn: set[str]) -> str:
    told = weigh(ledger)
    theirs = [each for each in told if not each.ours]
    ours = [each for each in told if each.ours]
    figure = {
        name: f"![{alt}](figures/{name})" if name in drawn else "" for name, alt in FIGURES.items()
    }
    parts = [
        "# The study",
        f"{SOURCE} trains looped Transformers on MANO and parity and reads them by gates and by "
        "post-hoc rules. This page sets its tables beside the same experiments at the scale "
        f"`{ledger.study['scale']}`. `scripts/study --scale {ledger.study['scale']}` runs it all "
        "and writes this page; `scripts/study --write` writes it again from `study.json`, without "
        "running anything. Numbers, and the judgements on claims, come from there by rule. The "
        "paper’s cells of released Ouro models, and their latencies, need their weights and are "
        "not repeated; [models.md](models.md) has the commands.",
        _failed(ledger),
        f"{_counted('claims in the paper’s own measures', theirs)} "
        f"{_counted('that it makes in words or plots, in measures chosen here,', ours)}",
        "## What was run",
        _sizes(ledger),
        "## How to read the numbers",
        _reading(),
        "## What agrees and what does not",
        "A claim is tested over seeds, on the inputs as they were drawn: by Student's t of the "
        "differences where both numbers are of the same models, else by Welch's. Below 5%, by "
        "Holm's correction over all claims, the study *agrees* or *disagrees*; else, and where a "
        "seed misses a target, it *cannot tell*. That a difference stays within a margin is tested "
        "from both sides (Schuirmann 1987). A collapse is counted: in all seeds, in none, or it "
        "*cannot tell*. The difference is the first number less the second, with its interval of "
        "95% over seeds, beside the paper’s own; of depths it is in loops, else in points of "
        "accuracy or in ρ.",
        "In the paper’s own measures:",
        claims_table(theirs),
        "What the paper says in words or plots, in measures chosen here:",
        claims_table(ours),
        _uncorrected(told),
        _differing(ledger, told),
        "## Loops to a target accuracy, MANO",
        f"{_loops(ledger)} ≈ marks an interval that meets the "
        "paper's mean and standard deviation. Of the joint gates the beta is the one whose native "
        f"gate has the largest area on val{_at_edge(ledger)}. {_not_applicable(ledger)}",
        tables.headline(ledger),
        figure["study-depth.svg"],
        "*A curve is the mean over seeds of the accuracy at equal depth; a dot is the mean of "
        "their operating points, and lies off the curve where the seeds step at different depths.*",
        "### All settings",
        "Loops at the operating point: the least mean depth, chosen on val, within half a point "
        "of the last loop's accuracy.",
        tables.every_setting(ledger, "mano"),
        "## Do signals order inputs by difficulty?",
        "Signed Spearman of the operation count and the signal's means over it, averaged over "
        "loops; positive: harder inputs look less ready. ≈ marks a range that holds the paper’s "
        f"number. There are {_levels(ledger)} levels of difficulty here and 10 in the paper: of "
        "few levels more signals reach 1.",
        tables.ordering(ledger),
        "## Parity",
        "The paper’s readout on fixed geometric is taken to be top-1 too. ≈ marks an interval that "
        "holds the paper’s loops.",
        tables.parity(ledger),
        "## Gates fitted on frozen trajectories",
        "Area, %: mean test accuracy over all budgets of mean depth. The paper's comparison is a "
        "plot: fresh gates succeed on the trajectories of fixed priors, and only track the native "
        "gate on those trained jointly. Which trajectories its six are is not said where it was "
        "read; these are fixed, linear gate and MLP gate, each with both priors. `ponder` is "
        "PonderNet’s objective with the frozen losses, `next` marginal utility in its forward "
        "reading: is one more loop worth it?",
        tables.frozen(ledger, "area"),
        "Their loops at the operating point:",
        tables.frozen(ledger, "depth@final"),
        "## Gates under large beta",
        "The share of test examples that leave at the commonest loop: at the native gate's "
        "operating point, at an exit probability of 1/2, and in the mean over probabilities from "
        ".05 to .95, which the report calls a collapse from 95% on, where examples need several "
        "loops.",
        tables.collapse(ledger),
        figure["study-states.svg"],
        "## Later states",
        "Accuracy when every example is forced out at a loop. *Lost again*: right at some loop and "
        "wrong at the last, beyond luck.",
        tables.later_states(ledger),
        "## The regret of the jointly trained gates",
        "What the model's own gate loses against hindsight on the task's best trajectory, in "
        "points of accuracy over all budgets ([definitions](statistics.md#regret)). "
        f"{_references(ledger)} A setting that holds the reference itself has no trajectory part.",
        tables.regret(ledger, "integrated"),
        "In loops, at the accuracy that all models of the task reach:",
        tables.regret(ledger, "loops"),
        figure["study-regret.svg"],
        "## Beyond the trained difficulty",
        "Accuracy of the last loop in %, by difficulty. Signals only: no gate was fitted there. "
        "The ordering is that of the table above.",
        *_longer(ledger),
        "## What the paper leaves open",
        weak_points(ledger, told),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _counted(what: str, told: Sequence[Told]) -> str:
    count = {verdict: sum(t.verdict == verdict for t in told) for verdict in VERDICTS}
    return (
        f"Of {len(told)} {what} the study agrees with {count[VERDICTS[0]]}, disagrees with "
        f"{count[VERDICTS[1]]}, cannot tell of {count[VERDICTS[2]]}, and has no numbers for "
        f"{count[VERDICTS[3]]}."
    )


def _uncorrected(told: Sequence[Told]) -> str:
    """How many of what cannot be told the seeds alone would tell."""
    open_ = [each for each in told if each.verdict == OPEN]
    clear = [
        each
        for each in open_
        if each.weighed.difference is not None
        and each.weighed.difference[1] * each.weighed.difference[2] > 0
    ]
    if not clear:
        return ""
    right = sum(each.weighed.as_claimed for each in clear)
    tested = sum(each.p is not None for each in told)
    return (
        f"Of the {len(open_)} that cannot be told, {len(clear)} have an interval clear of 0 before "
        f"the correction for {tested} tests, {right} of them as the paper says: seeds are few."
    )


def _loops(ledger: Ledger) -> str:
    here = ledger.loops("mano")
    return f"T is {LOOPS} in the paper and {'here too' if here == LOOPS else f'{here} here'}."


def _differing(ledger: Ledger, told: Sequence[Told]) -> str:
    found = differing(ledger, told)
    if not found:
        return "Nothing that was measured here contradicts the paper."
    lines = "\n".join(f"- {text}" for text in found)
    return f"What differs from the paper, plainly:\n\n{lines}"


def _at_edge(ledger: Ledger) -> str:
    """Which of the best betas are the largest that were run."""
    found = [
        ledger.label(best)
        for gate in ("linear", "mlp")
        for prior in ("uniform", "geometric")
        if (best := ledger.best_beta("mano", gate, prior))
        and best == ledger.largest_beta("mano", gate, prior)
    ]
    return f"; it is the largest that was run of {'; '.join(found)}" if found else ""


def _not_applicable(ledger: Ledger) -> str:
    """How many of the paper's n/a cells every seed reaches here."""
    cells = [
        ledger.number(tables.key_of(ledger, "mano", line.training), readout, f"depth@{target}")
        for line in HEADLINE
        for readout in line.readouts
        for target, paper in zip(TARGETS, line.depths, strict=True)
        if paper is None
    ]
    known = [cell for cell in cells if cell is not None]
    reached = sum(cell.reached == cell.n for cell in known)
    return f"Of the paper’s {len(known)} cells without a number all seeds reach {reached} here."


def _levels(ledger: Ledger) -> int:
    size = ledger.study["sizes"]["mano"]
    return size["max_difficulty"] - size["min_difficulty"] + 1 if size else 0


def _references(ledger: Ledger) -> str:
    """Which runs the others are held against."""
    found = [
        f"of {task} {ledger.label(key)}, seed {seed}"
        for task in ledger.study["sizes"]
        for key, seed in [ledger.reference(task) or ("", "")]
        if key
    ]
    if not found:
        return ""
    return (
        f"The reference is the run whose oracle, luck taken off, is best: {'; '.join(found)}. The "
        "best of many runs flatters itself, so that part is the upper end."
    )


def _longer(ledger: Ledger) -> list[str]:
    found = []
    for task in ledger.study["sizes"]:
        text = tables.longer(ledger, task)
        if text:
            trained = ledger.study["sizes"][task]["max_difficulty"]
            found.append(f"{task}, trained up to {trained}:\n\n{text}")
    return found


def _failed(ledger: Ledger) -> str:
    failed = ledger.study["failed"]
    if not failed:
        return ""
    lines = "\n".join(f"- {name}: {why}" for name, why in failed.items())
    return f"**{len(failed)} runs failed, and their seeds are missing below:**\n\n{lines}"


def _sizes(ledger: Ledger) -> str:
    rows = []
    for task, size in ledger.study["sizes"].items():
        if not size:
            continue
        settings = [s for s in ledger.study["settings"].values() if s["task"] == task]
        examples = " / ".join(f"{size['examples'].get(s, 0):,}" for s in ("fit", "val", "test"))
        what = f"mod {size['modulus']}, " if "modulus" in size else "length "
        what += f"{size['min_difficulty']} to {size['max_difficulty']}"
        what += " operations" if "modulus" in size else ""
        rows.append(
            [
                task,
                what,
                f"{size['loops']}",
                f"{size['layers']} x {size['d_model']}",
                f"{size['steps']:,} x {size['batch']:,}",
                f"{len(settings)}",
                f"{sum(s['finished'] for s in settings)}/{sum(s['seeds'] for s in settings)}",
                examples,
            ]
        )
    head = ("task", "inputs", "T", "layers x width", "steps x rows", "settings", "runs")
    text = tables.table((*head, "examples fit / val / test"), rows)
    aids = sorted(
        task for task, size in ledger.study["sizes"].items()
        if size and (size["dense"] or size["curriculum"])
    )  # fmt: skip
    differs = [
        "The block is Ouro's (no biases, four RMSNorms a layer, rotary positions, SwiGLU, the "
        "final norm fed back), not the paper's, and training rows are drawn afresh."
    ]
    if aids:
        differs.append(
            f"On {' and '.join(aids)} two things that the paper does not have make models of this "
            "size learn: labels for the values of subexpressions or prefixes, which fade out by "
            "80% of the steps, and a curriculum of difficulty. They shape the trajectories."
        )
    about = ledger.study["about"]
    spent = sum(ledger.study["timings"]["cpu_seconds"].values())
    took = f"Training, extraction and fitting took {spent / 60:.0f} CPU-minutes." if spent else ""
    return "\n\n".join(part for part in (about, text, " ".join(differs), took) if part)


def _reading() -> str:
    return (
        "- `2.10 [1.90, 2.40]`: a mean over seeds, and the interval of 95% that holds it for other "
        "seeds and inputs ([how](statistics.md#training-seeds)). `3/3` says in how many seeds a "
        "target is reached; where some miss it, the number is their median, a miss infinitely "
        "deep, and has no interval.\n"
        "- `93.1 (92.0–94.4)`: a mean over seeds, with the least and the greatest of them.\n"
        "- Thresholds are chosen on val and measured on test. The numbers' definitions are in "
        "[statistics.md](statistics.md)."
    )
