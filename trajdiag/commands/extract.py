"""`trajdiag extract`."""

import contextlib
import sys
from typing import Annotated

from cyclopts import Parameter

from trajdiag.cachedir import is_url
from trajdiag.commands.console import say_contents, to_stderr
from trajdiag.extraction.config import ExtractConfig
from trajdiag.extraction.freeze import extract as extract_store
from trajdiag.names import options_of


def extract(config: Annotated[ExtractConfig, Parameter(name="*")]) -> None:
    """Run a looped model once over a task and store every loop's states, logits and signals.

    Prints the store's path. Running it again is safe: an unfinished store is resumed, a complete
    one left alone. An option of the task is given as --task-options.max-difficulty 6.
    """
    options = options_of(config)
    model, task = options.pop("model"), options.pop("task")
    options["task_options"] = {k.replace("-", "_"): v for k, v in config.task_options.items()}
    with contextlib.redirect_stdout(sys.stderr):  # on which Ray, and a model of yours, may print
        store = extract_store(model, task, progress=to_stderr, **options)
    if store.record.complete and not is_url(store.location):  # where its logits are near
        say_contents(store)
    print(store.location)
