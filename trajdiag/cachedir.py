"""Where artifacts live: the cache root and the folders under it, and how a STORE argument is
found."""

import json
import math
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

from trajdiag.errors import ConfigError, StoreError, UnknownNameError, shown

STORE_SUFFIX = ".zarr"
_LONGEST = 3000
"""Bytes of the cache's path: systems take 4,096, and folders and files follow."""
_MOST_BYTES = 240
"""Of a folder's name; file systems take 255, and what is being written bears a longer one."""


def is_url(location: str | os.PathLike[str]) -> bool:
    """Whether this names a place that fsspec opens, such as s3://BUCKET/KEY."""
    return isinstance(location, str) and "://" in location


def cache_root(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """The cache root: `cache_dir`, else $TRAJDIAG_CACHE, else ./cache.

    Raises ConfigError where that is a URL, or what no folder's path can be.
    """
    given = None if cache_dir is None else _as_text(cache_dir)
    root = given or os.environ.get("TRAJDIAG_CACHE") or "cache"
    if is_url(root):
        raise ConfigError(
            f"the cache is a folder on this machine, got {shown(root)}; a store may be elsewhere: "
            "name its URL (in extract by --store)"
        )
    too_long = _bytes(root) > _LONGEST or any(_bytes(part) > 255 for part in Path(root).parts)
    if "\0" in root or too_long:
        raise ConfigError(
            f"the cache's path must be text in UTF-8 without NUL, at most {_LONGEST:,} bytes long "
            f"and 255 in each part, got {shown(root)}"
        )
    return Path(root)


def _as_text(cache_dir: Any) -> str:
    text = os.fspath(cache_dir) if isinstance(cache_dir, str | os.PathLike) else None
    if not isinstance(text, str):
        raise ConfigError(f"the cache is a folder's path, got {shown(cache_dir)}")
    return text


def _bytes(text: str) -> float:
    """Its length in UTF-8; infinite where it has half characters."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return math.inf


def cache_option(cache_dir: str | os.PathLike[str] | None) -> str:
    """What a command must end in to find this cache: nothing where it is the usual one."""
    return "" if cache_dir is None else f" --cache-dir {shlex.quote(os.fspath(cache_dir))}"


def no_folder(name: str) -> str:
    """That no folder is there, where a name that nothing bears is a path; else nothing."""
    is_path = os.sep in name or name.startswith((".", "~")) or name.endswith(STORE_SUFFIX)
    return ": there is no such folder" if is_path else ""


def stores_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Home of the stores."""
    return cache_root(cache_dir) / "stores"


def checkpoints_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Home of trained checkpoints."""
    return cache_root(cache_dir) / "checkpoints"


def gates_folder(store_name: str, cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Home of the gates fitted on the store of this name."""
    return cache_root(cache_dir) / "gates" / store_name


def readouts_folder(store_name: str, cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Home of the readout files chosen on the store of this name."""
    return cache_root(cache_dir) / "readouts" / store_name


def latency_folder(store_name: str, cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Home of what was measured of readouts run live on the store of this name."""
    return cache_root(cache_dir) / "latency" / store_name


def reports_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Home of reports."""
    return cache_root(cache_dir) / "reports"


def blocks_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Home of the blocks of far stores that were read."""
    return cache_root(cache_dir) / "blocks"


def store_name(path: str | os.PathLike[str]) -> str:
    """A store's name: the last part of its path or URL, without .zarr."""
    return Path(path).name.removesuffix(STORE_SUFFIX)


def require_place(location: Any) -> None:
    """Raise ConfigError where no store can be made at `location`: what is no path or URL, or does
    not end in a name that a folder can bear."""
    text = os.fspath(location) if isinstance(location, str | os.PathLike) else None
    if not isinstance(text, str):
        raise ConfigError(
            f"a store is made at a folder's path or a URL, got {type(location).__name__}"
        )
    size = _bytes(Path(text).name)
    if "\0" in text or store_name(text) in ("", "..") or not 0 < size <= _MOST_BYTES:
        raise ConfigError(
            f"a store's path must end in its name, as NAME.zarr, of at most {_MOST_BYTES} bytes in "
            f"UTF-8, got {ascii(text)[:80]}"
        )


def complete_stores(cache_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """The complete stores of the cache, newest first."""
    return [path for path, complete in all_stores(cache_dir) if complete]


def all_stores(cache_dir: str | os.PathLike[str] | None = None) -> list[tuple[Path, bool]]:
    """The stores of the cache and whether each is complete, newest first (by creation time, then
    by name)."""
    found = []
    for path in stores_folder(cache_dir).glob(f"*{STORE_SUFFIX}"):
        record = store_record(path)
        if record is not None:
            found.append((str(record["created"]), path.name, path, record["complete"] is True))
    return [(path, complete) for _, _, path, complete in sorted(found, reverse=True)]


def find_store(
    store: str | os.PathLike[str] | None, cache_dir: str | os.PathLike[str] | None = None
) -> Path | str:
    """Where `store` is: a URL as it stands, a path, or a name in the cache; the newest complete one
    where it is None.

    Raises ConfigError for what is no path, StoreError where there is none, UnknownNameError where
    nothing bears the name.
    """
    if store is None:
        stores = complete_stores(cache_dir)
        if not stores:
            raise StoreError(
                f"no complete store in {stores_folder(cache_dir)}; make one with "
                f"`trajdiag extract --model mano-fixed-geometric{cache_option(cache_dir)}`, or "
                "name a store"
            )
        return stores[0]
    if not isinstance(store, str | os.PathLike) or not isinstance(os.fspath(store), str):
        raise ConfigError(f"a store is a name, a path or a URL, got {type(store).__name__}")
    if isinstance(store, str) and is_url(store):
        return store
    path = Path(store)
    named = stores_folder(cache_dir) / f"{store_name(path)}{STORE_SUFFIX}"
    if os.fspath(store):
        with suppress(OSError):  # such as a name that is too long for one
            if path.is_dir():
                return path
            if path.parent == Path() and named.is_dir():
                return named
    existing = [store_name(p) for p in complete_stores(cache_dir)]
    raise UnknownNameError("store", str(store), existing, missing=no_folder(str(store)))


def store_record(path: Path) -> dict[str, Any] | None:
    """What a folder says of itself as a store, creation time and completeness at least; None where
    it is none."""
    try:
        group = json.loads((path / "zarr.json").read_text(encoding="utf-8"))
        record = group["attributes"]["trajdiag"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return record if isinstance(record, dict) and {"created", "complete"} <= record.keys() else None
