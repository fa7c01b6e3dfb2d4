"""Questions as lm-evaluation-harness poses them: the requests that it builds itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trajdiag.errors import ConfigError
from trajdiag.foreign import running
from trajdiag.tasks.questions import Question
from trajdiag.whole_text import is_whole

FEWSHOT_SEED = 1234
"""What lm-eval draws few-shot examples with unless told otherwise."""

_LOOKED_AT = 20
"""Questions of a split that tell whether it has answers: a split without has none at all."""


class _Without:
    """A few-shot sampler that never shows the question itself."""

    def __init__(self, sampler: Any, doc: Any) -> None:
        self.sampler, self.doc = sampler, doc

    def sample(self, n: int, **_: Any) -> Any:
        return self.sampler.sample(n=n, eval_doc=self.doc)


@dataclass(frozen=True)
class Posing:
    """One of lm-eval's multiple-choice tasks."""

    task: Any
    """lm_eval.api.task.ConfigurableTask"""

    @property
    def name(self) -> str:
        return str(self.task.config.task)

    @property
    def num_fewshot(self) -> int:
        return self.task.config.num_fewshot or 0

    @property
    def has_acc_norm(self) -> bool:
        return "acc_norm" in self.task.aggregation()

    @property
    def evaluated(self) -> str:
        """The data set's split that lm-eval itself evaluates on."""
        return self.task.config.test_split or self.task.config.validation_split

    @cached_property
    def sources(self) -> dict[str, str]:
        """Which of the data set's splits each of ours is made of. Where val and test are one, it is
        to be divided."""
        config, there = self.task.config, self.task.dataset
        # MMLU's tasks name no validation split, though their data has one.
        val = self._answered(config.validation_split or "validation")
        test = self._answered(config.test_split) or val
        if test is None:
            raise ConfigError(
                f"lm-eval task {self.name}: neither its test nor its validation split has answers"
            )
        found = {"val": val or test, "test": test}
        if config.training_split in there and config.training_split not in (val, test):
            found["fit"] = config.training_split
        return found

    def docs(self, source: str) -> Any:
        """A split's questions, as lm-eval prepares them."""
        kept: dict[str, Any] = self.__dict__.setdefault("_docs", {})
        if source not in kept:
            rows, prepare = self.task.dataset[source], self.task.config.process_docs
            with running(f"lm-eval task {self.name}, preparing {source}"):
                kept[source] = rows if prepare is None else prepare(rows)
        return kept[source]

    def questions(self, source: str, wanted: set[int]) -> Iterator[tuple[int, Question | None]]:
        """The questions of these numbers, in their order; None for one without a valid answer.

        In the evaluated split the examples shown are those of lm-eval's own run, which draws them
        question after question; elsewhere they follow from the question's number, and leave the
        question itself out.
        """
        task, sampler = self.task, self.task.sampler
        task.set_fewshot_seed(FEWSHOT_SEED)
        own_run = source == self.evaluated
        docs = self.docs(source)
        for number in range(max(wanted, default=-1) + 1) if own_run else sorted(wanted):
            doc = docs[number]
            if number not in wanted:
                excluding = task.fewshot_cfg.split == task.config.test_split
                if self.num_fewshot:
                    sampler.sample(n=self.num_fewshot, eval_doc=doc if excluding else None)
                continue
            try:
                if not own_run:
                    task.set_fewshot_seed(FEWSHOT_SEED + number)
                    task.sampler = _Without(sampler, doc if source == self._shown_from else None)
                with running(f"lm-eval task {self.name}, question {number} of {source}"):
                    yield number, self._question(source, number, doc)
            finally:
                task.sampler = sampler

    def _question(self, source: str, number: int, doc: Any) -> Question | None:
        id = f"{self.name}/{number}"
        id = id if source == self.evaluated else f"{self.name}/{source}/{number}"
        answer = self._answer(doc)
        if answer is None:
            return None
        context = self.task.fewshot_context(
            doc=doc, num_fewshot=self.num_fewshot, gen_prefix=self.task.doc_to_prefix(doc)
        )
        requests = self.task.construct_requests(
            doc=doc, ctx=context, metadata=(self.name, number, self.task.config.repeats)
        )
        choices = tuple(self.task.doc_to_choice(doc))
        delimiter = self.task.config.target_delimiter
        if len(choices) < 2 or not all(isinstance(c, str) and c and is_whole(c) for c in choices):
            raise ConfigError(f"{id}: its choices must be 2 or more texts, got {choices!r:.80}")
        pairs = [request.args for request in requests]
        # A task with acc_mutual_info asks for each choice without context too, after these.
        if pairs[: len(choices)] != [(context, f"{delimiter}{c}") for c in choices]:
            raise ConfigError(
                f"lm-eval task {self.name} scores something else than each choice after one prompt"
            )
        return Question(id=id, prompt=context, choices=choices, answer=answer, delimiter=delimiter)

    def _answer(self, doc: Any) -> int | None:
        """The index of the right choice, by lm-eval's own rule; None where there is none."""
        gold, choices = self.task.doc_to_target(doc), self.task.doc_to_choice(doc)
        if isinstance(gold, list):
            raise ConfigError(
                f"lm-eval task {self.name} has questions with several right choices, which are not "
                "supported"
            )
        if isinstance(gold, str):
            return choices.index(gold) if gold in choices else None
        return int(gold) if isinstance(gold, int) and 0 <= gold < len(choices) else None

    def _answered(self, source: str | None) -> str | None:
        """`source`, if there is such a split and its questions have answers."""
        if source is None or source not in self.task.dataset:
            return None
        docs = self.docs(source)
        with running(f"lm-eval task {self.name}, answers of {source}"):
            few = range(min(_LOOKED_AT, len(docs)))
            return source if any(self._answer(docs[n]) is not None for n in few) else None

    @property
    def _shown_from(self) -> str | None:
        """The split that few-shot examples are drawn from."""
        config, fewshot = self.task.config, self.task.fewshot_cfg
        if fewshot.split is not None:
            return fewshot.split
        if fewshot.samples is not None:
            return None
        return config.training_split or config.validation_split or config.test_split
