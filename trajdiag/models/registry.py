"""Models by name: shipped ones, the cache's, and local folders."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch

from trajdiag.cachedir import checkpoints_folder
from trajdiag.errors import CheckpointError, ConfigError, UnknownNameError
from trajdiag.models.base import LoopedModel, ModelRecord
from trajdiag.models.checkpoint import CONFIG, read_checkpoint, read_config
from trajdiag.models.config import OuroConfig
from trajdiag.models.decoder import OuroDecoder
from trajdiag.models.ouro import OuroModel

SHIPPED = Path(__file__).parent / "shipped"
Source = Literal["shipped", "cache", "local"]
Loader = Callable[[Path, str, Source, torch.device, torch.dtype | None], LoopedModel]
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_model(
    name_or_path: str | os.PathLike[str],
    *,
    device: str = "auto",
    dtype: str = "auto",
    cache_dir: str | os.PathLike[str] | None = None,
) -> LoopedModel:
    """Open a model: a shipped name, a folder, or a name among the cache's checkpoints.

    `device` auto is a GPU where there is one; `dtype` auto is the checkpoint's (float16: float32).
    Raises UnknownNameError listing the names that exist, CheckpointError for a folder that cannot
    be read, ConfigError for a device or dtype that cannot be had.
    """
    folder, source = find_checkpoint(name_or_path, cache_dir)
    family = read_config(folder).get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        raise CheckpointError(
            f"{folder / CONFIG}: model_type {family!r} is not supported; "
            f"supported: {', '.join(sorted(FAMILIES))}"
        )
    chosen = None if dtype == "auto" else _named_dtype(dtype)
    return FAMILIES[family](folder, folder.resolve().name, source, named_device(device), chosen)


def find_checkpoint(
    name_or_path: str | os.PathLike[str], cache_dir: str | os.PathLike[str] | None = None
) -> tuple[Path, Source]:
    """The folder that `load_model` would open, and where it was found."""
    name = os.fspath(name_or_path)
    if name in shipped_models():
        return SHIPPED / name, "shipped"
    if Path(name).is_dir():
        return Path(name), "local"
    if Path(name).is_file():
        raise CheckpointError(f"{name} is a file; give the folder that holds {CONFIG}")
    home = checkpoints_folder(cache_dir)
    if name in _checkpoints(home):
        return home / name, "cache"
    raise UnknownNameError(
        "model",
        name,
        {*shipped_models(), *cached_models(cache_dir)},
        "Any folder with config.json and model.safetensors is a model too",
    )


def shipped_models() -> list[str]:
    """The names of the checkpoints in the package."""
    return _checkpoints(SHIPPED)


def cached_models(cache_dir: str | os.PathLike[str] | None = None) -> list[str]:
    """The names of the checkpoints in the cache."""
    return _checkpoints(checkpoints_folder(cache_dir))


def create_model(config: OuroConfig, seed: int) -> OuroDecoder:
    """A decoder with weights drawn from `seed`, the same on every device, on the CPU in float32.

    Matrices are normal with standard deviation `config.initializer_range`, as Ouro's are; norms are
    1, biases 0.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.device("meta"):
        decoder = OuroDecoder(config)
    decoder.to_empty(device="cpu")
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, config.initializer_range, generator=generator)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
    return decoder


def _load_ouro(
    folder: Path, name: str, source: Source, device: torch.device, dtype: torch.dtype | None
) -> OuroModel:
    checkpoint = read_checkpoint(folder, device, dtype)
    record = ModelRecord(
        name=name,
        family="ouro",
        source=source,
        revision=None,
        config=checkpoint.config,
        sha256=checkpoint.sha256,
    )
    return OuroModel(checkpoint.decoder, record)


FAMILIES: dict[str, Loader] = {"ouro": _load_ouro}
"""config.json's model_type, and what opens it."""


def _checkpoints(home: Path) -> list[str]:
    return sorted(path.parent.name for path in home.glob(f"*/{CONFIG}"))


def named_device(name: str) -> torch.device:
    """The device of this name; `auto` is a GPU where there is one. Raises ConfigError where it
    cannot be had."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise RuntimeError("it holds no numbers")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(f"device {name!r} cannot be used here; try auto or cpu") from error
    return device


def _named_dtype(name: str) -> torch.dtype:
    if name not in _DTYPES:
        raise ConfigError(f"unknown dtype {name!r}; existing: auto, {', '.join(_DTYPES)}")
    return _DTYPES[name]
