"""Fit, val and test inputs from their own seeds, balanced over difficulty, and their overlap."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from trajdiag.store.schema import SPLITS
from trajdiag.tasks.base import Examples

AMPLE = 10
"""A bin with this many times more distinct inputs than are drawn is kept free of repeats across
splits."""

Draw = Callable[[np.random.Generator, int, int], np.ndarray]
"""(rng, difficulty, rows) -> int64 [row, position]: inputs of one difficulty, all of one length."""


class Describe(Protocol):
    """What a task knows of inputs [row, position] of one difficulty."""

    def __call__(self, input_ids: np.ndarray) -> "Described": ...


@dataclass(frozen=True, kw_only=True)
class Described:
    """The columns that follow from inputs [row, position] alone."""

    target: np.ndarray
    """int64 [row]"""
    text: np.ndarray
    """str [row]"""
    covariates: dict[str, np.ndarray]
    """float64 [row] each"""


@dataclass(frozen=True, kw_only=True)
class Bin:
    """All inputs of one difficulty."""

    difficulty: int
    distinct: int
    """How many distinct inputs there are at this difficulty."""
    inputs: dict[str, np.ndarray]
    """int64 [row, position] by split."""

    @property
    def drawn(self) -> int:
        """Rows over all splits."""
        return sum(len(rows) for rows in self.inputs.values())

    @property
    def ample(self) -> bool:
        """Whether repeats across splits are removed."""
        return self.distinct >= AMPLE * self.drawn


def shares(total: int, parts: int) -> list[int]:
    """`total` as `parts` counts that differ by at most one, the larger first."""
    return [total // parts + (i < total % parts) for i in range(parts)]


def row_keys(rows: np.ndarray) -> np.ndarray:
    """uint64 [row]: a hash of `rows` int64 [row, position]; equal rows have equal keys.

    Two different rows share a key with a chance near 2^-64; callers only ever drop or redraw a row
    for it.
    """
    key = np.zeros(len(rows), np.uint64)
    for column in rows.T.astype(np.uint64):
        key = (key + column + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return key


def draw_bins(
    draw: Draw,
    distinct: Callable[[int], int],
    difficulties: Iterable[int],
    sizes: dict[str, int],
    seeds: dict[str, int],
) -> list[Bin]:
    """One Bin a difficulty, `sizes` shared out evenly among them; a split of size 0 is left out.

    Each bin of each split has its own random stream, so it does not change with the other bins'
    range. In an ample bin, val holds no input of fit and test none of either; rows are redrawn
    until the sizes hold.
    """
    difficulties = list(difficulties)
    present = [split for split in SPLITS if sizes[split] > 0]
    by_split = {split: shares(sizes[split], len(difficulties)) for split in present}
    bins = []
    for index, difficulty in enumerate(difficulties):
        rows = {split: by_split[split][index] for split in present}
        ample = distinct(difficulty) >= AMPLE * sum(rows.values())
        inputs: dict[str, np.ndarray] = {}
        seen = np.zeros(0, np.uint64)
        for split in present:
            rng = np.random.default_rng([seeds[split], difficulty])
            drawn = draw(rng, difficulty, rows[split])
            while ample and (repeated := np.isin(row_keys(drawn), seen)).any():
                fresh = draw(rng, difficulty, int(repeated.sum()))
                drawn = np.concatenate([drawn[~repeated], fresh])
            seen = np.concatenate([seen, row_keys(drawn)])
            inputs[split] = drawn
        bins.append(Bin(difficulty=difficulty, distinct=distinct(difficulty), inputs=inputs))
    return bins


def overlap_notes(bins: list[Bin]) -> dict[str, Any]:
    """How far the splits share inputs, bin by bin: the examples of val whose input is in fit, and
    those of test whose input is in fit or val."""
    rows = []
    for b in bins:
        seen = np.zeros(0, np.uint64)
        repeats = {}
        for split, inputs in b.inputs.items():
            keys = row_keys(inputs)
            repeats[split] = int(np.isin(keys, seen).sum())
            seen = np.concatenate([seen, keys])
        rows.append(
            {
                "difficulty": b.difficulty,
                "distinct_inputs": b.distinct,
                "drawn": b.drawn,
                "repeats_removed": b.ample,
                "val_seen": repeats.get("val", 0),
                "test_seen": repeats.get("test", 0),
            }
        )
    return {"overlap": rows}


def heldout_keys(bins: list[Bin]) -> dict[int, np.ndarray]:
    """Sorted keys, by difficulty, of the val and test inputs of the ample bins: what a training
    stream leaves out."""
    return {
        b.difficulty: np.unique(
            np.concatenate([row_keys(b.inputs[s]) for s in ("val", "test") if s in b.inputs])
        )
        for b in bins
        if b.ample and not {"val", "test"}.isdisjoint(b.inputs)
    }


def drop_heldout(rows: np.ndarray, heldout: np.ndarray | None) -> np.ndarray:
    """`rows` [row, position] without those whose key is in the sorted `heldout`."""
    if heldout is None or not len(heldout):
        return rows
    keys = row_keys(rows)
    at = np.minimum(np.searchsorted(heldout, keys), len(heldout) - 1)
    return rows[heldout[at] != keys]


def assemble(
    bins: list[Bin], describe: Describe, pad_id: int, seeds: dict[str, int]
) -> dict[str, Examples]:
    """The examples of each split, its bins shuffled together; equal inputs share a group."""
    splits = [split for split in SPLITS if any(split in b.inputs for b in bins)]
    width = max(rows.shape[1] for b in bins for rows in b.inputs.values())
    padded = {s: np.concatenate([_pad(b.inputs[s], width, pad_id) for b in bins]) for s in splits}
    _, group = np.unique(np.concatenate(list(padded.values())), axis=0, return_inverse=True)
    groups = np.split(group.reshape(-1), np.cumsum([len(rows) for rows in padded.values()])[:-1])
    examples = {}
    for split, split_group in zip(splits, groups, strict=True):
        described = [describe(b.inputs[split]) for b in bins]
        counts = [len(d.target) for d in described]
        order = np.random.default_rng(seeds[split]).permutation(sum(counts))
        examples[split] = Examples(
            input_ids=padded[split][order].astype(np.int32),
            length=np.repeat([b.inputs[split].shape[1] for b in bins], counts)[order].astype(
                np.int32
            ),
            target=np.concatenate([d.target for d in described])[order],
            difficulty=np.repeat([float(b.difficulty) for b in bins], counts)[order],
            group=split_group[order].astype(np.int64),
            id=np.strings.add(f"{split}-", np.strings.zfill(np.arange(len(order)).astype(str), 6)),
            input=np.concatenate([d.text for d in described])[order],
            covariates={
                name: np.concatenate([d.covariates[name] for d in described])[order]
                for name in described[0].covariates
            },
        )
    return examples


def _pad(rows: np.ndarray, width: int, pad_id: int) -> np.ndarray:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=pad_id)
