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
        drawn = [
            drop_heldout(self._draw(rng, operations, count), self._heldout.get(operations))
            for operations, count in rows.items()
        ]
        bounds = np.cumsum([0, *map(len, drawn)])
        # One evaluation of all: what stands before the shorter ones is read last, as numbers.
        width = max((ids.shape[1] for ids in drawn), default=0) - self._lead - 1
        expressions = np.zeros((bounds[-1], max(width, 0)), np.int64)
        for begin, ids in zip(bounds, drawn, strict=False):
            expression = self._expression(ids)
            expressions[begin : begin + len(ids), width - expression.shape[1] :] = expression
        target, completed = evaluate_prefix(expressions, self.modulus)
        groups = []
        for begin, ids, operations in zip(bounds, drawn, rows, strict=False):
            end, dense = begin + len(ids), np.full(ids.shape, IGNORE)
            labels = self._expression(dense)
            labels[:] = completed[begin:end, width - labels.shape[1] :]
            groups.append(
                TrainingGroup(
                    input_ids=ids, target=target[begin:end], dense=dense, difficulty=operations
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
        expression = _draw_prefix(rng, operations, rows, operator_ids, self.modulus)
        ids = np.empty((rows, self._lead + expression.shape[1] + 1), np.int64)
        ids[:, 0] = self.modulus + 4
        if self.length_token:
            ids[:, 1] = self.modulus + 6 + operations
        self._expression(ids)[:] = expression
        ids[:, -1] = self.modulus + 3
        return ids

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
    pending = np.empty(rows * (operations + 2), np.int64)  # every row's stack, end to end
    top = np.arange(rows) * (operations + 2)
    pending[top] = operations
    tokens = np.empty((width, rows), np.int64)
    for position in range(width):
        budget = pending[top]
        inner = budget > 0
        tokens[position] = np.where(inner, operators[position], leaves[position])
        left = (uniform[position] * budget).astype(np.int64)
        pending[top] = budget - 1 - left
        pending[top + 1] = left  # of an operator: a leaf leaves the stack, and what lies above it
        top += np.where(inner, 1, -1)
    return tokens.T


def evaluate_prefix(expression: np.ndarray, modulus: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of prefix expressions of Mano's tokens, int64 [row, position], which end at the last
    position; numbers may stand before one.

    Gives the value int64 [row], and int64 [row, position]: at each token that completes subtrees
    with an operation, the value of the smallest of them; IGNORE elsewhere.
    """
    rows, width = expression.shape
    tokens = np.ascontiguousarray(expression.T)
    is_leaf, operator = tokens < modulus, tokens - modulus
    of_right, multiplies = np.where(operator == 0, 1, -1), operator == 2
    bottom = np.arange(rows) * (width + 1)  # of every row's stack, which lie end to end
    value = np.zeros(rows * (width + 1), np.int64)
    end = np.zeros_like(value)
    completed = np.full(rows * width, IGNORE)
    first = np.arange(rows) * width
    top = bottom - 1
    for position in reversed(range(width)):
        leaf, below = is_leaf[position], top - 1
        # From right to left the left operand is the last one pushed.
        left, right = value[top], value[below]
        summed = left + of_right[position] * right
        result = np.where(multiplies[position], left * right, summed) % modulus
        last = np.where(leaf, position, end[below])
        top = np.where(leaf, top + 1, below)
        value[top] = np.where(leaf, tokens[position], result)
        end[top] = last
        at = first + last
        innermost = np.flatnonzero(~leaf & (completed[at] == IGNORE))
        completed[at[innermost]] = result[innermost]
    return value[bottom], completed.reshape(rows, width)
