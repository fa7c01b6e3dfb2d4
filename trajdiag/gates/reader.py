"""What a gate is inside: it reads one number a loop off a frozen trajectory."""

from typing import Any, Protocol, Self

import numpy as np

from trajdiag.gates.config import FitGateConfig
from trajdiag.gates.objectives import Objective
from trajdiag.progress import Progress
from trajdiag.store.reader import Store

CONSTANT = "every fit example has the same label at every loop: the gate is a constant"
"""What a fit says where there is nothing to learn."""


class GateReader(Protocol):
    """Fitted, or read back from a gate's folder. Its output at loop t uses loops up to t only."""

    @classmethod
    def fit(
        cls, config: FitGateConfig, store: Store, fit: Objective, val: Objective, progress: Progress
    ) -> tuple[Self, list[float]]:
        """The reader with the least val loss, and the val loss after each pass."""
        ...

    @classmethod
    def from_folder(cls, config: FitGateConfig, content: dict[str, Any], weights: bytes) -> Self:
        """What `facts` and `weights` gave. Raises ValueError, LookupError or TypeError, or what
        torch and safetensors raise, where they are no such thing."""
        ...

    def outputs(self, store: Store, split: str, loops: range) -> np.ndarray:
        """Logits, or for depth further loops, float64 [example, loop of `loops`]. Raises GateError
        where the store lacks what it reads."""
        ...

    def facts(self) -> dict[str, Any]:
        """What config.json tells of it beside the options."""
        ...

    def weights(self) -> bytes:
        """The learned arrays, as safetensors."""
        ...
