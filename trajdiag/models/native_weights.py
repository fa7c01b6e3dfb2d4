"""Opening a checkpoint of a model that transformers implements: checked, quiet, one copy."""

import ctypes
import logging
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from trajdiag.errors import CheckpointError
from trajdiag.models.base import ModelRecord
from trajdiag.models.checkpoint import CONFIG, read_config
from trajdiag.models.native_config import (
    named_dtype,
    refuse_unsupported,
    require_family,
    require_sizes,
)
from trajdiag.models.source import ModelSource
from trajdiag.models.weights import WeightsHash, listed, refuse_non_finite, weight_files

_DTYPES = {
    "float64": torch.float32,
    "float32": torch.float32,
    "float16": torch.float32,
    "bfloat16": torch.bfloat16,
}
"""The dtype to compute in, of the dtype that a checkpoint names."""
_FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A transformers model in evaluation mode, and what is known of it."""

    network: Any
    """The ...ForCausalLM module."""
    record: ModelRecord


@dataclass(frozen=True)
class _Stored:
    """A tensor that is read, `[...]`, when it is come to.

    The file is opened for each: while it is open, what was read of it stays in memory.
    """

    name: str
    path: Path

    def __getitem__(self, where: Any) -> Tensor:
        _give_back_freed()
        with safe_open(self.path, framework="pt") as file:
            return file.get_tensor(self.name)[where]

    def dtype(self) -> str:
        """By safetensors' name."""
        with safe_open(self.path, framework="pt") as file:
            return file.get_slice(self.name).get_dtype()


def _give_back_freed() -> None:
    """Let glibc return what lies free between the weights, which it would keep: transformers copies
    experts together and frees the parts."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def open_network(
    source: ModelSource,
    family: str,
    *,
    attention: str,
    loops: Collection[str],
    refuse: Callable[[Any], None] = lambda config: None,
) -> Opened:
    """Read the weights of a `family` checkpoint into transformers' own class, no remote code.

    `attention` is the attention implementation; `loops` are the keys that count passes; `refuse`
    raises CheckpointError for a configuration of transformers that the family's stepping would get
    wrong. Raises CheckpointError, or NonFiniteError naming the tensor, for what cannot be read
    whole.
    """
    require_family(family)
    content = read_config(source.folder)
    refuse_unsupported(content)
    with _one_line(source.folder):
        config = _transformers_config(family, content)
    require_sizes(config, loops)
    refuse(config)
    files = weight_files(source.folder)
    layers = getattr(config, "num_layers_per_stack", None) or config.num_hidden_layers
    if layers > len(files):
        raise CheckpointError(
            f"{source.folder}: {CONFIG} asks for {layers} layers, but there are only {len(files)} "
            "tensors"
        )
    dtype = source.dtype or _stored_dtype(content, files)
    sha256 = _checked_sha256(files)
    with _one_line(source.folder):
        network = _read_network(config, files, dtype, attention)
    record = source.record(family, content, sha256)
    return Opened(network=network.eval().requires_grad_(False).to(source.device), record=record)


@contextmanager
def quiet() -> Iterator[None]:
    """transformers without its progress bars and its advice on the error stream."""
    from transformers.utils import logging as spoken

    verbosity, bars = spoken.get_verbosity(), spoken.is_progress_bar_enabled()
    spoken.set_verbosity(logging.CRITICAL)
    spoken.disable_progress_bar()
    try:
        yield
    finally:
        spoken.set_verbosity(verbosity)
        if bars:
            spoken.enable_progress_bar()


def _transformers_config(family: str, content: Mapping[str, Any]) -> Any:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    with quiet():
        return CONFIG_MAPPING[family].from_dict(deepcopy(dict(content)))


def _read_network(
    config: Any, files: Mapping[str, Path], dtype: torch.dtype, attention: str
) -> Any:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    # The class that AutoModelForCausalLM takes. Given the folder, it maps whole files, and where
    # the dtype changes they stay in memory beside the weights; so it is given the tensors.
    network_class: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    with quiet():
        network, told = network_class.from_pretrained(
            None,
            config=config,
            state_dict={name: _Stored(name, path) for name, path in files.items()},
            dtype=dtype,
            attn_implementation=attention,
            ignore_mismatched_sizes=True,  # They are named below, and not on the error stream.
            output_loading_info=True,
        )
    faults = {
        "missing": sorted(told["missing_keys"]),
        "unexpected": sorted(told["unexpected_keys"]),
        "misshapen": sorted(str(key[0]) for key in told["mismatched_keys"]),
    }
    if any(faults.values()):
        said = "; ".join(f"{fault} {listed(names)}" for fault, names in faults.items() if names)
        raise CheckpointError(f"tensors do not fit {CONFIG}: {said}")
    head, embedding = network.lm_head.weight, network.model.embed_tokens.weight
    tied = getattr(config, "tie_word_embeddings", False)
    if tied and head is not embedding and not torch.equal(head, embedding):
        # transformers goes on with both, as if the config had said that they are two.
        raise CheckpointError(
            f"{CONFIG} ties the head, but lm_head.weight differs from model.embed_tokens.weight"
        )
    return network


@contextmanager
def _one_line(folder: Path) -> Iterator[None]:
    """Say what transformers raises, and where, in one line."""
    from huggingface_hub.errors import StrictDataclassError

    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{folder} cannot be opened: {error}") from error
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        OSError,
        RuntimeError,
        StrictDataclassError,
        TypeError,
        ValueError,
    ) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise CheckpointError(f"{folder} cannot be opened: {reason:.400}") from error


def _stored_dtype(content: Mapping[str, Any], files: Mapping[str, Path]) -> torch.dtype:
    named = named_dtype(content)
    return _DTYPES[named or _FLOATS.get(_Stored(*next(iter(files.items()))).dtype(), "float32")]


def _checked_sha256(files: Mapping[str, Path]) -> str:
    """ModelRecord.sha256 of the files. Raises CheckpointError for a tensor that is not floating
    point, NonFiniteError for one that is not finite."""
    digest = WeightsHash()
    for name, path in files.items():
        stored = _Stored(name, path)
        if (kind := stored.dtype()) not in _FLOATS:
            raise CheckpointError(f"{path}: {name} is {kind}, not floating point")
        tensor = stored[...]
        refuse_non_finite(name, tensor, path)
        digest.update(name, tensor)
    return digest.hexdigest()
