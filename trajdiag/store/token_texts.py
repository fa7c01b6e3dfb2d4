"""The texts of a vocabulary's tokens, kept with a store whose classes they are, to be shown.

They decide no number: a store without them is as good, and calls its classes by their ids.
"""

import json
from collections.abc import Sequence

from trajdiag.errors import StoreError
from trajdiag.store.record import REPAIR
from trajdiag.store.schema import TOKENS
from trajdiag.whole_text import is_whole


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
    of_all = isinstance(texts, list) and len(texts) == classes
    are_texts = of_all and all(isinstance(text, str) for text in texts)
    if not are_texts or not is_whole("".join(texts)):
        raise StoreError(f"{TOKENS} of store {store} is damaged; {REPAIR}")
    return tuple(texts)
