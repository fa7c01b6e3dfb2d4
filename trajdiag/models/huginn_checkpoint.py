"""Huginn checkpoints: a folder with config.json and safetensors, read strictly."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trajdiag.errors import CheckpointError
from trajdiag.models.checkpoint import read_config
from trajdiag.models.huginn_config import HuginnConfig
from trajdiag.models.huginn_decoder import HuginnDecoder
from trajdiag.models.loading import load_tensors
from trajdiag.models.weights import check_tensors, weight_files

_EMBEDDING = "transformer.wte.weight"
_HEAD = "lm_head.weight"
_BUFFER = "freqs_cis"
_BLOCK = re.compile(r"transformer\.(?:prelude|core_block|coda)\.\d+\.(.+)")
_IN_EVERY_BLOCK = {f"norm_{number}.weight" for number in range(1, 5)} | {
    "attn.Wqkv.weight",
    "attn.proj.weight",
    "mlp.fc.weight",
    "mlp.proj.weight",
}
_IN_BLOCKS = _IN_EVERY_BLOCK | {"attn.qk_bias"}


@dataclass(frozen=True, kw_only=True)
class HuginnCheckpoint:
    """A decoder and where it came from."""

    decoder: HuginnDecoder
    config: dict[str, Any]
    """The whole content of config.json."""
    sha256: str
    """See ModelRecord.sha256; over the weights that are read, so without rotary buffers."""


def read_huginn(
    folder: Path, device: torch.device, dtype: torch.dtype | None = None
) -> HuginnCheckpoint:
    """Read a Huginn checkpoint; `dtype` None takes config.json's, else the weights' own.

    Raises CheckpointError or NonFiniteError naming the key or the tensor at fault; see
    loading.load_tensors.
    """
    content = read_config(folder)
    files = {n: file for n, file in weight_files(folder).items() if not _is_buffer(n)}
    _refuse_other_blocks(folder, files)
    config = HuginnConfig.from_json(content)
    blocks = (
        config.n_layers_in_prelude + config.n_layers_in_recurrent_block + config.n_layers_in_coda
    )
    if blocks > len(files):
        raise CheckpointError(
            f"{folder}: config.json has {blocks} layers, but there are only {len(files)} tensors"
        )
    with torch.device("meta"):
        decoder = HuginnDecoder(config)
    check_tensors(files, _wanted(decoder, files))
    tied = (_HEAD, _EMBEDDING) if config.tie_embeddings else None
    loaded = load_tensors(files, device, dtype, configured=config.dtype, tied=tied)
    decoder.load_state_dict(loaded.tensors, assign=True)
    return HuginnCheckpoint(decoder=decoder, config=content, sha256=loaded.sha256)


def _is_buffer(name: str) -> bool:
    """Whether it is the table of rotary angles, which follows from config.json."""
    return name.split(".")[-1] == _BUFFER


def _refuse_other_blocks(folder: Path, names: Iterable[str]) -> None:
    """Refuse models that bear Huginn's model_type, but are made of another model's layers."""
    names = set(names)
    parts = {match[1] for name in names if (match := _BLOCK.fullmatch(name))}
    if not parts:
        reason = "it has no tensor transformer.core_block.0"
    elif other := sorted(parts - _IN_BLOCKS):
        reason = f"its blocks have {other[0]}"
    elif absent := sorted(_IN_EVERY_BLOCK - parts):
        reason = f"its blocks have no {absent[0]}"
    else:
        return
    raise CheckpointError(
        f"{folder}: model_type is huginn_raven, but the blocks are not Huginn's: {reason}; models "
        "retrofitted from Llama-style blocks are not supported"
    )


def _wanted(decoder: HuginnDecoder, files: Mapping[str, Path]) -> dict[str, torch.Size]:
    wanted = {name: tensor.shape for name, tensor in decoder.state_dict().items()}
    if decoder.config.tie_embeddings and _HEAD in files:
        wanted[_HEAD] = wanted[_EMBEDDING]
    return wanted
