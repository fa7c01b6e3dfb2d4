"""A user's own looped model: a class named as package.module:Class, or an object in Python."""

import hashlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trajdiag.errors import ConfigError, shown
from trajdiag.foreign import import_class, running
from trajdiag.models.base import LoopedModel, ModelRecord
from trajdiag.models.config_keys import MOST_LOOPS
from trajdiag.models.weights import WeightsHash

FAMILY = "own"
_METHODS = ("begin", "step", "hidden", "head_input", "head", "gate_logit")
_TOKENIZER = ("encode", "decode", "get_vocab")
_TOKENS = ("eos_token_id", "bos_token_id")
_SIDES = {"left", "right"}
_STATES = (torch.float32, torch.bfloat16, torch.float16)
_HASHED = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def load_own(name: str, device: torch.device, dtype: torch.dtype | None) -> LoopedModel:
    """An object of the class `name`, package.module:Class; the current folder is searched too.

    The class is called without arguments, or with `device` and `dtype` where its signature names
    them (`dtype` None is its own choice). Raises ConfigError for what its code raises, with
    file:line, and for what is not a looped model.
    """
    model_class = import_class("model", name)
    with running(f"making model {name}"):
        named = inspect.signature(model_class).parameters
        wanted = {"device": device, "dtype": dtype}
        model = model_class(**{key: value for key, value in wanted.items() if key in named})
    return require_model(model, name)


def require_model(model: object, name: str | None = None) -> LoopedModel:
    """`model`, where it has all that LoopedModel lists; ConfigError names what is missing or wrong.

    A torch Module is put in eval mode. A model without a record is given one: its class's name,
    family "own", the SHA-256 of its floating-point tensors (a Module's state_dict, else its
    attributes) and of the file that its class is written in, since other code gives other states.
    """
    if isinstance(model, type):
        raise ConfigError(f"the model is a class: give an object of it, {model.__name__}()")
    kind = type(model)
    name = name or f"{kind.__module__}:{kind.__qualname__}"
    with running(f"model {name}"):
        faults = [f"{key} must be {what}" for key, what in _faults(model)]
    if faults:
        raise ConfigError(f"{name} is not a looped model: {'; '.join(faults)}")
    looped: Any = model
    if isinstance(model, torch.nn.Module):
        with running(f"eval() of model {name}"):
            model.eval()
    with running(f"giving model {name} a record"):
        if not hasattr(looped, "record"):
            looped.record = ModelRecord(
                name=kind.__name__,
                family=FAMILY,
                source=name,
                revision=None,
                config={},
                sha256=_weights_sha256(looped, name),
            )
    return looped


def _count(value: Any) -> bool:
    return type(value) is int and value >= 1


_ATTRIBUTES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "loops": (
        lambda value: _count(value) and value <= MOST_LOOPS,
        f"an integer from 1 to {MOST_LOOPS}",
    ),
    "d_model": (_count, "an integer from 1"),
    "vocab_size": (_count, "an integer from 1"),
    "has_gate": (lambda value: type(value) is bool, "True or False"),
    "padding": (
        lambda value: isinstance(value, frozenset) and value <= _SIDES,
        'a frozenset of "left" and "right"',
    ),
    "device": (lambda value: isinstance(value, torch.device), "a torch.device"),
    "dtype": (
        lambda value: value in _STATES,
        "torch.float32, torch.bfloat16 or torch.float16",
    ),
    "max_positions": (lambda value: value is None or _count(value), "an integer from 1, or None"),
    "tokenizer": (
        lambda value: value is None or _is_tokenizer(value),
        f"None, or have {', '.join((*_TOKENIZER, *_TOKENS))} (transformers' tokenizers do; "
        "PreTrainedTokenizerFast(tokenizer_object=...) wraps one of the tokenizers library)",
    ),
    "record": (lambda value: isinstance(value, ModelRecord), "a ModelRecord"),
}


def _faults(model: object) -> list[tuple[str, str]]:
    """(attribute, what it must be and what it is) of each that LoopedModel lists and `model` lacks.

    A class that names LoopedModel as its base inherits bodies that do nothing: those are missing.
    """
    faults = []
    for name, (fits, what) in _ATTRIBUTES.items():
        if not hasattr(model, name):
            if name != "record":
                faults.append((name, f"{what} (missing)"))
        elif not fits(value := getattr(model, name)):
            faults.append((name, f"{what}, not {shown(value)}"))
    if _gate_unsaid(model):
        faults.append(("has_gate", "True where there is a gate_logit"))
    inherited = (
        {"head_input"} if getattr(model, "has_gate", False) else {"head_input", "gate_logit"}
    )
    for name in _METHODS:
        found = getattr(model, name, None)
        empty = getattr(found, "__func__", None) is getattr(LoopedModel, name)
        if not callable(found) or (empty and name not in inherited):
            faults.append((name, "a method (missing)"))
    return faults


def _is_tokenizer(value: Any) -> bool:
    methods = all(callable(getattr(value, name, None)) for name in _TOKENIZER)
    return methods and all(hasattr(value, name) for name in _TOKENS)


def _gate_unsaid(model: object) -> bool:
    """Whether the class has a gate_logit of its own, but never says whether there is a gate."""
    kind = type(model)
    own = [
        getattr(model, "__dict__", {}),
        *(vars(part) for part in kind.__mro__ if part is not LoopedModel),
    ]
    is_heir = LoopedModel in kind.__mro__
    return (
        is_heir
        and any("gate_logit" in names for names in own)
        and not any("has_gate" in names for names in own)
    )


def _weights_sha256(model: object, name: str) -> str:
    module = isinstance(model, torch.nn.Module)
    held = model.state_dict() if module else getattr(model, "__dict__", {})
    tensors = {key: value for key, value in held.items() if isinstance(value, Tensor)}
    floating = {key: value for key, value in tensors.items() if value.dtype in _HASHED}
    if not floating:
        raise ConfigError(
            f"{name} holds no floating-point tensors by which to tell it from another: make it a "
            "torch.nn.Module, or give it a `record` (trajdiag.models.base.ModelRecord)"
        )
    digest = WeightsHash()
    for key in sorted(floating):
        digest.update(key, floating[key].detach().cpu())
    return hashlib.sha256((digest.hexdigest() + _code(type(model))).encode()).hexdigest()


def _code(kind: type) -> str:
    """The file that the class is written in, or in a notebook the class alone."""
    try:
        file = inspect.getsourcefile(kind)
        return Path(file).read_text() if file else inspect.getsource(kind)
    except (OSError, TypeError, UnicodeDecodeError):
        return ""
