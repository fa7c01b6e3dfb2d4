"""Names: of folders that stores, gates and checkpoints become, and of a function's options."""

import dataclasses
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, get_type_hints

from trajdiag.errors import ConfigError, UnknownNameError
from trajdiag.option_kinds import fits, in_words, kept, plain

_LONGEST = 120
_MOST_BYTES = 160
"""In UTF-8: with what files are called while they are written, no more than the 255 that a file
system takes."""
_TAKEN = "zarr.json"
"""Beside the arrays of a store, which covariates become."""


def require_name(kind: str, name: str) -> str:
    """`name`, unless it cannot be one folder's name everywhere: ConfigError says what can."""
    plain = isinstance(name, str) and re.fullmatch(r"[\w+=,@%~ -][\w+=,@%~. -]*", name) is not None
    fits = plain and len(name) <= _LONGEST and len(name.encode()) <= _MOST_BYTES
    if not fits or name.lower() == _TAKEN:
        raise ConfigError(
            f"a {kind}'s name must be one folder's name of letters, digits, spaces and "
            f"_+=,@%~.- that does not begin with a dot, at most {_LONGEST} long and "
            f"{_MOST_BYTES} bytes in UTF-8, and not {_TAKEN}; got {ascii(name)[:80]}"
        )
    return name


def checked_options(
    function: str, config: type, options: Mapping[str, Any], *more: str
) -> dict[str, Any]:
    """`options`, paths as text and numbers as Python's, which artifacts keep. Raises
    UnknownNameError where one is no field of the dataclass `config`, ConfigError where it is not of
    the field's type; `more` are further options of the function."""
    known = [field.name for field in dataclasses.fields(config)]
    for option in options:
        if option not in known:
            raise UnknownNameError(f"option of {function}", option, [*known, *more])
    kinds = get_type_hints(config)
    given = {name: plain(value) for name, value in options.items()}
    for name, value in given.items():
        if not fits(value, kinds[name]):
            raise ConfigError(f"{name} must be {in_words(kinds[name])}, got {ascii(value)[:80]}")
    return {name: kept(value, kinds[name]) for name, value in given.items()}


def require_kind(config: Any, kind: type[int] | type[float], *options: str) -> None:
    """Raise ConfigError where one of the `options` of `config` is no number of this kind."""
    for option in options:
        value = getattr(config, option)
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole and (kind is int or not isinstance(value, Real)):
            wanted = "a whole number" if kind is int else "a number"
            raise ConfigError(f"{option} must be {wanted}, got {value!r}")
