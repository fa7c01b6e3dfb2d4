"""Checkpoints on the Hugging Face hub: weights, configs and tokenizers, never code, never pickles.

A populated cache is enough: a commit that it holds is opened without asking, and where the hub
cannot be asked, what the cache has for a branch or tag is opened instead.
"""

import errno
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from trajdiag.errors import CheckpointError, OutOfSpaceError, TrajdiagWarning
from trajdiag.models.checkpoint import CONFIG
from trajdiag.models.weights import INDEX, SINGLE, listed, read_json

ALIASES = {
    "huginn": "tomg-group-umd/huginn-0125",
    "ouro-1.4b": "ByteDance/Ouro-1.4B",
    "ouro-1.4b-thinking": "ByteDance/Ouro-1.4B-Thinking",
    "ouro-2.6b": "ByteDance/Ouro-2.6B",
    "ouro-2.6b-thinking": "ByteDance/Ouro-2.6B-Thinking",
}
"""Short names of repositories on the hub."""

TAKEN = ["*.safetensors", "*.json", "tokenizer.model", "merges.txt", "vocab.txt"]
"""The files that are downloaded, from the top of a repository only."""
_LEFT = ["*/*"]
_MAIN = "main"
_LONGEST = 96


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One commit of a repository, on this machine."""

    folder: Path
    commit: str
    interrupted: bool = False
    """Whether the hub's client knows of files that it has yet to get."""


def is_hub_id(name: str) -> bool:
    """Whether `name` could be a repository, owner/name."""
    plain = re.fullmatch(r"\w[\w.-]*/\w([\w.-]*\w)?", name, re.ASCII) is not None
    return plain and not re.search(r"--|\.\.|\.git$", name) and len(name) <= _LONGEST


def hub_name(repository: str) -> str:
    """What its models are called: the repository's alias, else its own name without the owner."""
    short = {whole: alias for alias, whole in ALIASES.items()}
    return short.get(repository) or repository.partition("/")[2]


def is_cached(repository: str) -> bool:
    """Whether `snapshot` would do without the hub."""
    try:
        found = _cached(repository, _MAIN)
    except CheckpointError:
        return False
    return found is not None and not _missing(found.folder)


def snapshot(repository: str, revision: str | None = None) -> Snapshot:
    """A repository at a branch, tag or commit, `main` by default: downloaded where it is not there.

    Warns where the hub could not be asked and the cache's copy is taken. Raises CheckpointError
    saying what to do where there is none, the repository or the revision does not exist, or it is
    not open to this user; OutOfSpaceError where the disk is full.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import RevisionNotFoundError

    wanted = revision or _MAIN
    cached = _cached(repository, wanted)
    whole = cached is not None and not _missing(cached.folder)
    if cached is not None and whole and cached.commit == wanted and not cached.interrupted:
        return cached
    if constants.HF_HUB_OFFLINE:
        if cached is not None and whole:
            return cached
        _refuse_absent(repository, wanted, cached, "HF_HUB_OFFLINE is set")
    trouble = _trouble_asking(repository, wanted)
    if trouble is None:
        return _download(repository, wanted)
    if cached is None or not whole or isinstance(trouble, RevisionNotFoundError):
        _refuse(repository, wanted, cached, trouble)
    warnings.warn(
        f"cannot ask the hub for {wanted} of {repository} ({_one_line(trouble)}); going on with "
        f"the cache's commit {cached.commit}",
        TrajdiagWarning,
        stacklevel=2,
    )
    return cached


def _cached(repository: str, wanted: str) -> Snapshot | None:
    """What the cache has, whole or not. Raises CheckpointError where it cannot be read."""
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            repository,
            revision=wanted,
            cache_dir=constants.HF_HUB_CACHE,
            allow_patterns=TAKEN,
            ignore_patterns=_LEFT,
            local_files_only=True,
        )
    except LocalEntryNotFoundError as error:
        # The library knows of an interrupted download, and where it lies.
        folder = getattr(error, "snapshot_path", None)
        if folder is None:
            return None
        return Snapshot(folder=Path(folder), commit=Path(folder).name, interrupted=True)
    except (OSError, ValueError) as error:
        cache = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"
        raise CheckpointError(
            f"cannot look up {wanted[:80]!r} of {repository} in the hub's cache "
            f"({_one_line(error)}); check the name, or remove {cache / 'refs'} and ask the hub anew"
        ) from error
    return Snapshot(folder=Path(folder), commit=Path(folder).name)


def _missing(folder: Path) -> list[str]:
    """The files without which a snapshot is no checkpoint."""
    missing = [] if (folder / CONFIG).is_file() else [CONFIG]
    if (folder / SINGLE).is_file():
        return missing
    if not (folder / INDEX).is_file():
        return [*missing, SINGLE]
    shards = read_json(folder / INDEX).get("weight_map")
    named = sorted({str(name) for name in shards.values()}) if isinstance(shards, dict) else []
    return missing + [name for name in named if not (folder / name).is_file()]


def _trouble_asking(repository: str, wanted: str) -> Exception | None:
    """What the hub, or the way to it, has against this revision; None where it is to be had.

    Asked once, with a time limit: the download itself retries for half a minute.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError

    # The HTTP library's own errors; which library that is depends on the client's version.
    transport: Any = HfHubHTTPError.__bases__
    try:
        HfApi().model_info(repository, revision=wanted, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except transport as error:
        return error
    return None


def _download(repository: str, wanted: str) -> Snapshot:
    from huggingface_hub import constants, snapshot_download

    try:
        folder = Path(
            snapshot_download(
                repository,
                revision=wanted,
                cache_dir=constants.HF_HUB_CACHE,
                allow_patterns=TAKEN,
                ignore_patterns=_LEFT,
            )
        )
    except Exception as error:
        if getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error):
            raise OutOfSpaceError(
                f"no space left in {constants.HF_HUB_CACHE} for {repository}; make room, or set "
                "HF_HOME to a folder with more (what is there already is kept)"
            ) from error
        _refuse(repository, wanted, _cached(repository, wanted), error)
    if missing := _missing(folder):
        raise CheckpointError(
            f"{repository} at {folder.name} lacks {listed(missing)}: only repositories with "
            f"{CONFIG} and safetensors are read"
        )
    return Snapshot(folder=folder, commit=folder.name)


def _refuse(repository: str, wanted: str, cached: Snapshot | None, trouble: Exception) -> NoReturn:
    """Say in one line why a repository is not to be had, and what to do."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    where = f"{constants.ENDPOINT}/{repository}"
    if isinstance(trouble, RevisionNotFoundError):
        said = f"{repository} has no revision {wanted!r}: give a branch, a tag or a whole commit"
    elif isinstance(trouble, GatedRepoError):
        said = f"{repository} is gated: accept its terms at {where}, then `hf auth login`"
    elif isinstance(trouble, RepositoryNotFoundError):
        said = (
            f"no repository {repository} at {constants.ENDPOINT} for this user, and no folder here "
            "of that name; check the name, or `hf auth login` if it is private"
        )
    elif isinstance(trouble, PermissionError):
        said = f"cannot write to the hub's cache: {trouble}; set HF_HOME to a folder of your own"
    else:
        _refuse_absent(
            repository, wanted, cached, f"the hub does not answer ({_one_line(trouble)})"
        )
    raise CheckpointError(said) from trouble


def _refuse_absent(repository: str, wanted: str, cached: Snapshot | None, why: str) -> NoReturn:
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    if cached is not None:
        lacks = listed(_missing(cached.folder))
        state = f"incomplete in the hub's cache: {cached.folder} lacks {lacks}"
    else:
        others = cache / f"models--{repository.replace('/', '--')}" / "snapshots"
        commits = sorted(path.name for path in others.glob("*"))
        # An id that is no alias may be a mistyped path.
        no_folder = "" if repository in ALIASES.values() else "no folder here and "
        state = f"{no_folder}not in the hub's cache {cache}"
        if wanted != _MAIN or commits:
            state += f" at {wanted}"
        if commits:
            state += f" (it holds --revision {' and '.join(commits)})"
    takes = " ".join(f"--include '{pattern}'" for pattern in TAKEN[:2])
    pinned = "" if wanted == _MAIN else f" --revision {wanted}"
    raise CheckpointError(
        f"{repository} is {state}, and {why}; where there is a network, run "
        f"`hf download {repository}{pinned} {takes}` and bring that cache here (HF_HOME names the "
        "folder that holds hub/)"
    )


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
