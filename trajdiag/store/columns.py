"""The per-example columns of a store: what each example is, beside its trajectory."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from trajdiag.store.schema import COVARIATE, ArraySpec, column_spec


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Per-example values in store order, each [example]."""

    target: np.ndarray
    """int64: the index of the right class."""
    difficulty: np.ndarray
    """float64."""
    group: np.ndarray
    """int64: the resampling unit."""
    split: np.ndarray
    """str: fit, val or test."""
    id: np.ndarray
    """str."""
    input: np.ndarray | None = None
    """str; None leaves the text out."""
    covariates: Mapping[str, np.ndarray] = field(default_factory=dict)
    """float64 each."""

    def __len__(self) -> int:
        return len(self.target)

    def arrays(self) -> dict[str, tuple[ArraySpec, np.ndarray]]:
        """Spec and values of each column, by its name in the store."""
        values: dict[str, tuple[str, np.ndarray | None]] = {
            "target": ("int64", self.target),
            "difficulty": ("float64", self.difficulty),
            "group": ("int64", self.group),
            "split": ("string", self.split),
            "id": ("string", self.id),
            "input": ("string", self.input),
            **{COVARIATE + name: ("float64", column) for name, column in self.covariates.items()},
        }
        return {
            name: (column_spec(name, dtype, len(self)), column)
            for name, (dtype, column) in values.items()
            if column is not None
        }
