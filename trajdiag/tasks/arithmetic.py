"""Arithmetic: few-shot modular arithmetic in plain text, for language models; generated, so that
nothing is downloaded. Difficulty is the number of operations.

Expression law as in `mano`: the operator uniformly, the left operand's operation count uniformly in
0..n-1, the right gets the rest, numbers uniformly in 0..max_operand.
"""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trajdiag.store.schema import SPLITS
from trajdiag.tasks.options import require, require_range, require_splits
from trajdiag.tasks.questions import Question, Scoring, Style
from trajdiag.tasks.splits import shares

OPERATORS = "+-*"

REGIONS = {"shots": 0.1, "fit": 0.35, "val": 0.2, "test": 0.35}
"""Every expression belongs to one split, or to the few-shot examples, by a hash of its text: these
shares of all expressions. So no split repeats another's, and no question is shown its own answer.
"""

POOL = 24
"""Few-shot examples of each difficulty, to choose from."""

_PATIENCE = 50
"""Draws per row that answers are balanced for; what is missing then takes any answer."""

_POOL_SEED = 41


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """Modular arithmetic after a few solved examples; the choices are the residues.

    One question reads `Question: What is ((3 + 5) * 2) mod 7?`, a new line and `Answer:`; every
    operation but the outermost has its own parentheses, and the outermost those before `mod`.
    """

    modulus: int = 7
    """The answers are 0..modulus-1, one digit each."""
    operators: str = OPERATORS
    """The operators that expressions use, out of `+-*`."""
    max_operand: int = 9
    """Numbers are drawn from 0 to this."""
    min_difficulty: int = 1
    """Fewest operations."""
    max_difficulty: int = 4
    """Most operations."""
    num_fewshot: int = 4
    """Solved examples before each question, drawn for each from a pool of their own, the
    difficulties in turn."""
    fit: int = 1200
    """Questions to fit gates on."""
    val: int = 600
    """Questions to choose thresholds on."""
    test: int = 1200
    """Questions to report on."""
    seeds: tuple[int, int, int] = (42, 43, 44)
    """Seeds of fit, val and test."""

    name = "arithmetic"

    def __post_init__(self) -> None:
        require(2 <= self.modulus <= 10, "modulus", "from 2 to 10", self.modulus)
        require(
            0 < len(self.operators) == len(set(self.operators) & set(OPERATORS)),
            "operators",
            f"some of {OPERATORS}, each once",
            self.operators,
        )
        # Fewer numbers would leave a split without an expression of one operation.
        require(9 <= self.max_operand < 10**9, "max_operand", "from 9 to 10^9", self.max_operand)
        require_range(1, self.min_difficulty, self.max_difficulty)
        require(self.max_difficulty <= 32, "max_difficulty", "at most 32", self.max_difficulty)
        require(0 <= self.num_fewshot <= POOL, "num_fewshot", f"from 0 to {POOL}", self.num_fewshot)
        require_splits(self.fit, self.val, self.test, self.seeds, len(self._difficulties))

    @property
    def style(self) -> Style:
        """Each residue is one token."""
        return "letter"

    @property
    def scoring(self) -> Scoring:
        """One token each, so that nothing is normalised."""
        return "sum"

    @property
    def class_names(self) -> tuple[str, ...]:
        """The residues."""
        return tuple(str(residue) for residue in range(self.modulus))

    def parameters(self) -> dict[str, Any]:
        """The fields, as JSON values."""
        return {**dataclasses.asdict(self), "seeds": list(self.seeds)}

    def questions(self) -> dict[str, list[Question]]:
        """Balanced by operation count, and by answer as far as the expressions go; the questions of
        one expression are one group."""
        sizes = dict(zip(SPLITS, (self.fit, self.val, self.test), strict=True))
        seeds = dict(zip(SPLITS, self.seeds, strict=True))
        return {s: self._split(s, sizes[s], seeds[s]) for s in SPLITS if sizes[s]}

    def notes(self) -> dict[str, Any]:
        """How many different expressions each split holds, by operation count: fewer than its
        questions where there are not enough."""
        drawn = self.questions()
        return {
            "distinct_expressions": [
                {
                    "difficulty": difficulty,
                    **{
                        split: len({q.group for q in questions if q.difficulty == difficulty})
                        for split, questions in drawn.items()
                    },
                }
                for difficulty in self._difficulties
            ]
        }

    @property
    def _difficulties(self) -> range:
        return range(self.min_difficulty, self.max_difficulty + 1)

    def _split(self, split: str, size: int, seed: int) -> list[Question]:
        counts = shares(size, len(self._difficulties))
        drawn = [
            (difficulty, expression, value)
            for difficulty, count in zip(self._difficulties, counts, strict=True)
            for expression, value in self._expressions(split, seed, difficulty, count)
        ]
        rng = np.random.default_rng(seed)
        questions = []
        for place, index in enumerate(rng.permutation(size)):
            difficulty, expression, value = drawn[index]
            questions.append(
                Question(
                    id=f"{split}-{place:06d}",
                    prompt=self._shown(rng) + self._asked(expression),
                    choices=self.class_names,
                    answer=value % self.modulus,
                    group=expression,
                    difficulty=float(difficulty),
                )
            )
        return questions

    def _expressions(
        self, region: str, seed: int, difficulty: int, count: int
    ) -> list[tuple[str, int]]:
        """`count` expressions of a region and their values, in the order drawn."""
        draws = self._draws(np.random.default_rng([seed, difficulty]), region, difficulty)
        quota = Counter(
            {
                (answer + difficulty) % self.modulus: share
                for answer, share in enumerate(shares(count, self.modulus))
            }
        )
        found: list[tuple[str, int]] = []
        for tries, (expression, value) in enumerate(draws):
            if len(found) == count:
                break
            answer = value % self.modulus
            if quota[answer] > 0 or tries > _PATIENCE * count:
                quota[answer] -= 1
                found.append((expression, value))
        return found

    def _draws(
        self, rng: np.random.Generator, region: str, difficulty: int
    ) -> Iterator[tuple[str, int]]:
        """Endless expressions of a region."""
        while True:
            expression, value = self._draw(rng, difficulty)
            if _region(expression) == region:
                yield expression, value

    def _draw(self, rng: np.random.Generator, operations: int) -> tuple[str, int]:
        """One expression, in parentheses where it has an operation, and its value."""
        if operations == 0:
            number = int(rng.integers(self.max_operand + 1))
            return str(number), number
        operator = self.operators[rng.integers(len(self.operators))]
        before = int(rng.integers(operations))
        left, a = self._draw(rng, before)
        right, b = self._draw(rng, operations - 1 - before)
        value = a + b if operator == "+" else a - b if operator == "-" else a * b
        return f"({left} {operator} {right})", value

    @cached_property
    def _pool(self) -> dict[int, list[tuple[str, int]]]:
        return {
            difficulty: self._expressions("shots", _POOL_SEED, difficulty, POOL)
            for difficulty in self._difficulties
        }

    def _shown(self, rng: np.random.Generator) -> str:
        """The solved examples of one question: the difficulties in turn, from easy to hard."""
        counts = shares(self.num_fewshot, len(self._difficulties))
        return "".join(
            f"{self._asked(expression)} {value % self.modulus}\n\n"
            for difficulty, count in zip(self._difficulties, counts, strict=True)
            for expression, value in (
                self._pool[difficulty][i] for i in rng.choice(POOL, count, replace=False)
            )
        )

    def _asked(self, expression: str) -> str:
        return f"Question: What is {expression} mod {self.modulus}?\nAnswer:"


def _region(expression: str) -> str:
    digest = hashlib.sha256(expression.encode()).digest()
    at = int.from_bytes(digest[:8], "big") / 2**64
    for region, share in REGIONS.items():
        if at < share:
            return region
        at -= share
    return "test"
