"""Tables of how well signals tell what they are meant to tell, by loop and against difficulty."""

from collections.abc import Iterable, Sequence

from trajdiag.reporting.board import Board
from trajdiag.reporting.cells import Cell, Table, number_cell, readout_cell
from trajdiag.reporting.names import visible
from trajdiag.reporting.part_names import quality_label
from trajdiag.results import QualityRow

BY_LOOP = ("auroc/right", "auroc/settled")
MEASURES = (
    *("auroc/right", "auprc/right", "auroc/settled", "auprc/settled"),
    *("aurc", "risk@coverage=0.8", "ece", "brier"),
)
DIFFICULTY = (
    *("spearman/difficulty", "spearman-bins/difficulty", "partial/difficulty"),
    *("exit/difficulty", "exit/stays-depth"),
)
OVERTHINKING = (
    *("overthinking", "overthinking/beyond-luck", "wasteful"),
    *("flips", "flips/gained", "flips/lost"),
)
MOST_LOOPS = 8
"""Columns of loops; of more, some are left out evenly."""

Found = dict[int | None, QualityRow]


def quality(board: Board, store: str) -> list[Table]:
    """The store's tables, as far as it has their numbers."""
    tables = [
        *[_by_loop(board, store, metric) for metric in BY_LOOP],
        _measures(board, store, MEASURES, "means over loops", "quality"),
        _order(board, store),
        _overthinking(board, store),
    ]
    return [table for table in tables if table.rows]


def _by_loop(board: Board, store: str, metric: str) -> Table:
    found = {name: board.quality.get((store, name, metric), {}) for name in board.ranked(store)}
    found = {name: of for name, of in found.items() if of}
    loops = _loops(found.values())
    return Table(
        name=f"{metric}-{store}",
        title=f"{visible(store)}: {quality_label(metric)}, by loop",
        head=("Readout", *["Mean" if loop is None else f"{loop}" for loop in loops]),
        rows=tuple(
            (readout_cell(board, name), *[_cell(of, loop) for loop in loops])
            for name, of in found.items()
        ),
        note="How often the value ranks an example that is right at this loop before one that is "
        "wrong; 0.50 is chance."
        if metric.endswith("/right")
        else "How often the value ranks an example that more loops will not help (right here, or "
        "at no later loop) before one that they will; 0.50 is chance.",
    )


def _order(board: Board, store: str) -> Table:
    """Whether values and exits follow difficulty, and the loops that an example needs."""
    about = "difficulty" if board.by_difficulty else "needed depth"
    return _measures(board, store, DIFFICULTY, f"order by {about}", "difficulty")


def _measures(board: Board, store: str, wanted: Sequence[str], title: str, name: str) -> Table:
    """One number a readout and measure: the mean over loops."""
    found = {
        readout: {metric: board.quality.get((store, readout, metric), {}) for metric in wanted}
        for readout in board.ranked(store)
    }
    metrics = [
        metric
        for metric in wanted
        if any(row.value is not None for of in found.values() for row in of[metric].values())
    ]
    return Table(
        name=f"{name}-{store}",
        title=f"{visible(store)}: {title}",
        head=("Readout", *[quality_label(metric) for metric in metrics]),
        rows=tuple(
            (readout_cell(board, readout), *[_cell(of[metric], None) for metric in metrics])
            for readout, of in found.items()
            if any(of[metric] for metric in metrics)
        ),
    )


def _overthinking(board: Board, store: str) -> Table:
    found = {metric: board.quality.get((store, None, metric), {}) for metric in OVERTHINKING}
    found = {metric: of for metric, of in found.items() if of}
    loops = _loops(found.values())
    heads = ["All loops" if loop is None else f"{loop}" for loop in loops]
    return Table(
        name=f"overthinking-{store}",
        title=f"{visible(store)}: what further loops do, % of test examples",
        head=("At loop", *heads),
        rows=tuple(
            (Cell(text=quality_label(metric)), *[_cell(of, loop) for loop in loops])
            for metric, of in found.items()
        ),
        note="All loops: of what one loop does, the mean. Luck: how often a wrong example’s "
        "earlier loops would meet a target that ends where it ends.",
    )


def _loops(found: Iterable[Found]) -> list[int | None]:
    """Loops for columns, evenly chosen of many with the first and the last; None, the mean, comes
    last."""
    known = {loop for of in found for loop in of}
    loops = sorted(loop for loop in known if loop is not None)
    step = -(-max(len(loops) - 1, 1) // (MOST_LOOPS - 1))
    shown: list[int | None] = [*loops[:-1:step], *loops[-1:]]
    return [*shown, None] if None in known else shown


def _cell(found: Found, loop: int | None) -> Cell:
    row = found.get(loop)
    return Cell(text="") if row is None else number_cell(row.metric, row.value, row.low, row.high)
