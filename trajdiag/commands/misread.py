"""What somebody is told whose command line cannot be read: what was wanted, what came, and how it
is written."""

from types import UnionType
from typing import Any, Union, get_args, get_origin

from cyclopts import CoercionError, CycloptsError
from cyclopts.exceptions import UnknownOptionError, UnusedCliTokensError

from trajdiag.errors import shown
from trajdiag.option_kinds import in_words

_ELSEWHERE = {
    ("report", "--json"): "report writes results.json beside its report.html",
    ("report", "--csv"): "report writes tables/*.csv beside its report.html",
    ("show", "--csv"): "show prints JSON by --json",
    ("latency", "--csv"): "latency prints JSON by --json, and report writes tables/latency.csv",
}
"""Where what an option of other commands gives is to be had."""
_KEYS = {
    "--threshold": "by readout, as --threshold.entropy 0.3",
    "--task-options": "by name, as --task-options.fit 400",
}
"""How the options that are a value by name are written."""


def said_of_misread(error: CycloptsError, verb: str) -> str:
    """One line on what the command line's library could not read of the command `verb`."""
    text = None
    if isinstance(error, UnknownOptionError):
        option = (error.token.keyword or error.token.value).partition("=")[0]
        elsewhere = _ELSEWHERE.get((verb, option))
        text = elsewhere and f"{verb} has no {option}: {elsewhere}"
    elif isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        first = error.unused_tokens[0]
        text = (
            f"{shown(first)} belongs to no option; one that takes several is written once for each"
        )
    elif isinstance(error, CoercionError) and error.msg is None and error.token is not None:
        text = _unconverted(error.token.keyword, error.token.value, error.target_type)
    return f"{text or error} (see trajdiag {verb} --help)"


def whole_number(text: str) -> str:
    """How a number that is no whole one, or is not written as one, is told."""
    try:
        meant = float(text.replace(",", "").replace(" ", ""))
    except ValueError:
        meant = None
    is_whole = meant is not None and meant.is_integer() and abs(meant) < 2**53
    write = f"; write {meant:.0f}" if is_whole else ""
    return f"must be a whole number, not {text}{write}"


def _unconverted(option: str | None, value: str, kind: Any) -> str | None:
    """None for what the library tells well enough by itself."""
    if option is None:
        return None
    if get_origin(kind) in (Union, UnionType):
        kind = next((each for each in get_args(kind) if each is not type(None)), kind)
    if get_origin(kind) is dict:
        return f"{option} is given {_KEYS.get(option, 'by name')}, got {shown(value)}"
    if kind is int:
        return f"{option} {whole_number(value)}"
    if kind in (float, bool):
        return f"{option} must be {in_words(kind)}, not {value}"
    return None
