"""Names: of folders that stores, gates and checkpoints become, and of a function's options."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, get_type_hints

from trajdiag.errors import ConfigError, UnknownNameError, shown
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
    return {name: require_type(name, value, kinds[name]) for name, value in options.items()}


def options_of(config: Any) -> dict[str, Any]:
    """The fields of a dataclass by name: the `**options` of a function that takes them."""
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


def settle_fields(config: Any) -> None:
    """Make each field of a dataclass what `require_type` gives of it: for its `__post_init__`, so
    that one made directly is checked as one that is made of a function's options."""
    for name, kind in get_type_hints(type(config)).items():
        object.__setattr__(config, name, require_type(name, getattr(config, name), kind))


def require_type(name: str, value: Any, kind: Any) -> Any:
    """`value`, a path as text and a number as Python's. Raises ConfigError where it is not of the
    type `kind`, as a function's or a field's annotation says it."""
    found = plain(value)
    if not fits(found, kind):
        raise ConfigError(f"{name} must be {in_words(kind)}, got {shown(value)}")
    return kept(found, kind)
