"""A file of somebody else's own run, made into a store in the cache."""

import difflib
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajdiag.cachedir import STORE_SUFFIX, stores_folder
from trajdiag.errors import ConfigError, UnknownNameError, shown
from trajdiag.names import checked_options, require_name, require_type, settle_fields
from trajdiag.progress import Progress
from trajdiag.store.arrays_file import open_arrays
from trajdiag.store.from_arrays import from_arrays
from trajdiag.store.given_probabilities import GATE_PROBABILITY
from trajdiag.store.reader import Store
from trajdiag.store.schema import COVARIATE, GATE

NEEDED = ("hidden", "logits", "target")
OPTIONAL = (GATE, GATE_PROBABILITY, "difficulty", "group", "split", "id", "input", "class_names")
_GATE_TOO = "gate"
"""Taken for gate_logit."""
_SHOWN = 12
"""Names in an error."""
_KNOWN = f"{', '.join((*NEEDED, *OPTIONAL))} and {COVARIATE}NAME"


@dataclass(frozen=True, kw_only=True)
class ImportConfig:
    """The options of `import`."""

    store: str | None = None
    """Where the store goes, a folder or a URL such as s3://BUCKET/NAME.zarr, in place of the
    cache."""
    name: str | None = None
    """The store's name; the file's, without its ending, when absent."""
    rename: tuple[tuple[str, str], ...] = ()
    """What an array of the file is: --rename model.states hidden."""
    ignore: tuple[str, ...] = ()
    """An array of the file to leave out; may be given several times."""
    seed: int = 0
    """Of the splits that are drawn where the file has none."""
    cache_dir: str | None = None
    """The cache root; $TRAJDIAG_CACHE or ./cache when absent."""
    overwrite: bool = False
    """Make the store again where there is one."""

    def __post_init__(self) -> None:
        settle_fields(self)
        if self.store is not None and self.name is not None:
            raise ConfigError("give --store, which ends in the store's name, or --name, not both")
        if len({old for old, _ in self.rename}) < len(self.rename):
            raise ConfigError(f"rename each array once, got {shown(self.rename)}")
        for _, new in self.rename:
            if not _is_known(new):
                raise UnknownNameError(
                    "array to rename to:", new, (*NEEDED, *OPTIONAL, f"{COVARIATE}NAME")
                )

    def command(self, file: Path) -> str:
        """The command line that does the same, in the folder of the file."""
        words = ["trajdiag", "import", file.name]
        for old, new in self.rename:
            words += ["--rename", old, new]
        for name in self.ignore:
            words += ["--ignore", name]
        for option in ("store", "name", "seed", "cache_dir"):
            value = getattr(self, option)
            if value not in (None, 0):
                words += [f"--{option.replace('_', '-')}", str(value)]
        return shlex.join(words)


def import_arrays(
    file: str | os.PathLike[str],
    *,
    progress: Progress = lambda line: None,
    **options: Any,
) -> Store:
    """The store of the arrays in `file`: made, or, when it is there already, just opened.

    `file` is an .npz, a .safetensors, or a folder of .npy files, with arrays named and shaped as
    the arguments of `from_arrays`, covariates as `covariate/NAME`; `options` are the fields of
    ImportConfig. Arrays are read by pieces and may be larger than memory, but for an .npz's that
    are stored column by column. Raises what `from_arrays` does, ConfigError for a file that cannot
    be read or lacks an array, and UnknownNameError for a name in `options` that the file lacks.
    """
    options = checked_options("import", ImportConfig, options, "progress")
    config = ImportConfig(**options)
    file = require_type("file", file, str)
    if not file:
        raise ConfigError("name a file to import")
    path = Path(file)
    stem = path.resolve().name if path.is_dir() else path.stem
    name = require_name("store", (config.name or stem).removesuffix(STORE_SUFFIX))
    try:
        with open_arrays(path) as arrays:
            named = _named(path, arrays, config)
            by_loop = ("hidden", "logits", GATE, GATE_PROBABILITY)
            loops = {key: named.pop(key) for key in by_loop if key in named}
            values = {key: _whole(array) for key, array in named.items()}
            covariates = {
                key.removeprefix(COVARIATE): values.pop(key)
                for key in list(values)
                if key.startswith(COVARIATE)
            }
            return from_arrays(
                config.store or stores_folder(config.cache_dir) / (name + STORE_SUFFIX),
                **loops,
                **values,
                covariates=covariates,
                seed=config.seed,
                overwrite=config.overwrite,
                source=path.resolve().name,
                command=config.command(path.resolve()),
                progress=progress,
            )
    except MemoryError as error:
        raise ConfigError(
            f"{path} does not fit in memory: {error or 'none is left'}; what is held whole is what "
            "is given by example, and an .npz's arrays that are stored column by column"
        ) from error


def _named(path: Path, arrays: Mapping[str, Any], config: ImportConfig) -> dict[str, Any]:
    """The arrays to take, by the names that `from_arrays` knows."""
    for old in (*(old for old, _ in config.rename), *config.ignore):
        if old not in arrays:
            raise UnknownNameError(f"array of {path}:", old, arrays)
    renamed = dict(config.rename)
    found: dict[str, str] = {}
    for old in arrays:
        if old in config.ignore:
            continue
        new = renamed.get(old, old)
        new = GATE if new == _GATE_TOO else new
        if new in found:
            raise ConfigError(
                f"{path}: both {found[new]} and {old} are to be {new}; --ignore one of them"
            )
        found[new] = old
    unknown = [name for name in found if not _is_known(name)]
    missing = [name for name in NEEDED if name not in found]
    if missing or unknown:
        wrong = f"it lacks {_list(missing)}; " if missing else ""
        advice = f"write it again with {_list(missing)}"
        if unknown:
            wrong += f"not known: {_list(unknown)}; "
            likely = {name: _likely(name, found) for name in unknown}
            old = next((name for name in unknown if likely[name]), unknown[0])
            new = likely[old] or (missing[0] if missing else COVARIATE + _last_part(old))
            advice = (
                f"say what an array is, as by {shlex.join(['--rename', old, new])}, or leave it "
                f"out by {shlex.join(['--ignore', old])}"
            )
        raise ConfigError(f"{path} holds {_list(arrays)}; {wrong}import takes {_KNOWN}; {advice}")
    return {new: arrays[old] for new, old in found.items()}


_OFTEN = {
    **dict.fromkeys(("states", "hidden_states", "embeddings", "activations"), "hidden"),
    **dict.fromkeys(("labels", "label", "y", "answer", "answers", "targets"), "target"),
    **dict.fromkeys(("scores", "predictions", "outputs"), "logits"),
}
"""Other names that people give to these arrays."""


def _likely(name: str, found: Mapping[str, str]) -> str | None:
    """What an array of an unknown name probably is, of what was not found."""
    free = [known for known in (*NEEDED, *OPTIONAL) if known not in found]
    free += [_GATE_TOO] if GATE in free else []
    called = _last_part(name).lower()
    close = difflib.get_close_matches(_OFTEN.get(called, called), free, 1)
    return close[0] if close else None


def _last_part(name: str) -> str:
    return name.strip("/").rpartition("/")[2] or "NAME"


def _is_known(name: str) -> bool:
    return name in (*NEEDED, *OPTIONAL, _GATE_TOO) or (
        name.startswith(COVARIATE) and name != COVARIATE
    )


def _list(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _whole(array: Any) -> Any:
    """A per-example array, read."""
    return array[:] if array.shape else array
