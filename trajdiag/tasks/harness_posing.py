"""Questions as lm-evaluation-harness poses them: its tasks loaded, and its own requests read."""

import contextlib
import difflib
import io
import logging
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.tasks.foreign import running
from trajdiag.tasks.questions import Question
from trajdiag.tasks.records import is_whole

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


def load(name: str, include_path: str | None, num_fewshot: int | None) -> list[Posing]:
    """The multiple-choice tasks that lm-eval knows as `name`: one, or a group's or tag's all.

    Raises ConfigError where lm-eval is not installed, the data cannot be had, or a task is of a
    kind that is not supported; UnknownNameError where nothing bears the name.
    """
    with in_lm_evals_way():
        manager = index_with(name, include_path)
        if name not in manager.task_index:
            close = difflib.get_close_matches(name, manager.all_tasks, n=8)
            raise UnknownNameError(
                "lm-eval task", name, close, "Those are the closest; all: lm-eval ls tasks"
            )
        try:
            tasks = manager.load([name])["tasks"]
        except Exception as error:
            reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
            # The library's errors for data that is missing or out of reach are all of this kind.
            if isinstance(error, OSError):
                reason += (
                    ". Run it once with a network, or set HF_HOME to a cache that holds its data, "
                    "and HF_HUB_OFFLINE=1"
                )
            raise ConfigError(f"lm-eval task {name} cannot be loaded: {reason}") from error
    if not tasks:
        raise ConfigError(f"lm-eval task {name} is a group of no tasks")
    posings = [Posing(task) for _, task in sorted(tasks.items())]
    for posing in posings:
        _require_supported(posing)
        if num_fewshot is not None:
            if posing.task.config.num_fewshot == 0 != num_fewshot:
                raise ConfigError(
                    f"lm-eval task {posing.name} is posed without examples, whatever num_fewshot "
                    "says; leave it out"
                )
            posing.task.set_config(key="num_fewshot", value=num_fewshot)
    return posings


@contextlib.contextmanager
def in_lm_evals_way() -> Iterator[None]:
    """lm-eval's random state, and silence of its logs, progress bars and prints; all as it was
    afterwards."""
    try:
        import datasets
        import lm_eval  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"lm-eval tasks need lm-evaluation-harness ({error}); pip install trajdiag[eval]"
        ) from None
    loggers = [logging.getLogger(name) for name in ("lm_eval", "datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    bars = datasets.is_progress_bar_enabled()
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        datasets.disable_progress_bars()
        # Some tasks shuffle their data with these.
        random.seed(0)
        np.random.seed(FEWSHOT_SEED)  # noqa: NPY002
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        if bars:
            datasets.enable_progress_bars()
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _require_supported(posing: Posing) -> None:
    task, where = posing.task, f"lm-eval task {posing.name}"
    if task.OUTPUT_TYPE != "multiple_choice":
        raise ConfigError(
            f"{where} is of output type {task.OUTPUT_TYPE}; only multiple_choice is supported"
        )
    unlike = {
        "has prompts that differ from choice to choice": task.multiple_input,
        "has questions with several right choices": task.multiple_target,
        "scores its answers by a function of its own": callable(task.config.process_results),
        "shows images or sounds": getattr(task, "MULTIMODAL", False),
        "runs code that it marks as unsafe": getattr(task, "UNSAFE_CODE", False),
    }
    for reason, holds in unlike.items():
        if holds:
            raise ConfigError(f"{where} {reason}, which is not supported")


def index_with(name: str, include_path: str | None) -> Any:
    """An lm_eval TaskManager that knows all of `name`, if there is such a task.

    Indexing lm-eval's 14,000 files takes ten seconds or more, the few that matter none.
    """
    import lm_eval.tasks

    if include_path is not None:
        if not Path(include_path).is_dir():
            raise ConfigError(f"task option include_path: no folder {include_path}")
        own = lm_eval.tasks.TaskManager(include_path=include_path, include_defaults=False)
        if _is_whole(own.task_index, name):
            return own
    else:
        line = f"task: {name}"
        root = Path(lm_eval.tasks.__file__).parent
        folders = {
            str(path.parent)
            for path in root.glob("**/*.yaml")
            if line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        }
        # Of several tasks of one name lm-eval takes the first file's, but the last folder's.
        ordered = sorted(folders, reverse=True)
        few = lm_eval.tasks.TaskManager(include_path=ordered, include_defaults=False)
        if name in few.all_subtasks:
            return few
    return lm_eval.tasks.TaskManager(include_path=include_path)


def _is_whole(index: Any, name: object) -> bool:
    """Whether a task, or every task of a group or tag, is in the index."""
    entry = index.get(name) if isinstance(name, str) else None
    if entry is None:
        return False
    if entry.kind.name == "TAG":
        return all(_is_whole(index, member) for member in entry.tags)
    if entry.kind.name == "GROUP":
        members = (entry.cfg or {}).get("task")
        return isinstance(members, list) and all(_is_whole(index, m) for m in members)
    return True
