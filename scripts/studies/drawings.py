"""The study's figures, in the report's style."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from studies.ledger import Ledger, Number
from studies.tables import best_signal

from trajdiag.reporting import curves
from trajdiag.reporting.axes_svg import panel_of
from trajdiag.reporting.canvas import blank, corner, loop_axis, percent_ticks, style
from trajdiag.reporting.curves import Curve
from trajdiag.reporting.names import readout_label
from trajdiag.reporting.numerals import loops, metric_text, percent
from trajdiag.reporting.palette import light, readout_role
from trajdiag.reporting.part_names import REGRET_PARTS, part_label
from trajdiag.reporting.regret_bars import Amount, Regret, height_of, regrets
from trajdiag.reporting.svg import WIDTH, Figure, Key, Panel, Row, standalone

GATES = {"linear": "linear", "mlp": "MLP"}
PRIORS = {"uniform": "-", "geometric": "--"}
"""How lines of gates with each prior are dashed."""


def figures(ledger: Ledger) -> Mapping[str, str]:
    """SVG documents by file name; those without numbers are left out."""
    with style():
        drawn = (depth_figure(ledger), regret_figure(ledger), states_figure(ledger))
    return {f"study-{f.name}.svg": standalone(f) for f in drawn if f.panels}


def depth_figure(ledger: Ledger) -> Figure:
    """Accuracy by mean depth, on each of the six trajectories."""
    rows = []
    for task in ledger.study["sizes"]:
        keys = ledger.settings(task, six=True) or ledger.settings(task)
        panels = tuple(_depth_panel(ledger, key) for key in keys)
        rows.append(Row(title=task, panels=panels))
    return Figure(
        name="depth",
        title="Accuracy by mean exit depth, mean over seeds",
        caption="",
        rows=tuple(row for row in rows if row.panels),
        columns=3,
    )


def _depth_panel(ledger: Ledger, key: str) -> Panel:
    signal = best_signal(ledger, key) or "entropy"
    shown = [signal, "native", "mlp-ponder", "fixed", "oracle"]
    most = ledger.loops(key.partition("/")[0])
    drawn = {}
    for name in shown:
        line = _forced(ledger, key) if name == "fixed" else ledger.curve(key, name)
        if line:
            drawn[name] = Curve(
                label=readout_label(name),
                role=readout_role(name),
                depth=np.linspace(1, most, len(line)),
                accuracy=np.array(line),
                chosen=_chosen(ledger, key, name),
                main=True,
            )
    lowest = min((c.accuracy.min() for c in drawn.values()), default=0.0)
    ax = curves.frontier(
        [curve for name, curve in drawn.items() if name not in ("fixed", "oracle")],
        drawn.get("fixed"),
        [drawn["oracle"]] if "oracle" in drawn else [],
        last=most,
        low=max(0.0, float(np.floor(10 * lowest - 0.2) / 10)),
        tall=180,
    )
    alt = "; ".join(
        f"{c.label}: "
        + ", ".join(
            f"{percent(a)}% at {loops(d)}"
            for d, a in zip(c.depth, c.accuracy, strict=True)
            if float(d).is_integer()
        )
        for c in drawn.values()
    )
    return panel_of(ax, name=f"study-{key}", title=ledger.label(key), alt=alt)


def _forced(ledger: Ledger, key: str) -> list[float]:
    """The accuracy of each loop."""
    found: list[float] = []
    while number := ledger.number(key, "fixed", f"accuracy@loop={len(found) + 1}"):
        if number.value is None:
            break
        found.append(number.value)
    return found


def _by_loop(ledger: Ledger, key: str) -> list[Number]:
    """The accuracy of each loop, with its range over seeds."""
    found: list[Number] = []
    while number := ledger.number(key, "fixed", f"accuracy@loop={len(found) + 1}"):
        found.append(number)
    return found


def _range(line: Sequence[Number]) -> tuple[list[float], list[float]]:
    """Lower and upper ends."""
    ends = [number.ends or (np.nan, np.nan) for number in line]
    return [low for low, _ in ends], [high for _, high in ends]


def _shade(at: int, of: int) -> dict[str, Any]:
    """How the line of a setting is drawn: the first, whose last loop alone was trained, is dashed;
    the others run from light to dark."""
    if at == 0:
        return {"color": light("ink"), "ls": ":"}
    return {"color": str(0.7 - 0.7 * (at - 1) / max(of - 2, 1)), "ls": "-"}


def _chosen(ledger: Ledger, key: str, readout: str) -> tuple[float, float] | None:
    depth, accuracy = (ledger.number(key, readout, f"{w}@final") for w in ("depth", "accuracy"))
    if depth is None or accuracy is None or depth.value is None or accuracy.value is None:
        return None
    return depth.value, accuracy.value


def regret_figure(ledger: Ledger) -> Figure:
    """The split of every joint gate's regret, over all budgets."""
    panels = []
    for task in ledger.study["sizes"]:
        blocks = [
            block
            for key in ledger.settings(task, objective="joint")
            if (block := _regret(ledger, key))
        ]
        if blocks:
            panels.append(_regret_panel(task, blocks))
    return Figure(
        name="regret",
        title="What the jointly trained gates lose against hindsight",
        caption="",
        rows=(Row(title="", panels=tuple(panels)),),
        keys=tuple(Key(role=role, label=part_label(part)) for part, role in REGRET_PARTS.items()),
    )


def _regret(ledger: Ledger, key: str) -> Regret | None:
    def amount(part: str, role: str) -> Amount | None:
        found = ledger.number(key, "native", f"{part}/integrated")
        if found is None or found.value is None:
            return None
        return Amount(label=role, role=role, value=found.value, low=found.low, high=found.high)

    total = amount("regret", "ink")
    if total is None:
        return None
    parts = [amount(part, role) for part, role in REGRET_PARTS.items()]
    return Regret(
        label=ledger.label(key).replace(" gate,", "").replace(", β", " β").replace("etric", "."),
        under="native gate, mean over seeds",
        unit="points",
        total=total,
        parts=tuple(part for part in parts if part),
    )


def _regret_panel(task: str, blocks: Sequence[Regret]) -> Panel:
    def text(value: float) -> str:
        return metric_text("share", value, 2)

    edges = {"left": 6.0, "right": 14.0, "top": 2.0, "bottom": 22.0}
    ax = blank(WIDTH, height_of(blocks) + edges["top"] + edges["bottom"], **edges)
    regrets(ax, blocks, text)
    alt = "; ".join(
        f"{block.label}: {text(block.total.value)} points, of which "
        + ", ".join(f"{part.label} {text(part.value)}" for part in block.parts)
        for block in blocks
    )
    return panel_of(ax, name=f"study-regret-{task}", title=f"{task}: accuracy, points", alt=alt)


def states_figure(ledger: Ledger) -> Figure:
    """Accuracy of forced exits by prior, and where large betas make gates leave."""
    panels = [_states_panel(ledger), _beta_panel(ledger)]
    return Figure(
        name="states",
        title="Later states under steep priors, and gates under large beta",
        caption="",
        rows=(Row(title="", panels=tuple(panel for panel in panels if panel)),),
    )


def _states_panel(ledger: Ledger) -> Panel | None:
    keys = [
        *ledger.settings("mano", objective="final"),
        *ledger.settings("mano", objective="fixed"),
    ]
    lines = {key: line for key in keys if (line := _by_loop(ledger, key))}
    if not lines:
        return None
    ax = blank(WIDTH, 220, left=36, right=12, top=18, bottom=36)
    low = np.floor(10 * min(n.low or 0.0 for line in lines.values() for n in line)) / 10
    _plain_axes(ax, float(low))
    last = max(map(len, lines.values()))
    loop_axis(ax, last)
    ax.set_xlim(0.75, last + 0.25)
    for at, (key, line) in enumerate(lines.items()):
        beside = np.arange(1, len(line) + 1) + 0.03 * (at - len(lines) / 2)
        look = _shade(at, len(lines))
        ax.vlines(beside, *_range(line), color=look["color"], alpha=0.5, linewidth=2.5)
        values = [n.value for n in line]
        ax.plot(beside, values, marker="o", ms=3, lw=1.2, **look, label=ledger.label(key))
    ax.legend(loc="lower right", fontsize=10, frameon=False)
    ax.set_xlabel("loop")
    alt = "; ".join(
        f"{ledger.label(key)}: {', '.join(percent(n.value) for n in line)}% by loop"
        for key, line in lines.items()
    )
    return panel_of(ax, name="study-states", title="forced exits, MANO", alt=alt)


def _beta_panel(ledger: Ledger) -> Panel | None:
    lines = {}
    for gate in GATES:
        for prior in PRIORS:
            points = [
                (ledger.study["settings"][key]["beta"], found)
                for key in ledger.settings("mano", gate=gate, prior=prior)
                if (found := ledger.number(key, "native", "modal-exit"))
            ]
            if points:
                lines[gate, prior] = sorted(points, key=lambda p: p[0])
    if not lines:
        return None
    ax = blank(WIDTH, 220, left=36, right=12, top=18, bottom=36)
    _plain_axes(ax, 0.0)
    ax.set_xscale("log")
    ticks = sorted({b for points in lines.values() for b, _ in points})
    ax.set_xlim(ticks[0] / 1.5, ticks[-1] * 1.5)
    for at, ((gate, prior), points) in enumerate(lines.items()):
        beta = [b * 1.05 ** (at - len(lines) / 2) for b, _ in points]
        color = light("ink" if gate == "linear" else "muted")
        found = [n for _, n in points]
        ax.vlines(beta, *_range(found), color=color, alpha=0.5, linewidth=2.5)
        values = [n.value for n in found]
        label = f"{GATES[gate]}, {prior}"
        ax.plot(beta, values, marker="o", ms=4, ls=PRIORS[prior], color=color, label=label)
    ax.legend(loc="lower right", fontsize=10, frameon=False)
    ax.minorticks_off()
    ax.set_xticks(ticks, [f"{b:g}" for b in ticks])
    ax.set_xlabel("beta")
    corner(ax, 1.0, "at the commonest exit loop, mean over probabilities")
    alt = "; ".join(
        f"{GATES[gate]}, {prior}: "
        + ", ".join(f"{percent(n.value)}% at beta {b:g}" for b, n in points)
        for (gate, prior), points in lines.items()
    )
    return panel_of(ax, name="study-beta", title="own gates, MANO", alt=alt)


def _plain_axes(ax, low: float) -> None:
    ax.set_ylim(low, 1.0)
    ax.grid(axis="y", color=light("faint"), linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines.left.set_visible(False)
    ax.tick_params(axis="y", length=0)
    percent_ticks(ax.yaxis, low, 1.0, 5)
