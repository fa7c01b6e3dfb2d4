"""The names of the files that a store is made of."""

import re

from trajdiag.store.lock import is_lock
from trajdiag.store.partial import PARTIAL
from trajdiag.store.schema import GROUP, HEAD

_JOURNAL = re.compile(r"journal/(record\.json|[^/]+\.jsonl)")
_CHUNK = re.compile(r"[^/]+(/[^/]+)?/c(\.\d+)+")


def is_own(key: str) -> bool:
    """Whether trajdiag may have written a file of this name in a store, as far as a name tells."""
    return (
        key.rpartition("/")[2] == GROUP
        or key == HEAD
        or key.endswith(PARTIAL)
        or is_lock(key)
        or _JOURNAL.fullmatch(key) is not None
        or _CHUNK.fullmatch(key) is not None
    )
