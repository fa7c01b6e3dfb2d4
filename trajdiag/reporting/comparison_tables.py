"""Tables of paired differences: readouts of two stores, the swap, and the frozen-fit test."""

from collections.abc import Callable, Mapping, Sequence

from trajdiag.reporting.board import Board
from trajdiag.reporting.cells import Cell, Table, difference_cell, role_of, scale_of
from trajdiag.reporting.names import readout_label, visible
from trajdiag.reporting.part_names import DIFFERENCE_LABELS, FROZEN_FIT_LABELS, SWAP_LABELS
from trajdiag.results import ComparisonRow

Pair = tuple[str, str, str, str]
"""Store, readout, reference, the reference's readout."""
UNPAIRED = "The stores hold different examples: these intervals are not paired."


def comparisons(board: Board) -> list[Table]:
    """For each pair of stores of which the first is drawn, the differences by readout;
    intervals are on one scale a column."""
    tables: dict[tuple[str, str], list[ComparisonRow]] = {}
    drawn = set(board.drawn)
    for row in board.results.comparisons:
        named = row.metric in SWAP_LABELS or row.metric in FROZEN_FIT_LABELS
        if row.store in drawn and not named:
            tables.setdefault((row.store, row.reference), []).append(row)
    return [_differences(board, rows) for rows in tables.values()]


def swap(board: Board) -> Table | None:
    """The two-by-two swaps of trajectory and readout, a row each."""
    return _named_table(
        board,
        SWAP_LABELS,
        title="Swap: each readout on each trajectory",
        note="Accuracy points, mean over depth budgets; below zero the first named is the worse. "
        "Both kinds of readout are refitted on both frozen trajectories. Trajectory’s share: what "
        "changing the states does, averaged over the two readouts; readout’s share: what changing "
        "the readout does, averaged over the two trajectories. They add up to the total. "
        "Interaction: how much more the readouts differ on the first trajectory than on the "
        "second; near zero, the shares stand for themselves.",
    )


def frozen_fit(board: Board) -> Table | None:
    """Fresh gates on a trajectory against the same on its reference's, a row each."""
    return _named_table(
        board,
        FROZEN_FIT_LABELS,
        title="Frozen fit: the same fresh gate on both trajectories",
        note="A gate is fitted from scratch on each frozen trajectory. Where even the fresh gate "
        "does worse here (less area, more loops), the failure lies in the trajectory and not in "
        "how the model’s own gate was trained.",
    )


def _differences(board: Board, own: Sequence[ComparisonRow]) -> Table:
    store, reference = visible(own[0].store), visible(own[0].reference)
    metrics = list(dict.fromkeys(row.metric for row in own))
    kept = own
    if board.left_out:
        principals = board.principals(own[0].store)
        kept = [row for row in own if row.readout in principals]
    return Table(
        name="comparisons",
        title=f"{store} minus {reference}" if store != reference else f"Within {store}",
        head=("Readout", *[DIFFERENCE_LABELS.get(metric, visible(metric)) for metric in metrics]),
        rows=_rows(board, kept, metrics, lambda pair: _readouts(pair[1], pair[3])),
        note=UNPAIRED if any(not row.paired for row in own) else "",
    )


def _named_table(board: Board, labels: Mapping[str, str], *, title: str, note: str) -> Table | None:
    own = [row for row in board.results.comparisons if row.metric in labels]
    metrics = [metric for metric in labels if any(row.metric == metric for row in own)]
    if not own:
        return None
    unpaired = any(not row.paired for row in own)
    return Table(
        name=metrics[0].partition("/")[0],
        title=title,
        head=("Against", *[labels[metric] for metric in metrics]),
        rows=_rows(board, own, metrics, _stores),
        note=f"{note} {UNPAIRED}" if unpaired else note,
    )


def _rows(
    board: Board,
    own: Sequence[ComparisonRow],
    metrics: Sequence[str],
    name: Callable[[Pair], str],
) -> tuple[tuple[Cell, ...], ...]:
    by_pair: dict[Pair, dict[str, ComparisonRow]] = {}
    for row in own:
        pair = row.store, row.readout, row.reference, row.reference_readout
        by_pair.setdefault(pair, {})[row.metric] = row
    scales = {metric: scale_of(row for row in own if row.metric == metric) for metric in metrics}
    alpha = 1 - board.interval_percent / 100
    return tuple(
        (
            Cell(text=name(pair), role=role_of(board, pair[1])),
            *[difference_cell(found.get(metric), scales[metric], alpha) for metric in metrics],
        )
        for pair, found in by_pair.items()
    )


def _stores(pair: Pair) -> str:
    store, readout, reference, other = pair
    stores = f"{visible(store)} − {visible(reference)}"
    return f"{stores}: {_readouts(readout, other)}"


def _readouts(readout: str, other: str) -> str:
    label = readout_label(readout)
    return label if readout == other else f"{label} − {readout_label(other)}"
