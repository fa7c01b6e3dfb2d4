"""Running text of findings and verdicts, in which commands stand in backticks."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from trajdiag.reporting.names import visible

_COMMAND = re.compile(r"`(trajdiag [^`]+)`")
"""Nothing else in backticks is taken for code: names in a text may hold any."""
_QUOTED = "`[^`]*`"
_APOSTROPHE = r"(?<=[^\W\d_])'(?=[^\W\d_])"


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


def typeset(text: str, names: Iterable[str]) -> str:
    """`text` with its apostrophes as a printer sets them, but for those in backticks and in these
    names, which are copied into commands."""
    kept = sorted({visible(name) for name in names if "'" in name}, key=len, reverse=True)
    pattern = "|".join([_QUOTED, *map(re.escape, kept), _APOSTROPHE])
    return re.sub(pattern, lambda found: "’" if found[0] == "'" else found[0], text)
