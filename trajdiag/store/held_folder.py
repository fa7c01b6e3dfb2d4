"""A folder that is kept open, so that another one in its place is noticed."""

import os
import weakref
from pathlib import Path

from trajdiag.errors import StoreError


class HeldFolder:
    """The folder that is at `path` now. Another process that is given it holds what is there then.

    While it is open no other folder bears its number, which a deleted one leaves to the next.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        weakref.finalize(self, os.close, self._descriptor)

    def __reduce__(self) -> tuple[type["HeldFolder"], tuple[Path]]:
        return HeldFolder, (self._path,)

    def require_there(self) -> None:
        """Raise StoreError where it was removed or moved, or another has taken its place."""
        try:
            same = os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except OSError:
            same = False
        if not same:
            raise StoreError(
                f"store {self._path} was removed, moved or made again since it was opened; open it "
                "again"
            )
