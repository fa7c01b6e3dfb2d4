"""The examples that scoring uses: one split's, whole or part by part."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trajdiag.errors import StoreError
from trajdiag.metrics.difficulty import Bins, difficulty_bins
from trajdiag.store.made_again import made_again_with
from trajdiag.store.reader import Store

MOST_BINS = 40
"""Levels of difficulty in the profile; more are binned."""
MOST_LEVELS = 20
"""Levels of difficulty in the intervals of its rank correlation; more are binned."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One split, or a part of it: which loops are right, and what hindsight needs."""

    store: Store
    """Of a part: no other examples of the split are seen in it."""
    split: str
    group: NDArray[np.int64]
    """[example]: the resampling unit."""
    part_examples: int | None = None
    """The most examples of a part; None where the whole split is one."""

    @property
    def loops(self) -> int:
        return self.store.loops

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """[example]: its number in the store."""
        return self.store.rows(self.split)

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """[example, loop]."""
        return self.store.correct(self.split)

    @cached_property
    def predictions(self) -> NDArray[np.int64]:
        """[example, loop]."""
        return self.store.predictions(self.split)

    @cached_property
    def target(self) -> NDArray[np.int64]:
        """[example]."""
        return self.store.target[self.rows]

    @cached_property
    def cross_entropy(self) -> NDArray[np.float64]:
        """[example, loop], nats."""
        return self.store.cross_entropy(self.split)

    @cached_property
    def cuts(self) -> list[int]:
        """Part i holds the examples cuts[i] to cuts[i + 1] - 1, counted within the split."""
        if self.part_examples is None:
            return [0, len(self)]
        return cuts_between(self.rows // self.store.block_examples, self.part_examples)

    def part(self, index: int) -> "Sample":
        """Part `index`, from 0."""
        if len(self.cuts) == 2:
            return self
        return self.only(np.arange(self.cuts[index], self.cuts[index + 1]))

    def parts(self) -> Iterator["Sample"]:
        """All parts, in order."""
        return (self.part(index) for index in range(len(self.cuts) - 1))

    def only(self, at: NDArray[np.int64]) -> "Sample":
        """The examples `at` of it, ascending, counted within the split."""
        store = self.store.only(self.rows[at])
        return Sample(store=store, split=self.split, group=self.group[at])

    def __len__(self) -> int:
        return len(self.group)


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """The two splits that scoring uses."""

    store: Store
    val: Sample
    test: Sample
    difficulty: NDArray[np.float64]
    """[test example]; NaN where unknown."""

    @cached_property
    def bins(self) -> Bins:
        """Test examples by difficulty, for the profile."""
        return difficulty_bins(self.difficulty, MOST_BINS)

    @cached_property
    def levels(self) -> Bins:
        """Test examples by difficulty, for the intervals of its rank correlation."""
        return difficulty_bins(self.difficulty, MOST_LEVELS)

    @property
    def streamed(self) -> bool:
        """Whether it is scored part by part."""
        return self.val.part_examples is not None


def outcomes(store: Store, part_examples: int | None = None) -> Outcomes:
    """The splits of `store`, read `part_examples` at a time where that is given. Raises StoreError
    where there is nothing to select on, or nothing to report on."""
    for split, use in (("val", "thresholds are chosen on"), ("test", "results are reported on")):
        if split not in store.splits:
            raise StoreError(
                f"store {store.name} has no {split} split, which {use}; it has "
                f"{', '.join(store.splits) or 'no examples'}; {made_again_with(store, split)}"
            )
    _ = store.target  # read once here, not once in each part
    val, test = (
        Sample(
            store=store,
            split=split,
            group=store.group[store.rows(split)],
            part_examples=part_examples,
        )
        for split in ("val", "test")
    )
    return Outcomes(
        store=store, val=val, test=test, difficulty=store.difficulty[store.rows("test")]
    )


def of_part(bins: Bins, at: slice) -> Bins:
    """The bins of some of the examples."""
    return replace(bins, code=bins.code[at])


def cuts_between(block: NDArray[np.int64], most: int) -> list[int]:
    """Where parts of at most `most` examples begin, and where the last ends: between blocks
    `block` [example], rising, but for blocks that are larger."""
    cuts, last = [0], 0
    for edge in (*(np.flatnonzero(np.diff(block)) + 1).tolist(), len(block)):
        if edge - cuts[-1] > most and last > cuts[-1]:
            cuts.append(last)
        while edge - cuts[-1] > most:
            cuts.append(cuts[-1] + most)
        last = edge
    return [*cuts, len(block)]
