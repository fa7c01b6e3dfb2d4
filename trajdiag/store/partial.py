"""Names of files that are not yet whole: each tells who is writing it."""

import os
import re
import socket
from pathlib import Path

_PARTIAL = ".partial"
"""Suffix of a file that is not yet whole."""

_OWNED = re.compile(r"\.(?P<host>[^./]+)-(?P<pid>\d+)\.partial$")


def host_name() -> str:
    """This machine's name, without dots."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", socket.gethostname()) or "host"


def partial_path(path: Path) -> Path:
    """Where this process writes what will be `path`."""
    return path.with_name(f"{path.name}.{host_name()}-{os.getpid()}{_PARTIAL}")


def is_alive(pid: int) -> bool:
    """Whether a process of this machine bears the number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def is_partial(key: str) -> bool:
    """Whether a file is one that trajdiag is writing, or was."""
    return _OWNED.search(key) is not None


def is_leftover(key: str) -> bool:
    """Whether a file is one that nobody is writing any more, as far as this machine can tell."""
    owner = _OWNED.search(key)
    return bool(owner) and owner["host"] == host_name() and not is_alive(int(owner["pid"]))


def is_being_written(key: str) -> bool:
    """Whether another process of this machine, which lives, may be writing this partial file."""
    owner = _OWNED.search(key)
    return (
        owner is not None
        and owner["host"] == host_name()
        and int(owner["pid"]) != os.getpid()
        and is_alive(int(owner["pid"]))
    )
