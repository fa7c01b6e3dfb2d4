"""Run a looped model over a task once and freeze every loop's states and logits in a store."""

from trajdiag.extraction.config import ExtractConfig
from trajdiag.extraction.freeze import extract

__all__ = ["ExtractConfig", "extract"]
