"""A task of running text into work: every chosen token of a document is an example."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trajdiag.errors import ConfigError
from trajdiag.extraction.encoder import Encoder
from trajdiag.extraction.questions import group_numbers, ordered
from trajdiag.extraction.work import Classes, Work, one_row_each, starts
from trajdiag.store.columns import Columns
from trajdiag.tasks.given import checked_documents, checked_positions
from trajdiag.tasks.questions import Document, DocumentTask

_SHOWN = 200
"""Characters kept of the text before a token."""


@dataclass(frozen=True, kw_only=True)
class _Window:
    """A run of a document's tokens that is one row, and the predictions read in it."""

    document: int
    tokens: list[int]
    at: np.ndarray
    """int64 [example]: positions in the row."""
    target: np.ndarray
    """int64 [example]."""
    index: np.ndarray
    """int64 [example]: the predictions' numbers in the document."""


def document_work(task: DocumentTask, encode: Encoder, longest: int, *, inputs: bool) -> Work:
    """The work of a task of running text, documents cut into windows of `longest` tokens.

    Raises ConfigError where a split has no token to predict.
    """
    placed = ordered(task.name, checked_documents(task), "documents")
    encoded = [encode(document.text) for _, document in placed]
    windows: list[_Window] = []
    for split in dict.fromkeys(split for split, _ in placed):
        of_split = [i for i, (name, _) in enumerate(placed) if name == split]
        counts = np.array([max(0, len(encoded[i]) - 1) for i in of_split], np.int64)
        chosen = checked_positions(task, split, counts, [placed[i][1].id for i in of_split])
        before = len(windows)
        for i, positions in zip(of_split, chosen, strict=True):
            windows += _windows(i, encoded[i], positions, longest)
        if len(windows) == before:
            raise ConfigError(
                f"task {task.name} has no token to predict in split {split}: its documents are "
                "shorter than two tokens; give it longer ones, or no documents"
            )
    counts = [len(window.at) for window in windows]
    count = len(windows)
    return Work(
        tokens=np.fromiter((t for window in windows for t in window.tokens), np.int32),
        row_start=starts([len(window.tokens) for window in windows]),
        unit_rows=one_row_each(count),
        unit_examples=starts(counts),
        row=np.repeat(np.arange(count), counts),
        at=np.concatenate([window.at for window in windows]),
        decision=Classes(ids=None),
        columns=_columns(placed, encoded, windows, encode, inputs=inputs),
        class_names=None,
    )


def _windows(
    document: int, tokens: list[int], positions: np.ndarray, longest: int
) -> list[_Window]:
    """The windows of a document in which something is read."""
    found = []
    for number in np.unique(positions // longest).tolist():
        begin = number * longest
        index = positions[positions // longest == number]
        window = tokens[begin : begin + longest]
        target = np.array(tokens, np.int64)[index + 1]
        at = index - begin
        # what comes after the last prediction is not read
        window = window[: int(at.max()) + 1]
        found.append(_Window(document=document, tokens=window, at=at, target=target, index=index))
    return found


def _columns(
    placed: Sequence[tuple[str, Document]],
    encoded: Sequence[list[int]],
    windows: Sequence[_Window],
    encode: Encoder,
    *,
    inputs: bool,
) -> Columns:
    counts = [len(window.at) for window in windows]
    document = np.repeat([window.document for window in windows], counts)
    index = np.concatenate([window.index for window in windows])
    pairs = list(zip(document.tolist(), index.tolist(), strict=True))
    texts = None
    if inputs:
        texts = [encode.decode(encoded[d][max(0, i - 31) : i + 1])[-_SHOWN:] for d, i in pairs]
    return Columns(
        target=np.concatenate([window.target for window in windows]),
        difficulty=np.full(len(pairs), np.nan),
        group=group_numbers([placed[d][1].id for d, _ in pairs]),
        split=np.array([placed[d][0] for d, _ in pairs]),
        id=np.array([f"{placed[d][1].id}/{i}" for d, i in pairs], object),
        input=None if texts is None else np.array(texts, object),
        covariates={"position": np.concatenate([window.at for window in windows]).astype(float)},
    )
