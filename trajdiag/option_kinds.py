"""What an option may be, as the type of its field says: told of a value, and in words."""

import os
from collections.abc import Callable, Collection, Mapping
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    NoneType: "None",
    os.PathLike: "a path",
    Callable: "a function",
}


def plain(value: Any) -> Any:
    """A number of numpy's or torch's as Python's; all else as it is."""
    single = hasattr(value, "item") and getattr(value, "ndim", None) == 0
    return value.item() if single else value


def fits(value: Any, kind: Any) -> bool:
    """Whether `value` is of the type `kind` that a field has: a path is a text, True is no number,
    a text no list, and any collection that is no mapping is a list."""
    origin, of = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in of)
    if origin is Literal:
        return isinstance(value, tuple(map(type, of)))  # the config says which there are
    if origin is tuple:
        value = plain(value)
        if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
            return False
        kinds = of if Ellipsis not in of else (of[0],) * len(value)
        return len(value) == len(kinds) and all(map(fits, map(plain, value), kinds))
    if origin in (dict, Mapping):
        return isinstance(value, Mapping) and all(
            fits(name, of[0]) and fits(plain(item), of[1]) for name, item in value.items()
        )
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool) and _is_float(value)
    if kind is str:
        return isinstance(os.fspath(value) if isinstance(value, os.PathLike) else value, str)
    return kind is Any or isinstance(value, origin or kind)


def kept(value: Any, kind: Any) -> Any:
    """A value that fits `kind` as an artifact keeps it: a path as a text, a list as a tuple, a
    number as Python's."""
    origin, of = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return kept(value, next(each for each in of if fits(value, each)))
    if origin is tuple:
        return tuple(kept(plain(each), of[0]) for each in value)
    if origin in (dict, Mapping):
        return {name: kept(plain(item), of[1]) for name, item in value.items()}
    if kind in (int, float):
        return kind(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def in_words(kind: Any) -> str:
    """Such as `a whole number or None`."""
    origin, of = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(in_words, of)))
    if origin is Literal:
        return f"one of {', '.join(map(str, of))}"
    if origin is tuple:
        size = "" if Ellipsis in of else f" of {len(of)}"
        return f"a list{size}, each entry {in_words(of[0])}"
    if origin in (dict, Mapping):
        return f"{in_words(of[1])} by name"
    return _WORDS.get(origin or kind, f"a {getattr(kind, '__name__', kind)}")


def _is_float(value: Real) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return True
