"""How a store is made again so that it holds what it lacks."""

from trajdiag.store.reader import Store
from trajdiag.store.schema import ARRAYS


def made_again_with(store: Store, split: str) -> str:
    """What to do for want of the split, for the end of a message."""
    if store.record.model.get("family") == ARRAYS:
        return f"import the arrays again with examples of split {split}, and --overwrite"
    return f"extract again with examples of split {split}, and --overwrite"
