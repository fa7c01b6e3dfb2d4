"""The sample of examples as text: what a reader unfolds to see what a verdict means."""

from collections.abc import Sequence
from dataclasses import dataclass

from trajdiag.reporting.board import Board
from trajdiag.reporting.cells import role_of
from trajdiag.reporting.names import PART_LABELS, readout_label, shortened, visible
from trajdiag.reporting.numerals import plain, tick
from trajdiag.results import ExampleRow

ALONE, BESIDE = 64_000, 8_000
"""Bytes that a store's examples take on the page: alone, and beside other stores."""
MARKUP, OF_LINE, OF_CELL, OF_HEAD, OF_ANSWER = 395, 102, 10, 22, 11
"""Bytes of the markup of an example, of a line, a cell and a loop's head of it, and of what sets a
class apart."""
TITLE = 60
"""Characters of its head."""
CLASS = 24
"""Characters of a class's name."""
DIGITS = range(3, 8)
"""Significant digits of a value, at least and at most."""
VERDICTS = ("early", "late", "trajectory", "ok")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One readout's values by loop; ◂ marks where it leaves."""

    label: str
    rule: str
    """At which values it leaves; empty where that is not known."""
    role: str | None
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class View:
    """One example."""

    title: str
    facts: str
    prompt: str
    """The whole of an input that the title cuts; else empty."""
    verdict: str
    answers: tuple[str, ...]
    """By loop; ✓ marks what is right."""
    lines: tuple[Line, ...]

    @property
    def size(self) -> int:
        """Bytes that it takes on the page, about and rather too many."""
        labels = [text for line in self.lines for text in (line.label, line.rule)]
        texts = [self.title, self.facts, self.prompt, *labels, *self.answers]
        values = [value for line in self.lines for value in line.values]
        # What is markup elsewhere is escaped, such as &#34;.
        escapes = 4 * sum(text.count(c) for text in texts for c in "<>&'\"")
        # A loop's column is headed by its number.
        cells = (OF_CELL + OF_HEAD + OF_ANSWER) * len(self.answers)
        return (
            MARKUP
            + OF_LINE * len(self.lines)
            + escapes
            + cells
            + OF_CELL * len(values)
            + sum(len(text.encode()) for text in [*texts, *values])
        )


@dataclass(frozen=True, kw_only=True)
class DrillDown:
    """A store's examples."""

    store: str
    readout: str
    """The readout whose verdicts they are filed under."""
    examples: tuple[View, ...]

    @property
    def by_verdict(self) -> list[tuple[str, str, list[View]]]:
        """Label, verdict, and the examples, what went wrong first."""
        return [
            (PART_LABELS[verdict], verdict, found)
            for verdict in VERDICTS
            if (found := [view for view in self.examples if view.verdict == verdict])
        ]


def drill_down(board: Board, store: str) -> DrillDown:
    """As many of the store's examples as the page has room for, in the order in which they were
    drawn."""
    room = ALONE if len(board.stores) == 1 else BESIDE
    kept: list[View] = []
    drawn = board.examples.get(store, {})
    for rows in drawn.values():
        view = _view(board, rows)
        room -= view.size
        if room < 0:
            break
        kept.append(view)
    first = next(iter(drawn.values()), [None])[0]
    return DrillDown(
        store=visible(store),
        readout=readout_label(first.readout) if first else "",
        examples=tuple(kept),
    )


def _view(board: Board, rows: list[ExampleRow]) -> View:
    """An example; its first row is the readout's under diagnosis."""
    first = rows[0]
    said = visible_lines(first.input) if first.input else f"example {visible(first.example)}"
    line = " ".join(said.split())
    title = shortened(line, TITLE)
    answers = [_named(first.prediction_names, t, p) for t, p in enumerate(first.predictions)]
    right = str(first.target) if first.target_name is None else _class_text(first.target_name)
    facts = [f"right: {right}", f"leaves at {first.leaves} with {answers[first.leaves - 1]}"]
    if first.difficulty is not None and board.by_difficulty:
        facts.insert(0, f"difficulty {tick(first.difficulty)}")
    return View(
        title=title,
        facts="; ".join(facts),
        prompt=said if title != said else "",
        verdict=first.verdict,
        answers=tuple(
            f"{answer} ✓" if predicted == first.target else answer
            for answer, predicted in zip(answers, first.predictions, strict=True)
        ),
        lines=tuple(_line(board, row) for row in rows),
    )


def _named(names: list[str] | None, loop: int, predicted: int) -> str:
    """A predicted class by its name, or its number where the store names none."""
    return str(predicted) if names is None else _class_text(names[loop])


def _class_text(name: str) -> str:
    """A class's name on the page: in quotes where its ends are blank, which else nobody sees."""
    text = shortened(visible(name), CLASS)
    return text if text and text == text.strip() else f"“{text}”"


def _line(board: Board, row: ExampleRow) -> Line:
    digits = _digits(row.values, board.threshold(row.store, row.readout))
    texts = [plain(value, digits) for value in row.values]
    texts[row.leaves - 1] += " ◂"
    return Line(
        label=readout_label(row.readout),
        rule=_rule(board, row.store, row.readout, digits),
        role=role_of(board, row.readout),
        values=tuple(texts),
    )


def _rule(board: Board, store: str, readout: str, digits: int) -> str:
    """At which values a readout leaves, and from which loop on it can."""
    what, threshold = board.rows.get((store, readout)), board.threshold(store, readout)
    if what is None or threshold is None:
        return ""
    if what.kind == "fixed":
        return f"leaves at loop {tick(threshold)}"
    unit = visible(what.unit).partition(",")[0]
    sign = "≤" if what.direction == "low" else "≥"
    first = f", from loop {what.first_loop}" if what.first_loop > 1 else ""
    return f"leaves at {sign} {plain(threshold, digits)} {unit}{first}"


def _digits(values: Sequence[float | None], threshold: float | None) -> int:
    """As many significant digits as tell every value from the threshold that it does not equal."""
    apart = [value for value in values if value is not None and value != threshold]
    if threshold is None:
        return DIGITS[0]
    return next(
        (n for n in DIGITS if plain(threshold, n) not in [plain(value, n) for value in apart]),
        DIGITS[-1],
    )


def visible_lines(text: str) -> str:
    """`text` with its line ends kept and every other invisible character written out."""
    return "\n".join(visible(line) for line in text.splitlines())
