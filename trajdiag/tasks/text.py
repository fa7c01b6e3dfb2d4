"""Running text of a user's file: every token, or a sample of them, is an example."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trajdiag.tasks.group_splits import draw_by_group
from trajdiag.tasks.options import name_with, require
from trajdiag.tasks.questions import Document
from trajdiag.tasks.records import (
    by_split,
    decoded,
    given_splits,
    read_bytes,
    read_records,
    require_unique,
)

RECORDS = (".jsonl", ".ndjson", ".json", ".parquet")
"""Suffixes of files of records; every other file is plain text."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """Running text whose tokens are predicted, of a plain text, JSONL or Parquet file.

    Records are {text, optional id, split}. A plain file is cut into documents at blank lines: whole
    paragraphs, gathered up to `document_chars` characters. A document lies in one split.
    """

    path: str
    """The file."""
    sample: int = 64
    """Tokens of each document that are examples, drawn at random; 0 takes all."""
    document_chars: int = 2000
    """Characters of a plain file's documents, about; a longer paragraph stays whole."""
    seed: int = 0
    """Draws the splits (half fit, a fifth val, three tenths test), where the file names none, and
    the sample."""

    def __post_init__(self) -> None:
        require(self.sample >= 0, "sample", "at least 0", self.sample)
        require(self.document_chars >= 1, "document_chars", "at least 1", self.document_chars)
        require(self.seed >= 0, "seed", "at least 0", self.seed)
        self._documents  # noqa: B018, so that a bad file is met before anything runs

    @property
    def name(self) -> str:
        """Tells files apart by their names."""
        return name_with("text", Path(self.path).stem)

    def parameters(self) -> dict[str, Any]:
        """The file by its name and its bytes, and the options."""
        sha256, _ = self._documents
        return {
            "file": Path(self.path).name,
            "sha256": sha256,
            "sample": self.sample,
            "document_chars": self.document_chars,
            "seed": self.seed,
        }

    def documents(self) -> dict[str, list[Document]]:
        """In the file's order."""
        return self._documents[1]

    def positions(self, split: str, tokens: np.ndarray) -> list[np.ndarray]:
        """A document's sample depends on the seed, its id and its length alone."""
        return [
            self._sampled(document.id, int(count))
            for document, count in zip(self.documents()[split], tokens, strict=True)
        ]

    def notes(self) -> dict[str, Any]:
        """How many documents each split has."""
        return {"documents": {split: len(found) for split, found in self.documents().items()}}

    def _sampled(self, id: str, count: int) -> np.ndarray:
        if self.sample == 0 or count <= self.sample:
            return np.arange(count, dtype=np.int64)
        digest = np.frombuffer(hashlib.sha256(id.encode()).digest(), "<u4")
        rng = np.random.default_rng([self.seed, *digest.tolist()])
        return np.sort(rng.choice(count, self.sample, replace=False)).astype(np.int64)

    @cached_property
    def _documents(self) -> tuple[str, dict[str, list[Document]]]:
        """The SHA-256 of the file, and its documents by split."""
        is_records = self.path.lower().endswith(RECORDS)
        sha256, documents, splits = self._records() if is_records else self._paragraphs()
        splits = splits or draw_by_group([document.id for document in documents], self.seed)
        return sha256, by_split(self.path, documents, splits)

    def _records(self) -> tuple[str, list[Document], list[str] | None]:
        file = read_records(self.path)
        documents = []
        for record in file.records:
            text = record.text("text")
            if not text.strip():
                record.refuse("text is empty")
            documents.append(Document(id=record.label("id") or str(record.number), text=text))
        named = [(document.id, r) for document, r in zip(documents, file.records, strict=True)]
        require_unique("id", named)
        return file.sha256, documents, given_splits(file.records)

    def _paragraphs(self) -> tuple[str, list[Document], None]:
        data, sha256 = read_bytes(self.path)
        text = decoded(data, self.path).replace("\r\n", "\n")
        documents = [
            Document(id=f"line {line}", text=part)
            for line, part in _gathered(text, self.document_chars)
        ]
        return sha256, documents, None


def _gathered(text: str, most: int) -> Iterator[tuple[int, str]]:
    """Consecutive paragraphs, joined as they stand while they keep within `most` characters, and
    the line on which the first of them begins."""
    spans: list[tuple[int, int]] = []
    for paragraph in re.finditer(r"(?:^.*\S.*\n?)+", text, re.MULTILINE):
        if spans and paragraph.end() - spans[-1][0] <= most:
            spans[-1] = (spans[-1][0], paragraph.end())
        else:
            spans.append(paragraph.span())
    line, counted = 1, 0
    for start, end in spans:
        line, counted = line + text.count("\n", counted, start), start
        yield line, text[start:end].rstrip("\n")
