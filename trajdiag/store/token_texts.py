"""The texts of a vocabulary's tokens, kept with a store whose classes they are, to be shown.

They decide no number: a store without them is as good, and calls its classes by their ids.
"""

import json
from collections.abc import Sequence
from typing import Any

from trajdiag.errors import StoreError
from trajdiag.store.record import REPAIR
from trajdiag.store.schema import TOKENS


def save_tokens(texts: Sequence[str]) -> bytes:
    """The content of tokens.json; text i is token i's, empty where a tokenizer has no such
    token."""
    return json.dumps(list(texts), ensure_ascii=False, separators=(",\n", ":")).encode() + b"\n"


def load_tokens(content: bytes, *, store: str, classes: int) -> tuple[str, ...]:
    """The texts in tokens.json of `store`. Raises StoreError where they are not those of its
    `classes`."""
    try:
        texts = json.loads(content)
    except (ValueError, RecursionError):
        texts = []
    whole = isinstance(texts, list) and len(texts) == classes
    if not whole or not _are_writable(texts):
        raise StoreError(f"{TOKENS} of store {store} is damaged; {REPAIR}")
    return tuple(texts)


def _are_writable(texts: list[Any]) -> bool:
    """Whether all are text and without half characters, which no report can keep."""
    try:
        "".join(texts).encode()
    except (TypeError, UnicodeEncodeError):
        return False
    return True
