"""Where a model computes, and in what, by name."""

import os

import torch

from trajdiag.errors import ConfigError, shown
from trajdiag.names import require_type

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def named_device(name: str | torch.device) -> torch.device:
    """The device of this name; `auto` is a CUDA GPU where there is one, of several the one for this
    process of those that torchrun or Slurm began here, else the CPU. Raises ConfigError where it
    cannot be had."""
    name = str(name) if isinstance(name, torch.device) else require_type("device", name, str)
    if name == "auto":
        if not torch.cuda.is_available():
            return torch.device("cpu")
        rank = os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or "0"
        return torch.device("cuda", int(rank) % torch.cuda.device_count())
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise RuntimeError("it holds no numbers")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        usable = ["auto", "cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        usable += ["mps"] * torch.backends.mps.is_available()
        raise ConfigError(
            f"device {shown(name)} cannot be used here; usable: {', '.join(usable)}"
        ) from error
    return device


def named_dtype(name: str) -> torch.dtype | None:
    """The dtype of this name; None for `auto`. Raises ConfigError for others than float32
    and bfloat16."""
    name = require_type("dtype", name, str)
    if name == "auto":
        return None
    if name not in _DTYPES:
        raise ConfigError(f"unknown dtype {shown(name)}; existing: auto, {', '.join(_DTYPES)}")
    return _DTYPES[name]
