"""What there is to run: rows of tokens, and what each example reads of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trajdiag.store.columns import Columns
from trajdiag.tasks.questions import Scoring


@dataclass(frozen=True, kw_only=True)
class Classes:
    """Every example chooses among the same tokens, by their logits at its decision."""

    ids: np.ndarray | None
    """int64 [class]; None for the whole vocabulary."""


@dataclass(frozen=True, kw_only=True)
class Letters:
    """Every example chooses among tokens of its own, by their logits at its decision."""

    ids: np.ndarray
    """int64 [example, class]; -1 where an example has no such class."""


@dataclass(frozen=True, kw_only=True)
class Continuations:
    """Every example chooses among texts, by the log-probabilities of their tokens.

    Continuation c of an example stands at entry [example, c]; it is the tokens
    `tokens[start[entry] : start[entry + 1]]`, of which the first is predicted at position `at` of
    row `row`, the next at the position after it, and so on.
    """

    entry: np.ndarray
    """int64 [example, class]; -1 where an example has no such class."""
    row: np.ndarray
    """int64 [entry]."""
    at: np.ndarray
    """int64 [entry]."""
    tokens: np.ndarray
    """int32, the continuations' tokens one after the other."""
    start: np.ndarray
    """int64 [entry + 1]."""
    chars: np.ndarray
    """int64 [entry]: the characters of the choice."""
    scoring: Scoring
    """Which score decides."""

    @property
    def length(self) -> np.ndarray:
        """int64 [entry]: tokens of each continuation."""
        return np.diff(self.start)


Decision = Classes | Letters | Continuations


@dataclass(frozen=True, kw_only=True)
class Work:
    """Rows of tokens, cut into units that are run together: a question's rows with their one
    example, or a document's row with its many."""

    tokens: np.ndarray
    """int32, the rows' tokens one after the other."""
    row_start: np.ndarray
    """int64 [row + 1]: row r is tokens[row_start[r] : row_start[r + 1]]."""
    unit_rows: np.ndarray
    """int64 [unit + 1]: unit u has the rows unit_rows[u] to unit_rows[u + 1]."""
    unit_examples: np.ndarray
    """int64 [unit + 1]: and these examples."""
    row: np.ndarray
    """int64 [example]: the row in which its decision is read."""
    at: np.ndarray
    """int64 [example]: the position, in that row, of the last token before the decision."""
    decision: Decision
    columns: Columns
    class_names: tuple[str, ...] | None

    def __len__(self) -> int:
        return len(self.row)

    @property
    def row_length(self) -> np.ndarray:
        """int64 [row]."""
        return np.diff(self.row_start)

    @property
    def unit_length(self) -> np.ndarray:
        """int64 [unit]: tokens of its longest row."""
        return np.maximum.reduceat(self.row_length, self.unit_rows[:-1])

    def units(self, examples: range) -> np.ndarray:
        """The units that hold any of these examples, ascending."""
        first = np.searchsorted(self.unit_examples, examples.start, side="right") - 1
        last = np.searchsorted(self.unit_examples, examples.stop, side="left")
        return np.arange(first, last)

    def examples(self, units: np.ndarray) -> np.ndarray:
        """int64 [example]: the examples of these units, in their order."""
        return ranges(self.unit_examples[units], self.unit_examples[units + 1])

    def rows_in(self, units: np.ndarray) -> int:
        """How many rows these units have."""
        return int((self.unit_rows[units + 1] - self.unit_rows[units]).sum())

    def only(self, units: np.ndarray) -> "Work":
        """The work of these units alone, int64 ascending, all numbered anew."""
        examples = self.examples(units)
        rows = ranges(self.unit_rows[units], self.unit_rows[units + 1])
        return Work(
            tokens=self.tokens[ranges(self.row_start[rows], self.row_start[rows + 1])],
            row_start=starts(self.row_length[rows]),
            unit_rows=starts(np.diff(self.unit_rows)[units]),
            unit_examples=starts(np.diff(self.unit_examples)[units]),
            row=np.searchsorted(rows, self.row[examples]),
            at=self.at[examples],
            decision=_decision_of(self.decision, examples, rows),
            columns=self.columns.only(examples),
            class_names=self.class_names,
        )


def _decision_of(decision: Decision, examples: np.ndarray, rows: np.ndarray) -> Decision:
    """The decisions of these examples, which are read in these rows, ascending."""
    if isinstance(decision, Classes):
        return decision
    if isinstance(decision, Letters):
        return Letters(ids=decision.ids[examples])
    entry = decision.entry[examples]
    kept = entry[entry >= 0]
    renumbered = np.full_like(entry, -1)
    renumbered[entry >= 0] = np.arange(len(kept))
    return replace(
        decision,
        entry=renumbered,
        row=np.searchsorted(rows, decision.row[kept]),
        at=decision.at[kept],
        tokens=decision.tokens[ranges(decision.start[kept], decision.start[kept + 1])],
        start=starts(decision.length[kept]),
        chars=decision.chars[kept],
    )


def starts(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    """int64 [item + 1]: where items of these sizes begin, one after the other, and the end."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def ranges(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """int64: the numbers from first[0] up to and without last[0], then those of the next range."""
    counts = last - first
    return np.repeat(last - np.cumsum(counts), counts) + np.arange(counts.sum())


def one_row_each(count: int) -> np.ndarray:
    """`unit_rows` and `unit_examples` where every example has a row of its own."""
    return np.arange(count + 1, dtype=np.int64)


def found_in(numbers: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """int64 [wanted]: the place of each in `numbers`, which holds it once, in any order."""
    order = np.argsort(numbers)
    return order[np.searchsorted(numbers, wanted, sorter=order)]
