"""Models by name: shipped ones, local folders, the cache's, the hub's, and a user's own classes."""

import errno
import importlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from trajdiag.cachedir import checkpoints_folder, no_folder
from trajdiag.errors import CheckpointError, ConfigError, UnknownNameError, shown
from trajdiag.models.base import LoopedModel
from trajdiag.models.checkpoint import CONFIG, read_checkpoint, read_config
from trajdiag.models.config import OuroConfig
from trajdiag.models.decoder import OuroDecoder
from trajdiag.models.devices import named_device, named_dtype
from trajdiag.models.hub import ALIASES, hub_name, is_hub_id, snapshot
from trajdiag.models.ouro import OuroModel
from trajdiag.models.own import load_own
from trajdiag.models.source import ZEROS, ModelSource
from trajdiag.models.tokenizer import read_tokenizer, require_fits
from trajdiag.names import require_type

SHIPPED = Path(__file__).parent / "shipped"
Loader = Callable[[ModelSource], LoopedModel]
_LONGEST = 255
_ADDRESS = re.compile(
    r"(?:https?://(?:www\.)?(?:huggingface\.co|hf\.co)|hf:/)/(?P<id>[^/?#]+/[^/?#]+)"
    r"(?:/(?:tree|blob|resolve)/(?P<revision>[^/?#]+))?(?:[/?#].*)?"
)
_NOISE = re.compile(r"noise:(0|[1-9]\d{0,17})", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A folder that a name leads to; see ModelSource."""

    folder: Path
    name: str
    source: str
    revision: str | None = None


def load_model(
    name_or_path: str | os.PathLike[str],
    *,
    device: str = "auto",
    dtype: str = "auto",
    cache_dir: str | os.PathLike[str] | None = None,
    revision: str | None = None,
    initial_state: str | None = None,
) -> LoopedModel:
    """Open a model: a shipped name, a folder, a name among the cache's checkpoints, an alias, a hub
    id, or package.module:Class; the first of them that it is.

    `device` auto is a CUDA GPU where there is one, else the CPU (mps is used when named); `dtype`
    auto is the checkpoint's (float16: float32). `revision` is a hub branch, tag or commit;
    `initial_state`, for a family whose state_0 is free, `zeros` or `noise:SEED`.
    Raises UnknownNameError listing the names that exist, CheckpointError for a model that cannot be
    had or read, ConfigError for options that do not go together.
    """
    name = require_type("a model's name", name_or_path, str)
    revision = require_type("revision", revision, str | None)
    initial_state = require_type("initial_state", initial_state, str | None)
    chosen_device = named_device(device)
    chosen_dtype = named_dtype(dtype)
    _require_spelt(initial_state)
    _require_no_address(name)
    named = revision is None or (revision.strip() and revision.isprintable())
    if not named or len(revision or "") > _LONGEST:
        raise ConfigError(
            f"a revision is a branch, a tag or a commit, not {shown(revision)}; leave it out for "
            "main"
        )
    place = _find(name, cache_dir, revision)
    if place is not None:
        model = _open(place, chosen_device, chosen_dtype, initial_state)
    elif initial_state is not None:
        raise ConfigError(
            f"an initial state is not for {name}: its class begins by itself; leave it out"
        )
    else:
        model = load_own(name, chosen_device, chosen_dtype)
        if device != "auto" and model.device.type != chosen_device.type:
            raise ConfigError(f"{name} is on {model.device}: let its class take `device`")
        if chosen_dtype not in (None, model.dtype):
            raise ConfigError(f"{name} computes in {model.dtype}: let its class take `dtype`")
    if model.tokenizer is not None:
        require_fits(model.tokenizer, model.vocab_size, name)
    return model


def _open(
    place: _Place, device: torch.device, dtype: torch.dtype | None, initial_state: str | None
) -> LoopedModel:
    config = read_config(place.folder)
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        code = "; the code that auto_map names is never run" if "auto_map" in config else ""
        raise CheckpointError(
            f"{place.folder / CONFIG}: model_type {family!r} is not supported; "
            f"supported: {', '.join(sorted(FAMILIES))}{code}"
        )
    if initial_state is not None and family not in FREE_START:
        raise ConfigError(
            f"an initial state is for {', '.join(sorted(FREE_START))} models: {place.name} is of "
            f"family {family}, whose loops begin at the tokens"
        )
    source = ModelSource(
        folder=place.folder,
        name=place.name,
        source=place.source,
        revision=place.revision,
        device=device,
        dtype=dtype,
        initial_state=initial_state or ZEROS,
        tokenizer=read_tokenizer(place.folder),
    )
    return FAMILIES[family](source)


def _find(
    name: str, cache_dir: str | os.PathLike[str] | None, revision: str | None
) -> _Place | None:
    """The folder that `name` means, downloaded if need be; None where it means a class."""
    here = _find_here(name, cache_dir)
    if here is None and (name in ALIASES or is_hub_id(name)):
        repository = ALIASES.get(name, name)
        found = snapshot(repository, revision)
        return _Place(
            folder=found.folder,
            name=hub_name(repository),
            source=repository,
            revision=found.commit,
        )
    if here is None and ":" not in name:
        raise UnknownNameError(
            "model",
            name,
            {*shipped_models(), *cached_models(cache_dir), *ALIASES},
            "A folder with config.json and model.safetensors, a hub id (owner/name) and a class of "
            "yours (package.module:Class) are models too",
            missing=no_folder(name),
        )
    if revision is not None:
        raise ConfigError(
            f"a revision is for models from the hub, and {name} is not from there; leave it out"
        )
    return here


def _find_here(name: str, cache_dir: str | os.PathLike[str] | None) -> _Place | None:
    if name in shipped_models():
        return _Place(folder=SHIPPED / name, name=name, source="shipped")
    folder = Path(name)
    try:
        is_folder = bool(name) and folder.is_dir()  # Path("") is the current folder.
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return None
    if is_folder:
        _require_no_shadow(folder, name)
        return _Place(folder=folder, name=folder.resolve().name, source="local")
    if name and folder.is_file():
        raise CheckpointError(f"{name} is a file; give the folder that holds {CONFIG}")
    home = checkpoints_folder(cache_dir)
    if name in _checkpoints(home):
        return _Place(folder=home / name, name=name, source="cache")
    return None


def _require_no_shadow(folder: Path, name: str) -> None:
    """Raise CheckpointError for a folder that is no checkpoint, but has the name of a model."""
    plain = name.rstrip("/")
    if (folder / CONFIG).is_file() or not (plain in ALIASES or is_hub_id(plain)):
        return
    way = f"give --model {ALIASES[plain]}, or rename it" if plain in ALIASES else "rename it"
    raise CheckpointError(
        f"the folder {plain} is not a checkpoint (it has no {CONFIG}), and hides the hub's model "
        f"of that name: {way}, or work in another folder"
    )


def _require_no_address(name: str) -> None:
    """Raise ConfigError for a web address, with the hub id that it means."""
    if "://" not in name:
        return
    found = _ADDRESS.fullmatch(name)
    if found is None:
        raise ConfigError(
            f"a model is a folder or a hub id (owner/name), not an address: {shown(name)}"
        )
    pinned = f", and extract with --revision {found['revision']}" if found["revision"] else ""
    raise ConfigError(f"{name} is an address: give --model {found['id']}{pinned}")


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


def _load_ouro(source: ModelSource) -> OuroModel:
    checkpoint = read_checkpoint(source.folder, source.device, source.dtype)
    record = source.record("ouro", checkpoint.config, checkpoint.sha256)
    return OuroModel(checkpoint.decoder, record, source.tokenizer)


def _from(module: str) -> Loader:
    """`load` of a family's module, imported when it is needed: transformers takes seconds."""
    return lambda source: importlib.import_module(f"trajdiag.models.{module}").load(source)


FAMILIES: dict[str, Loader] = {
    "dory": _from("dory"),
    "hrm_text": _from("hrm_text"),
    "huginn_raven": _from("huginn"),
    "inkling2_loop_text": _from("inkling2_loop_text"),
    "ouro": _load_ouro,
}
"""config.json's model_type, and what opens it."""

FREE_START = frozenset({"huginn_raven"})
"""The families whose state_0 does not follow from the tokens."""


def _checkpoints(home: Path) -> list[str]:
    return sorted(path.parent.name for path in home.glob(f"*/{CONFIG}"))


def _require_spelt(initial_state: str | None) -> None:
    if initial_state not in (None, ZEROS) and not _NOISE.fullmatch(initial_state):
        raise ConfigError(
            f"an initial state is {ZEROS} or noise:SEED (a whole number), not "
            f"{shown(initial_state)}"
        )
