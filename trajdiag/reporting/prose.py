"""Running text of findings and verdicts, in which commands stand in backticks."""

import re
from dataclasses import dataclass

from trajdiag.reporting.names import visible

_COMMAND = re.compile(r"`(trajdiag [^`]+)`")
"""Nothing else in backticks is taken for code: names in a text may hold any."""


@dataclass(frozen=True)
class Part:
    """A stretch of a text."""

    text: str
    is_command: bool


def prose(text: str) -> list[Part]:
    """`text`, made visible, in its parts: commands without their backticks, and what lies between
    as it is."""
    pieces = _COMMAND.split(visible(text))
    return [Part(piece, place % 2 == 1) for place, piece in enumerate(pieces) if piece]
