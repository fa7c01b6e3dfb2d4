"""A checkpoint that a name led to, and how to open it: what every family's `load` is given."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trajdiag.models.base import ModelRecord, Tokenizer

ZEROS = "zeros"


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """A local folder of weights and what to make of it."""

    folder: Path
    """Holds config.json and safetensors, and tokenizer.json where the model reads text; a snapshot
    in the hub's cache too."""
    name: str
    """ModelRecord.name."""
    source: str
    """ModelRecord.source: `shipped`, `cache`, `local` or the hub id."""
    revision: str | None
    """The hub commit; None for what is not from the hub."""
    device: torch.device
    dtype: torch.dtype | None
    """None is the checkpoint's own."""
    initial_state: str = ZEROS
    """`zeros` or `noise:SEED`, spelt right; for families whose state_0 is free."""
    tokenizer: Tokenizer | None = None
    """None where the folder has none: a model of tokens."""

    def record(
        self, family: str, config: dict[str, Any], sha256: str, *, free_start: bool = False
    ) -> ModelRecord:
        """What is remembered of the model that was opened; `config` is config.json's content."""
        return ModelRecord(
            name=self.name,
            family=family,
            source=self.source,
            revision=self.revision,
            config=config,
            sha256=sha256,
            initial_state=self.initial_state if free_start else None,
        )
