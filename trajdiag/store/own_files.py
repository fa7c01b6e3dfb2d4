"""The names of the files that a store is made of."""

import re

from trajdiag.store.journal import JOURNAL, RECORD_COPY, is_journal
from trajdiag.store.lock import is_lock
from trajdiag.store.partial import is_partial
from trajdiag.store.schema import GROUP, GROUPS, HEAD, TOKENS, is_array_name

_IN_ARRAY = re.compile(r"(?P<array>.+)/(zarr\.json|c(\.\d+)+)")
_GROUP_FILES = {prefix + GROUP for prefix in ("", JOURNAL, *GROUPS)}


def is_own(key: str) -> bool:
    """Whether trajdiag may have written a file of this name in a store, as far as a name tells."""
    in_array = _IN_ARRAY.fullmatch(key)
    return (
        key in (HEAD, TOKENS, RECORD_COPY)
        or key in _GROUP_FILES
        or is_partial(key)
        or is_lock(key)
        or is_journal(key)
        or (in_array is not None and is_array_name(in_array["array"]))
    )
