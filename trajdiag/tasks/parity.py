"""Parity: is the number of ones in a bit string even or odd; difficulty is the string's length."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trajdiag.store.schema import SPLITS
from trajdiag.tasks.base import IGNORE, Examples, TrainingGroup
from trajdiag.tasks.options import require, require_range, require_splits
from trajdiag.tasks.splits import (
    Bin,
    Described,
    assemble,
    draw_bins,
    drop_heldout,
    heldout_keys,
    overlap_notes,
)

EQUALS, BOS, PAD = 2, 3, 4
LONGEST = 1024


@dataclass(frozen=True, kw_only=True)
class Parity:
    """Sum a bit string mod 2: input `<bos> bits =`, classes even and odd (tokens 0 and 1).

    The number of ones is kept as the covariate `ones`: models tend to count, so it is a second
    difficulty.
    """

    min_difficulty: int = 1
    """Shortest string, bits."""
    max_difficulty: int = 16
    """Longest string, bits; beyond the trained range it asks for extrapolation."""
    fit: int = 10_000
    """Examples to fit gates on."""
    val: int = 5_000
    """Examples to choose thresholds on."""
    test: int = 10_000
    """Examples to report on."""
    seeds: tuple[int, int, int] = (42, 43, 44)
    """Seeds of fit, val and test."""

    name = "parity"
    class_names = ("even", "odd")
    vocab_size = 5

    def __post_init__(self) -> None:
        require_range(1, self.min_difficulty, self.max_difficulty)
        require(
            self.max_difficulty <= LONGEST,
            "max_difficulty",
            f"at most {LONGEST}",
            self.max_difficulty,
        )
        require_splits(self.fit, self.val, self.test, self.seeds, len(self._difficulties))

    @property
    def class_ids(self) -> np.ndarray:
        """int64 [class]: the bits' own tokens."""
        return np.arange(2)

    def parameters(self) -> dict[str, Any]:
        """The fields, as JSON values."""
        return {**dataclasses.asdict(self), "seeds": list(self.seeds)}

    def examples(self) -> dict[str, Examples]:
        """Balanced by length; difficulty is the length, and `ones` a covariate."""
        return assemble(self._bins, _describe, PAD, self._seeds)

    def notes(self) -> dict[str, Any]:
        """The overlap of the splits, by length."""
        return overlap_notes(self._bins)

    def training_batch(
        self, rng: np.random.Generator, rows: Mapping[int, int]
    ) -> list[TrainingGroup]:
        """See TrainableTask; inputs of val and test are left out where their bin is ample. The
        dense label of a bit is the parity of the bits up to it."""
        groups = []
        for bits, count in rows.items():
            input_ids = drop_heldout(_draw(rng, bits, count), self._heldout.get(bits))
            running = np.cumsum(input_ids[:, 1:-1], axis=1) % 2
            dense = np.full(input_ids.shape, IGNORE)
            dense[:, 1:-1] = running
            groups.append(
                TrainingGroup(
                    input_ids=input_ids, target=running[:, -1], dense=dense, difficulty=bits
                )
            )
        return groups

    @property
    def _difficulties(self) -> range:
        return range(self.min_difficulty, self.max_difficulty + 1)

    @property
    def _seeds(self) -> dict[str, int]:
        return dict(zip(SPLITS, self.seeds, strict=True))

    @cached_property
    def _bins(self) -> list[Bin]:
        sizes = {"fit": self.fit, "val": self.val, "test": self.test}
        return draw_bins(_draw, _distinct, self._difficulties, sizes, self._seeds)

    @cached_property
    def _heldout(self) -> dict[int, np.ndarray]:
        return heldout_keys(self._bins)


def _distinct(bits: int) -> int:
    return 2**bits


def _draw(rng: np.random.Generator, bits: int, rows: int) -> np.ndarray:
    """int64 [row, bits + 2]: whole inputs of `bits` fair bits each."""
    lead, tail = np.full((rows, 1), BOS), np.full((rows, 1), EQUALS)
    return np.concatenate([lead, rng.integers(0, 2, (rows, bits)), tail], axis=1)


def _describe(input_ids: np.ndarray) -> Described:
    bits = input_ids[:, 1:-1]
    ones = bits.sum(axis=1)
    text = (
        np.ascontiguousarray(bits + ord("0"), dtype=np.uint32).view(f"U{bits.shape[1]}").reshape(-1)
    )
    return Described(target=ones % 2, text=text, covariates={"ones": ones.astype(np.float64)})
