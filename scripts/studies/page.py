"""docs/study.md: every number and every judgement on it comes from study.json."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studies import tables
from studies.claims import DISAGREES, VERDICTS, Told, claims_table, weigh
from studies.drawings import figures
from studies.ledger import ENTRY, Ledger
from studies.paper import SOURCE
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
    count = {verdict: sum(t.verdict == verdict for t in told) for verdict in VERDICTS}
    figure = {
        name: f"![{alt}](figures/{name})" if name in drawn else "" for name, alt in FIGURES.items()
    }
    parts = [
        "# The study",
        f"{SOURCE} trains looped Transformers on MANO and parity and reads them by gates and by "
        "post-hoc rules. This page sets its tables beside the same experiments at the scale "
        f"`{ledger.study['scale']}`. `scripts/study --scale {ledger.study['scale']}` runs it all "
        "and writes this page; `scripts/study --write` writes it again from `study.json`, without "
        "running anything. No number or judgement here is typed by hand.",
        _failed(ledger),
        f"Of {len(told)} claims of the paper the study agrees with {count[VERDICTS[0]]}, disagrees "
        f"with {count[VERDICTS[1]]}, cannot tell of {count[VERDICTS[2]]}, and has no numbers for "
        f"{count[VERDICTS[3]]}.",
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
        "*cannot tell*.",
        claims_table(told),
        _differing(told),
        _effect(ledger),
        "## Loops to a target accuracy, MANO",
        f"T is 6 in the paper and {ledger.loops('mano')} here. ≈ marks an interval that meets the "
        "paper's mean and standard deviation. Of the joint gates the beta is the one whose native "
        "gate has the largest area on val.",
        tables.headline(ledger),
        figure["study-depth.svg"],
        "### All settings",
        "Loops at the operating point: the least mean depth, chosen on val, within half a point "
        "of the last loop's accuracy.",
        tables.every_setting(ledger, "mano"),
        "## Do signals order inputs by difficulty?",
        "Signed Spearman of the operation count and the signal's means over it, averaged over "
        "loops; positive: harder inputs look less ready.",
        tables.ordering(ledger),
        "## Parity",
        tables.parity(ledger),
        "## Gates fitted on frozen trajectories",
        "Area, %: mean test accuracy over all budgets of mean depth. The paper's comparison is a "
        "plot: fresh gates succeed on the trajectories of fixed priors, and only track the native "
        "gate on those trained jointly. Which trajectories its six are is not said where it was "
        "read; these are fixed, linear gate and MLP gate, each with both priors.",
        tables.frozen(ledger),
        "Their loops at the operating point:",
        tables.frozen_depths(ledger),
        "## Gates under large beta",
        "The share of test examples that leave at the commonest loop of the native gate's "
        "operating point, and in how many seeds the report finds the gate collapsed.",
        tables.collapse(ledger),
        figure["study-states.svg"],
        "## Later states",
        "Accuracy when every example is forced out at a loop. *Lost again*: right at some loop and "
        "wrong at the last, beyond luck.",
        tables.later_states(ledger),
        "## The regret of the jointly trained gates",
        "What the model's own gate loses against hindsight on the task's best trajectory, in "
        "points of accuracy over all budgets ([definitions](statistics.md#regret)). A setting "
        "that holds the task's reference itself has no trajectory part.",
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


def _differing(told: Sequence[Told]) -> str:
    differing = [each for each in told if each.verdict == DISAGREES]
    if not differing:
        return "Nothing that was measured here contradicts the paper."
    lines = "\n".join(f"- not so: {each.claim}; {each.numbers}." for each in differing)
    return f"What differs from the paper, plainly:\n\n{lines}"


def _effect(ledger: Ledger) -> str:
    text = tables.effect(ledger)
    return text and (
        "### How large the main effect is\n\nLoops to 95% that the native gate of a joint training "
        "takes beyond the logit margin on the fixed prior: differences of the numbers below, which "
        f"the claims above test.\n\n{text}"
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
