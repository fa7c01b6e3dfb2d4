"""What `help`, and a notebook's completion, show of a function that takes the options of a config:
its `**options` by name, with their defaults and what they are."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any

from docstring_parser import parse_from_object


def show_options(function: Callable[..., Any], config: type, *, defaults: bool = True) -> None:
    """Write the fields of the dataclass `config` into the signature and the docstring of
    `function`; without `defaults` where it has others of its own."""
    signature = inspect.signature(function)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    shown = [field for field in fields(config) if field.name not in signature.parameters]
    named = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field) if defaults else ...,
            annotation=field.type,
        )
        for field in shown
    ]
    said = field_docs(config)
    lines = [f"{field.name}\n    {said.get(field.name, '')}".rstrip() for field in shown]
    function.__doc__ = "\n\n".join(
        [inspect.cleandoc(function.__doc__ or ""), "Options:", "\n".join(lines)]
    )
    function.__signature__ = signature.replace(  # pyright: ignore[reportFunctionMemberAccess]
        parameters=[*own, *named]
    )


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    made = field.default_factory
    return inspect.Parameter.empty if made is MISSING else made()


def field_docs(config: type) -> dict[str, str]:
    """What stands under each field, in the classes that it builds on too."""
    found: dict[str, str] = {}
    for one in reversed(config.__mro__[:-1]):
        for parameter in parse_from_object(one).params:
            found[parameter.arg_name] = " ".join((parameter.description or "").split())
    return found
