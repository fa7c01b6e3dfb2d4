"""The report's first figure: how each store's regret splits."""

from trajdiag.reporting.axes_svg import panel_of
from trajdiag.reporting.board import Board
from trajdiag.reporting.canvas import blank
from trajdiag.reporting.names import readout_label, shortened, visible
from trajdiag.reporting.numerals import bracketed, metric_text
from trajdiag.reporting.part_names import REGRET_PARTS, REGRET_SCALES, part_label
from trajdiag.reporting.regret_bars import Amount, Regret, height_of, regrets
from trajdiag.reporting.svg import WIDTH, Figure, Key, Panel, Row
from trajdiag.results import DiagnosisRow

DRAWN = ("integrated", "accuracy")
"""The ways of splitting regret that are drawn: over all budgets, and in loops."""


def regret_figure(board: Board) -> Figure:
    """One panel a scale: each store's regret as a stacked bar of its parts."""
    panels = [panel for at in DRAWN if (panel := _panel(board, at))]
    referenced = any("trajectory_regret" in parts for parts in board.regrets.values())
    parts = [part for part in REGRET_PARTS if referenced or part != "trajectory_regret"]
    return Figure(
        name="regret",
        title="Where the regret lies",
        caption="What the store’s native gate, or without one its best readout, loses "
        + (
            "against hindsight on the reference’s states"
            if referenced
            else "against hindsight on its own states"
        )
        + ", less what luck explains. The parts add up to the whole (dot, with its "
        f"{board.interval_percent}% interval); a part left of zero is a gain. Brackets are "
        "intervals.",
        rows=(Row(title="", panels=tuple(panels)),),
        keys=tuple(Key(role=REGRET_PARTS[part], label=part_label(part)) for part in parts),
        tables=("diagnosis",),
    )


def _panel(board: Board, at: str) -> Panel | None:
    what, unit = REGRET_SCALES[at]
    metric = "depth" if unit == "loops" else "share"

    def text(value: float) -> str:
        return metric_text(metric, value, 2)

    blocks = []
    for store in board.stores:
        readout = board.diagnosed(store, at)
        if readout is not None:
            blocks.append(_regret(store, readout, board.regrets[store, at, readout], unit))
    if not blocks:
        return None
    edges = {"left": 6.0, "right": 17.0, "top": 2.0, "bottom": 22.0}
    ax = blank(WIDTH, height_of(blocks) + edges["top"] + edges["bottom"], **edges)
    regrets(ax, blocks, text)
    alt = "; ".join(
        f"{block.label}, {block.under}: {text(block.total.value)} {unit} "
        f"{bracketed(block.total.low, block.total.high, text)}, of which "
        + ", ".join(
            f"{part.label} {text(part.value)} {bracketed(part.low, part.high, text)}".rstrip()
            for part in block.parts
        )
        for block in blocks
    )
    return panel_of(ax, name=f"regret-{at}", title=f"{what}, {unit}", alt=alt)


def _regret(store: str, readout: str, parts: dict[str, DiagnosisRow], unit: str) -> Regret:
    total = parts["regret"]
    reference = f", vs {shortened(visible(total.reference), 22)}" if total.reference else ""
    return Regret(
        label=visible(store),
        under=f"{readout_label(readout)}{reference}",
        unit=unit,
        total=_amount("regret", "ink", total),
        parts=tuple(
            _amount(REGRET_PARTS[part], REGRET_PARTS[part], parts[part])
            for part in REGRET_PARTS
            if part in parts
        ),
    )


def _amount(label: str, role: str, row: DiagnosisRow) -> Amount:
    return Amount(label=label, role=role, value=row.value, low=row.low, high=row.high)
