"""Checked weights from their files onto a device, in one pass that hashes them on the way."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from trajdiag.errors import CheckpointError
from trajdiag.models.weights import WeightsHash, stream_tensors


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """All tensors of a checkpoint."""

    tensors: dict[str, Tensor]
    """On the device, in the dtype to compute in."""
    sha256: str
    """See ModelRecord.sha256."""


def load_tensors(
    files: Mapping[str, Path],
    device: torch.device,
    dtype: torch.dtype | None,
    *,
    configured: str | None,
    tied: tuple[str, str] | None,
) -> Loaded:
    """The tensors of `files` (see weights.weight_files).

    `dtype` None takes the `configured` one, else the weights' own, float16 and float64 becoming
    float32. `tied` names a head and the embedding that serves for it: where the files hold both,
    they must agree, and the head is left out. Weights that are on the CPU in the file's dtype stay
    mapped from it (see stream_tensors); others are converted one at a time. Raises CheckpointError
    or NonFiniteError naming the tensor at fault.
    """
    digest = WeightsHash()
    tensors: dict[str, Tensor] = {}
    for name, tensor in stream_tensors(files):
        digest.update(name, tensor)
        if dtype is None:
            named = tensor.dtype if configured is None else getattr(torch, configured)
            dtype = torch.bfloat16 if named == torch.bfloat16 else torch.float32
        tensors[name] = tensor.to(device, dtype)
    if tied is not None and tied[0] in tensors:
        head, embedding = tied
        if not torch.equal(tensors[head], tensors[embedding]):
            raise CheckpointError(
                f"{files[head].parent}: config.json ties the head, but {head} differs from "
                f"{embedding}"
            )
        del tensors[head]
    return Loaded(tensors=tensors, sha256=digest.hexdigest())
