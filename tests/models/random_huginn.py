"""Random Huginn decoders whose every tensor matters, and their checkpoints."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trajdiag.models.base import ModelRecord
from trajdiag.models.huginn import HuginnModel, load
from trajdiag.models.huginn_config import HuginnConfig
from trajdiag.models.huginn_decoder import HuginnDecoder
from trajdiag.models.source import ModelSource
from trajdiag.models.weights import write_weights

SIZES: dict[str, Any] = {
    "vocab_size": 13,
    "n_embd": 12,
    "n_heads": 3,
    "intermediate_size": 20,
    "n_layers_in_prelude": 1,
    "n_layers_in_recurrent_block": 2,
    "n_layers_in_coda": 2,
    "mean_recurrence": 3,
    "block_size": 32,
}


def random_decoder(seed: int = 0, **options: Any) -> HuginnDecoder:
    """A decoder with weights large enough that no tensor could be left out unseen."""
    decoder = HuginnDecoder(HuginnConfig(**(SIZES | options)))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            parameter.normal_(0.0, 0.3, generator=generator)
            if "norm" in name or "ln_f" in name:
                parameter.add_(1.0)
    return decoder


def as_model(decoder: HuginnDecoder, initial_state: str = "zeros") -> HuginnModel:
    """The decoder behind the looped-model protocol."""
    record = ModelRecord(
        name="random",
        family="huginn_raven",
        source="local",
        revision=None,
        config=decoder.config.to_json(),
        sha256="0" * 64,
        initial_state=initial_state,
    )
    return HuginnModel(decoder, record)


def write_folder(
    folder: Path,
    decoder: HuginnDecoder,
    *,
    max_shard_bytes: int | None = None,
    tensors: dict[str, Tensor | None] | None = None,
    **config: Any,
) -> Path:
    """A checkpoint of the decoder, with tensors replaced, added or (None) left out, and config.json
    keys likewise."""
    folder.mkdir(parents=True, exist_ok=True)
    own = {name: tensor.detach() for name, tensor in decoder.state_dict().items()}
    kept = {name: t for name, t in (own | (tensors or {})).items() if t is not None}
    write_weights(folder, kept, max_shard_bytes)
    (folder / "config.json").write_text(json.dumps(decoder.config.to_json() | config))
    return folder


def open_folder(
    folder: Path, dtype: torch.dtype | None = None, initial_state: str = "zeros"
) -> HuginnModel:
    """The checkpoint as the registry would open it, on the CPU."""
    return load(
        ModelSource(
            folder=folder,
            name=folder.name,
            source="local",
            revision=None,
            device=torch.device("cpu"),
            dtype=dtype,
            initial_state=initial_state,
        )
    )
