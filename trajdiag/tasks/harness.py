"""Multiple-choice tasks of lm-evaluation-harness, posed exactly as it poses them."""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np

from trajdiag.errors import ConfigError
from trajdiag.store.schema import SPLITS
from trajdiag.tasks.harness_loading import in_lm_evals_way, load
from trajdiag.tasks.harness_posing import Posing
from trajdiag.tasks.options import name_with, require
from trajdiag.tasks.questions import Question, Scoring

VAL_SHARE = 0.2
"""Of a split that has to serve as val and test, as the paper has it."""


@dataclass(frozen=True, kw_only=True)
class Harness:
    """A multiple-choice task of lm-evaluation-harness, or all tasks of one of its groups.

    test is its test split where that has answers, and val its validation split; where there is only
    one of them, it is divided by `seed`, a fifth into val and the rest into test. fit is its
    training split. lm-eval's acc is the sum score, its acc_norm the chars score.
    """

    task: str
    """Its name in lm-eval, such as arc_easy or mmlu."""
    num_fewshot: int | None = None
    """Examples in each prompt; the task's own number, or 0, when absent."""
    include_path: str | None = None
    """A folder with task files of your own."""
    scoring: Scoring | None = None
    """Which score decides: sum (acc), chars (acc_norm) or tokens. When absent chars, where lm-eval
    gives acc_norm for the task, else sum."""
    fit: int = 2000
    """Questions to fit gates on, at most."""
    val: int | None = None
    """Questions to choose thresholds on, at most; all when absent."""
    test: int | None = None
    """Questions to report on, at most; all when absent."""
    seed: int = 0
    """Divides a split in two, and draws the questions where there are more than asked for."""

    style = "continuation"

    def __post_init__(self) -> None:
        require(
            self.scoring is None or self.scoring in get_args(Scoring),
            "scoring",
            "sum, tokens or chars",
            self.scoring,
        )
        for option, least in (("num_fewshot", 0), ("fit", 0), ("val", 0), ("test", 1), ("seed", 0)):
            value = getattr(self, option)
            require(value is None or value >= least, option, f"at least {least}", value)
        if self.scoring is None:
            normalised = all(posing.has_acc_norm for posing in self._posings)
            object.__setattr__(self, "scoring", "chars" if normalised else "sum")

    @property
    def name(self) -> str:
        """Tells lm-eval's tasks apart."""
        return name_with("lm-eval", self.task)

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """The choices where all questions have the same."""
        kinds = {q.choices for part in self.questions().values() for q in part}
        return kinds.pop() if len(kinds) == 1 else None

    def parameters(self) -> dict[str, Any]:
        """The options, lm-eval's version, and a hash of all questions, which stands for the data
        and the task's file."""
        import lm_eval

        digest = hashlib.sha256()
        for split, questions in self.questions().items():
            for q in questions:
                line = [split, q.id, q.prompt, q.delimiter, q.choices, q.answer]
                digest.update(json.dumps(line).encode())
        return {
            "task": self.task,
            "num_fewshot": self.num_fewshot,
            "scoring": self.scoring,
            "fit": self.fit,
            "val": self.val,
            "test": self.test,
            "seed": self.seed,
            "lm_eval": lm_eval.__version__,
            "sha256": digest.hexdigest(),
        }

    def questions(self) -> dict[str, list[Question]]:
        """A question of lm-eval's own evaluation has the id TASK/NUMBER, another
        TASK/SPLIT/NUMBER; `subtask` counts the tasks of a group, in the order of the notes."""
        return self._questions[0]

    def notes(self) -> dict[str, Any]:
        """Of each task: its version, the examples it shows, and where its splits are from; and how
        many questions were left out for want of a valid answer."""
        return {
            "subtasks": [
                {
                    "name": posing.name,
                    "version": str(posing.task.VERSION),
                    "num_fewshot": posing.num_fewshot,
                    "splits": posing.sources,
                }
                for posing in self._posings
            ],
            "without_answer": self._questions[1],
        }

    @cached_property
    def _posings(self) -> list[Posing]:
        return load(self.task, self.include_path, self.num_fewshot)

    @cached_property
    def _questions(self) -> tuple[dict[str, list[Question]], int]:
        """The questions of each split, and how many were left out."""
        posings = self._posings
        with in_lm_evals_way():
            chosen = self._chosen()
            found: dict[str, list[Question]] = {split: [] for split in SPLITS}
            unanswered = 0
            for subtask, posing in enumerate(posings):
                covariates = {"subtask": float(subtask)} if len(posings) > 1 else {}
                for source in dict.fromkeys(posing.sources.values()):
                    split_of = {
                        number: split
                        for split in SPLITS
                        if posing.sources.get(split) == source
                        for number in chosen[split].get(subtask, [])
                    }
                    for number, question in posing.questions(source, set(split_of)):
                        if question is None:
                            unanswered += 1
                        else:
                            question = replace(question, covariates=covariates)
                            found[split_of[number]].append(question)
        if not found["test"]:
            raise ConfigError(f"lm-eval task {self.task} has no question with an answer to test on")
        return {split: questions for split, questions in found.items() if questions}, unanswered

    def _chosen(self) -> dict[str, dict[int, list[int]]]:
        """The numbers of the questions of each split, by subtask."""
        chosen = {}
        for split, most in (("fit", self.fit), ("val", self.val), ("test", self.test)):
            all_of = [
                (subtask, number)
                for subtask, posing in enumerate(self._posings)
                if split in posing.sources
                for number in self._numbers(posing, split)
            ]
            if most is not None and len(all_of) > most:
                order = np.random.default_rng([self.seed, SPLITS.index(split)])
                all_of = [all_of[i] for i in sorted(order.permutation(len(all_of))[:most])]
            by_subtask: dict[int, list[int]] = {}
            for subtask, number in all_of:
                by_subtask.setdefault(subtask, []).append(number)
            chosen[split] = by_subtask
        return chosen

    def _numbers(self, posing: Posing, split: str) -> list[int]:
        """The questions of the data set's split that are in ours."""
        count = len(posing.docs(posing.sources[split]))
        if split == "fit" or posing.sources["val"] != posing.sources["test"]:
            return list(range(count))
        order = np.random.default_rng(self.seed).permutation(count)
        val = round(VAL_SHARE * count)
        return sorted(order[:val].tolist() if split == "val" else order[val:].tolist())
