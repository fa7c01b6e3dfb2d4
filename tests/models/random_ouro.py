"""Random Ouro decoders whose every tensor matters."""

from typing import Any

import torch

from trajdiag.models.base import ModelRecord
from trajdiag.models.checkpoint import weights_sha256
from trajdiag.models.config import OuroConfig
from trajdiag.models.decoder import OuroDecoder
from trajdiag.models.ouro import OuroModel
from trajdiag.models.registry import create_model


def random_decoder(seed: int = 0, **options: Any) -> OuroDecoder:
    """A decoder with weights large enough that no tensor could be left out unseen."""
    sizes = {"vocab_size": 13, "d_model": 16, "layers": 2, "heads": 4, "loops": 3}
    config = OuroConfig.from_sizes(**(sizes | {"initializer_range": 0.3} | options))
    decoder = create_model(config, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in decoder.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    return decoder


def as_model(decoder: OuroDecoder) -> OuroModel:
    """The decoder behind the looped-model protocol."""
    record = ModelRecord(
        name="random",
        family="ouro",
        source="local",
        revision=None,
        config=decoder.config.to_json(),
        sha256=weights_sha256(decoder),
    )
    return OuroModel(decoder, record)
