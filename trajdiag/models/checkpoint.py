"""Ouro checkpoints: a folder with config.json and safetensors, read strictly and written whole."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trajdiag.errors import CheckpointError
from trajdiag.models.config import OuroConfig
from trajdiag.models.decoder import OuroDecoder
from trajdiag.models.loading import load_tensors
from trajdiag.models.weights import (
    WeightsHash,
    check_tensors,
    read_json,
    weight_files,
    write_weights,
)
from trajdiag.store.durable import write_file

CONFIG = "config.json"
_HEAD = "lm_head.weight"
_EMBEDDING = "model.embed_tokens.weight"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A decoder and where it came from."""

    decoder: OuroDecoder
    config: dict[str, Any]
    """The whole content of config.json."""
    sha256: str
    """See ModelRecord.sha256."""


def read_config(folder: Path) -> dict[str, Any]:
    """The content of a checkpoint's config.json. Raises CheckpointError where there is none."""
    if not (folder / CONFIG).is_file():
        raise CheckpointError(
            f"{folder} is not a checkpoint: it has no {CONFIG}; give the folder that holds it and "
            "the safetensors"
        )
    return read_json(folder / CONFIG)


def read_checkpoint(
    folder: Path, device: torch.device, dtype: torch.dtype | None = None
) -> Checkpoint:
    """Read an Ouro checkpoint; `dtype` None takes config.json's, else the weights' own.

    Raises CheckpointError or NonFiniteError naming the key or the tensor at fault; see
    loading.load_tensors.
    """
    content = read_config(folder)
    config = OuroConfig.from_json(content)
    files = weight_files(folder)
    if config.num_hidden_layers > len(files):
        raise CheckpointError(
            f"{folder}: config.json has num_hidden_layers = {config.num_hidden_layers}, but there "
            f"are only {len(files)} tensors"
        )
    with torch.device("meta"):
        decoder = OuroDecoder(config)
    check_tensors(files, _wanted(decoder, files))
    tied = (_HEAD, _EMBEDDING) if config.tie_word_embeddings else None
    loaded = load_tensors(files, device, dtype, configured=config.dtype, tied=tied)
    own = decoder.state_dict().keys()
    decoder.load_state_dict({name: loaded.tensors[name] for name in own}, assign=True)
    return Checkpoint(decoder=decoder, config=content, sha256=loaded.sha256)


def write_checkpoint(
    folder: Path,
    decoder: OuroDecoder,
    *,
    task: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    tokens: Mapping[str, int] | None = None,
    max_shard_bytes: int | None = None,
) -> None:
    """Write a decoder in Ouro's format, config.json last; existing files are replaced one by one.

    `task` {name, parameters} and `training` go under config.json's key `trajdiag`; `tokens` are ids
    such as pad_token_id. Raises NonFiniteError, with nothing written, where a weight is not finite.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder, ouro_tensors(decoder), max_shard_bytes)
    section: dict[str, Any] = {"gate": decoder.config.gate}
    if task is not None:
        section["task"] = dict(task)
    if training is not None:
        section["training"] = dict(training)
    content = decoder.config.to_json() | dict(tokens or {}) | {"trajdiag": section}
    text = json.dumps(content, indent=2, sort_keys=True) + "\n"
    write_file(folder / CONFIG, text.encode())


def ouro_tensors(decoder: OuroDecoder) -> dict[str, Tensor]:
    """The tensors a checkpoint stores, on the CPU: without Ouro's own gate, a zero one."""
    tensors = {name: tensor.detach().cpu() for name, tensor in decoder.state_dict().items()}
    if decoder.config.gate != "linear":
        dtype = tensors[_EMBEDDING].dtype
        for name, shape in _gate_shapes(decoder.config).items():
            tensors[name] = torch.zeros(shape, dtype=dtype)
    return tensors


def weights_sha256(decoder: OuroDecoder) -> str:
    """ModelRecord.sha256 of a decoder as `write_checkpoint` would write it."""
    digest = WeightsHash()
    for name, tensor in sorted(ouro_tensors(decoder).items()):
        digest.update(name, tensor)
    return digest.hexdigest()


def _wanted(decoder: OuroDecoder, files: Mapping[str, Path]) -> dict[str, torch.Size]:
    wanted = {name: tensor.shape for name, tensor in decoder.state_dict().items()}
    wanted |= _gate_shapes(decoder.config)
    if decoder.config.tie_word_embeddings and _HEAD in files:
        wanted[_HEAD] = wanted[_EMBEDDING]
    return wanted


def _gate_shapes(config: OuroConfig) -> dict[str, torch.Size]:
    return {
        "model.early_exit_gate.weight": torch.Size((1, config.hidden_size)),
        "model.early_exit_gate.bias": torch.Size((1,)),
    }
