"""`trajdiag import`."""

import shlex
from typing import Annotated

from cyclopts import Parameter

from trajdiag.commands.console import say_contents, to_stderr
from trajdiag.names import options_of
from trajdiag.store.arrays_import import ImportConfig
from trajdiag.store.arrays_import import import_arrays as import_file
from trajdiag.store.reader import Store


def import_arrays(
    file: Annotated[
        str,
        Parameter(
            help="An .npz, a .safetensors, or a folder of .npy files, with hidden [example, loop, "
            "d_model], logits [example, loop, class] and target [example], class indices from 0. "
            "It may hold gate_logit (or gate) [example, loop]: the logit of the chance of stopping "
            "at each loop, or gate_probability [example, loop]: the chance itself; class_names; "
            "and, an entry an example, "
            "difficulty, group (what is resampled together), split (fit, val, test, or 0, 1, 2), "
            "id, input, and further numbers as covariate/NAME."
        ),
    ],
    *,
    options: Annotated[ImportConfig, Parameter(name="*")] = ImportConfig(),  # noqa: B008
) -> None:
    """Make a store of the arrays of your own run, of a model that trajdiag cannot load.

    Everything is checked before anything is written; nothing is unpickled, and arrays may be larger
    than memory. Prints the store's path. Running it again is safe: the same arrays open the store
    that is there.
    """
    store = import_file(file, progress=to_stderr, **options_of(options))
    say_contents(store)
    words = ["trajdiag", _next(store), options.store or store.name]
    if options.cache_dir is not None:
        words += ["--cache-dir", options.cache_dir]
    to_stderr(f"next: {shlex.join(words)}")
    print(store.location)


def _next(store: Store) -> str:
    return "report" if {"val", "test"} <= set(store.splits) else "show"
