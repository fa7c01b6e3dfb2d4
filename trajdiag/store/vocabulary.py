"""The logits over the vocabulary that a store keeps, or computes again from its states."""

from typing import TYPE_CHECKING

import numpy as np

from trajdiag.errors import StoreError
from trajdiag.store.schema import HEAD, VOCABULARY

if TYPE_CHECKING:
    from trajdiag.store.reader import Store

_LARGEST = VOCABULARY + "top_ids"
_ALL = VOCABULARY + "logits"


def kept_logits(store: "Store") -> str | None:
    """How much of the vocabulary's logits `store` keeps: `full`, `topk:K`, or `none` where its head
    gives them again; None where it keeps no statistics of them either."""
    if VOCABULARY + "log_sum_exp" not in store.arrays:
        return None
    asked = store.record.config.get("logits")
    if asked == "none":
        return "none"
    if _ALL in store.arrays:
        return "full"
    rank = store.numpy(_LARGEST, rows=np.arange(1)).shape[2] if _LARGEST in store.arrays else 0
    # where the classes are the vocabulary, `logits` holds all of it
    if "logits" in store.arrays and rank <= 2 and asked in ("auto", "full"):
        return "full"
    return f"topk:{rank}"


def spoken_logits(store: "Store") -> str | None:
    """`kept_logits`, for people."""
    kept = kept_logits(store)
    if kept is None:
        return None
    if kept == "none":
        return f"logits: none kept; recomputed from {HEAD}"
    return f"logits: {'all' if kept == 'full' else kept.removeprefix('topk:') + ' largest'} kept"


def vocabulary_logits(
    store: "Store", *, split: str | None, rows: np.ndarray | None, loop: int | None
) -> np.ndarray:
    """See Store.vocabulary_logits."""
    kept = kept_logits(store)
    if kept == "none":
        states = store.torch("hidden", split=split, rows=rows, loop=loop)
        return store.head.logits(states).numpy()
    if kept != "full":
        some = f"only the {kept.removeprefix('topk:')} largest" if kept else "none"
        raise StoreError(
            f"store {store.name} keeps {some} of the vocabulary's logits; extract with --logits "
            "full, or with none to have them recomputed"
        )
    return store.numpy(
        _ALL if _ALL in store.arrays else "logits", split=split, rows=rows, loop=loop
    )
