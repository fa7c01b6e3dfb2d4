"""A profile's numbers by difficulty and loop, with their bounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trajdiag.reporting.board import Board
from trajdiag.reporting.numerals import bracketed, tick


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Arrays are [difficulty, loop], NaN where there is nothing."""

    difficulties: list[float]
    """In order, easiest first."""
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def texts(self, text: Callable[[float], str]) -> list[str]:
        """Each cell with its interval, row by row; empty where there is nothing."""
        return [
            f"{text(value)} {bracketed(_known(low), _known(high), text)}".rstrip()
            if np.isfinite(value)
            else ""
            for value, low, high in zip(
                self.values.flat, self.low.flat, self.high.flat, strict=True
            )
        ]

    def by_row(self, text: Callable[[float], str]) -> str:
        """The values in words, for who does not see them."""
        return "; ".join(
            f"{name}: {', '.join(text(float(v)) for v in row)}"
            for name, row in zip(self.names, self.values, strict=True)
        )

    @property
    def names(self) -> list[str]:
        """What each row is of."""
        return level_names(self.difficulties)


def level_names(difficulties: Sequence[float]) -> list[str]:
    """What the examples of each difficulty are called; of a single one no difficulty is named."""
    if len(difficulties) == 1:
        return ["all examples"]
    return [f"difficulty {tick(difficulty)}" for difficulty in difficulties]


def difficulty_grid(board: Board, store: str, readout: str | None, quantity: str) -> Grid:
    """The store's profile of one quantity."""
    rows, last = board.profile[store, readout, quantity], board.stores[store].loops
    difficulties = sorted({row.difficulty for row in rows})
    place = {difficulty: i for i, difficulty in enumerate(difficulties)}
    values, low, high = np.full((3, len(difficulties), last), np.nan)
    for row in rows:
        if row.value is not None and row.loop is not None and 1 <= row.loop <= last:
            at = place[row.difficulty], row.loop - 1
            values[at] = row.value
            low[at] = np.nan if row.low is None else row.low
            high[at] = np.nan if row.high is None else row.high
    return Grid(difficulties=difficulties, values=values, low=low, high=high)


def _known(bound: float) -> float | None:
    return None if np.isnan(bound) else float(bound)
