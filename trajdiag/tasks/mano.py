"""MANO: modular arithmetic in prefix notation; difficulty is the number of operations.

Expression law: Physics of Language Models, part 4.1 (Allen-Zhu): the operator uniformly, the left
subtree's operation count uniformly in 0..n-1, the right gets the rest, leaves uniformly in 0..m-1.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trajdiag.tasks.base import IGNORE, SPLITS, Examples, TrainingGroup
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

OPERATORS = "+-*"


@dataclass(frozen=True, kw_only=True)
class Mano:
    """Evaluate a prefix expression over the integers mod `modulus`: input `<bos> expression =`,
    and the answer is the class of the single token that follows.

    Tokens: 0..m-1 the integers, then + - * = <bos> <pad>, then one length token an operation count.
    """

    modulus: int = 7
    """The integers are 0..modulus-1."""
    operators: str = OPERATORS
    """The operators that expressions use, out of `+-*`."""
    min_difficulty: int = 1
    """Fewest operations."""
    max_difficulty: int = 3
    """Most operations; beyond the trained range it asks for extrapolation."""
    length_token: bool = False
    """Put a token that tells the number of operations after <bos>."""
    fit: int = 10_000
    """Examples to fit gates on."""
    val: int = 5_000
    """Examples to choose thresholds on."""
    test: int = 10_000
    """Examples to report on."""
    seeds: tuple[int, int, int] = (42, 43, 44)
    """Seeds of fit, val and test."""

    name = "mano"

    def __post_init__(self) -> None:
        require(2 <= self.modulus <= 10_000, "modulus", "from 2 to 10000", self.modulus)
        require(
            0 < len(self.operators) == len(set(self.operators) & set(OPERATORS)),
            "operators",
            f"some of {OPERATORS}, each once",
            self.operators,
        )
        require_range(0, self.min_difficulty, self.max_difficulty)
        require_splits(self.fit, self.val, self.test, self.seeds, len(self._difficulties))

    @property
    def class_ids(self) -> np.ndarray:
        """int64 [class]: the integers' own tokens."""
        return np.arange(self.modulus)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The integers, as text."""
        return tuple(str(value) for value in range(self.modulus))

    @property
    def vocab_size(self) -> int:
        """Integers, operators, =, <bos>, <pad> and, with `length_token`, the operation counts."""
        return self.modulus + 6 + (self.max_difficulty + 1 if self.length_token else 0)

    def parameters(self) -> dict[str, Any]:
        """The fields, as JSON values."""
        return {**dataclasses.asdict(self), "seeds": list(self.seeds)}

    def examples(self) -> dict[str, Examples]:
        """Balanced by operation count; difficulty is that count."""
        return assemble(self._bins, self._describe, self._pad_id, self._seeds)

    def notes(self) -> dict[str, Any]:
        """The overlap of the splits, by operation count."""
        return overlap_notes(self._bins)

    def training_batch(
        self, rng: np.random.Generator, rows: Mapping[int, int]
    ) -> list[TrainingGroup]:
        """See TrainableTask; inputs of val and test are left out where their bin is ample."""
        groups = []
        for operations, count in rows.items():
            heldout = self._heldout.get(operations)
            input_ids = drop_heldout(self._draw(rng, operations, count), heldout)
            target, completed = evaluate_prefix(self._expression(input_ids), self.modulus)
            dense = np.full(input_ids.shape, IGNORE)
            dense[:, self._lead : -1] = completed
            groups.append(
                TrainingGroup(
                    input_ids=input_ids, target=target, dense=dense, difficulty=operations
                )
            )
        return groups

    @property
    def _pad_id(self) -> int:
        return self.modulus + 5

    @property
    def _lead(self) -> int:
        """Tokens before the expression."""
        return 2 if self.length_token else 1

    @property
    def _difficulties(self) -> range:
        return range(self.min_difficulty, self.max_difficulty + 1)

    @property
    def _seeds(self) -> dict[str, int]:
        return dict(zip(SPLITS, self.seeds, strict=True))

    @cached_property
    def _bins(self) -> list[Bin]:
        sizes = {"fit": self.fit, "val": self.val, "test": self.test}
        return draw_bins(self._draw, self._distinct, self._difficulties, sizes, self._seeds)

    @cached_property
    def _heldout(self) -> dict[int, np.ndarray]:
        return heldout_keys(self._bins)

    def _distinct(self, operations: int) -> int:
        """Binary trees of that size (Catalan number) x operators x leaves."""
        trees = math.comb(2 * operations, operations) // (operations + 1)
        return trees * len(self.operators) ** operations * self.modulus ** (operations + 1)

    def _draw(self, rng: np.random.Generator, operations: int, rows: int) -> np.ndarray:
        """int64 [row, position]: whole inputs with `operations` operations each."""
        operator_ids = self.modulus + np.array([OPERATORS.index(o) for o in self.operators])
        columns = [np.full(rows, self.modulus + 4)]
        if self.length_token:
            columns.append(np.full(rows, self.modulus + 6 + operations))
        columns.extend(_draw_prefix(rng, operations, rows, operator_ids, self.modulus).T)
        columns.append(np.full(rows, self.modulus + 3))
        return np.stack(columns, axis=1)

    def _expression(self, input_ids: np.ndarray) -> np.ndarray:
        return input_ids[:, self._lead : -1]

    def _describe(self, input_ids: np.ndarray) -> Described:
        expression = self._expression(input_ids)
        words = np.array([*self.class_names, *OPERATORS])
        text = words[expression[:, 0]]
        for column in expression.T[1:]:
            text = np.strings.add(np.strings.add(text, " "), words[column])
        target, _ = evaluate_prefix(expression, self.modulus)
        return Described(target=target, text=text, covariates={})


def _draw_prefix(
    rng: np.random.Generator, operations: int, rows: int, operator_ids: np.ndarray, modulus: int
) -> np.ndarray:
    """int64 [row, 2 operations + 1]: prefix expressions, written from left to right with a stack of
    the operation counts of the subtrees still to write."""
    width = 2 * operations + 1
    operators = operator_ids[rng.integers(0, len(operator_ids), (width, rows))]
    leaves = rng.integers(0, modulus, (width, rows))
    uniform = rng.random((width, rows))
    pending = np.zeros((rows, operations + 2), np.int64)
    pending[:, 0] = operations
    top = np.zeros(rows, np.int64)
    tokens = np.empty((rows, width), np.int64)
    row = np.arange(rows)
    for position in range(width):
        budget = pending[row, top]
        inner = budget > 0
        tokens[:, position] = np.where(inner, operators[position], leaves[position])
        left = (uniform[position] * budget).astype(np.int64)
        pending[row, top] = budget - 1 - left
        top = np.where(inner, top + 1, top - 1)
        pending[row[inner], top[inner]] = left[inner]
    return tokens


def evaluate_prefix(expression: np.ndarray, modulus: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of prefix expressions of Mano's tokens, int64 [row, position], of one operation count.

    Gives the value int64 [row], and int64 [row, position]: at each token that completes subtrees
    with an operation, the value of the smallest of them; IGNORE elsewhere.
    """
    rows, width = expression.shape
    row = np.arange(rows)
    value = np.zeros((rows, width + 1), np.int64)
    end = np.zeros((rows, width + 1), np.int64)
    top = np.full(rows, -1)
    completed = np.full((rows, width), IGNORE)
    for position in reversed(range(width)):
        token = expression[:, position]
        leaf = token < modulus
        # From right to left the left operand is the last one pushed.
        left, right = value[row, top], value[row, top - 1]
        operator = token - modulus
        additive = np.where(operator == 0, left + right, left - right)
        result = np.where(operator == 2, left * right, additive)
        last = np.where(leaf, position, end[row, top - 1])
        top = np.where(leaf, top + 1, top - 1)
        value[row, top] = np.where(leaf, token, result % modulus)
        end[row, top] = last
        innermost = ~leaf & (completed[row, last] == IGNORE)
        completed[row[innermost], last[innermost]] = value[row[innermost], top[innermost]]
    return value[:, 0], completed
