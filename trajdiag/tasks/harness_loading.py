"""Tasks of lm-evaluation-harness found and loaded, in its own way and silently."""

import contextlib
import difflib
import functools
import io
import logging
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.tasks.harness_posing import FEWSHOT_SEED, Posing


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
                "lm-eval task",
                name,
                close,
                "These are the closest" if close else "`lm-eval ls tasks` lists them all",
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
        import lm_eval.utils
    except ImportError as error:
        raise ConfigError(
            f"lm-eval tasks need lm-evaluation-harness ({error}); pip install trajdiag[eval]"
        ) from None
    loggers = [logging.getLogger(name) for name in ("lm_eval", "datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    bars = datasets.is_progress_bar_enabled()
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    templates: Any = lm_eval.utils.env
    try:
        # lm-eval compiles a task's few templates anew for every question and every example, which
        # takes nine tenths of the time.
        templates.from_string = functools.cache(templates.from_string)
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        datasets.disable_progress_bars()
        # Some tasks shuffle their data with these.
        random.seed(0)
        np.random.seed(FEWSHOT_SEED)  # noqa: NPY002
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        vars(templates).pop("from_string", None)
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
        names_it = re.compile(
            rf"""^["']?task["']?: *["']?{re.escape(name)}["']? *$""", re.MULTILINE
        )
        root = Path(lm_eval.tasks.__file__).parent
        folders = {
            path.parent
            for path in root.glob("**/*.yaml")
            if names_it.search(path.read_text(encoding="utf-8", errors="replace"))
        }
        # Of several tasks of one name lm-eval takes the first file's, but the last folder's.
        ordered: list[str | Path] = sorted(folders, reverse=True)
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
