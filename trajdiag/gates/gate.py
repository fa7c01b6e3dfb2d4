"""A gate fitted on a store's frozen states: its stopping values, and its folder on disk."""

import hashlib
import json
import math
import os
import shlex
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.nn.functional import pad

from trajdiag.errors import ConfigError, FingerprintError, GateError, shown
from trajdiag.gates import objectives
from trajdiag.gates.config import FITTED_KINDS, FitGateConfig
from trajdiag.gates.halting import cumulative_hazard, prior
from trajdiag.gates.objectives import LOOPS_SQUARED, NATS, SCALES, Objective, Scale
from trajdiag.gates.reader import GateReader
from trajdiag.gates.signal_reader import SignalReader
from trajdiag.gates.state_reader import StateReader
from trajdiag.html_tables import html_facts
from trajdiag.names import checked_options, require_type
from trajdiag.progress import Progress
from trajdiag.store.checksum import crc32c
from trajdiag.store.durable import disk_errors, write_files
from trajdiag.store.made_again import made_again_with
from trajdiag.store.reader import Store

CONFIG, WEIGHTS = "config.json", "gate.safetensors"
GATE_VERSION = 1
_CHECK = "crc32c"

_LONGEST = 255
"""Bytes of a store's name: it is a folder's."""
_SAID: dict[str, Any] = {
    "store": str,
    "fingerprint": str,
    "commands": tuple[str, ...],
    "val_loss": float,
    "baseline_loss": float,
    "history": tuple[float, ...],
}
"""What a config says beside its options and its reader's facts, and of what type it is."""
_UNREADABLE = (RuntimeError, SafetensorError, ConfigError)
"""What torch, safetensors and our own config raise for a folder that is no gate of ours."""


class Gate:
    """Reads one stopping value a loop off frozen trajectories. `fit` learns what ends in `_`.

    `reader_`: the network on the states as stored, or the trees on the signals. `val_loss_`: its
    objective on val, in `loss_unit`. `baseline_loss_`: what val would give without looking at the
    states (see Objective.baseline). `history_`: the val loss after each pass, empty for a constant.
    `store_` and `fingerprint_`: what it was fitted on.
    """

    reader_: GateReader
    val_loss_: float
    baseline_loss_: float
    history_: list[float]
    store_: str
    fingerprint_: str
    commands: list[str]
    """The command lines that fit it; empty before `fit`."""

    def __init__(self, config: FitGateConfig | None = None, **options: Any) -> None:
        if config is not None and options:
            raise ConfigError("give a gate a config or options, not both")
        if not isinstance(config, FitGateConfig | None):
            raise ConfigError(f"config must be a FitGateConfig, got {shown(config)}")
        self.config = config or FitGateConfig(**checked_options("Gate", FitGateConfig, options))
        self.commands = []

    def __repr__(self) -> str:
        if not self.is_fitted:
            return f"Gate({self.name}: not fitted)"
        return f"Gate({self.name}: fitted on {self.store_}, {self.losses()})"

    def _repr_html_(self) -> str:
        """What a notebook shows: what it reads and asks, and how well it does on val."""
        config, fitted = self.config, self.is_fitted
        asked = f" ({config.utility})" if config.objective == "utility" else ""
        passes = len(self.history_) if fitted else 0
        return html_facts(
            f"Gate {self.name}",
            [
                ("kind", f"{config.kind}, reads the {self.reads}"),
                ("objective", f"{config.objective}{asked}"),
                ("leaves", f"at a {self.direction} value, from loop {self.first_loop} on"),
                ("fitted on", self.store_ if fitted else "no store yet"),
                ("val", self.losses() if fitted else None),
                ("passes", f"{passes:,}" if passes else None),
                ("made by", " ; ".join(self.commands) or None),
            ],
        )

    def losses(self) -> str:
        """Its loss on val and what not looking gives, in words."""
        return (
            f"val loss {self.val_loss_:.5f} {self.loss_unit}, {self.baseline_loss_:.5f} without "
            f"the {self.reads}"
        )

    @property
    def name(self) -> str:
        return self.config.gate_name

    @property
    def objective(self) -> str:
        return self.config.objective

    @property
    def scale(self) -> Scale:
        """Whether its values are a cumulative hazard, a probability's logit, or loops."""
        return SCALES[self.config.objective]

    @property
    def loss_unit(self) -> str:
        """Of `val_loss_`, `baseline_loss_` and `history_`."""
        return LOOPS_SQUARED if self.scale == "loops" else NATS

    @property
    def reads(self) -> str:
        """What its values are read off."""
        return "signals" if self.config.kind == "boosted" else "states"

    @property
    def direction(self) -> Literal["high", "low"]:
        """Which values mean ready to stop: high ones, but for depth, few further loops."""
        return "low" if self.scale == "loops" else "high"

    @property
    def first_loop(self) -> int:
        """The first loop at which it can stop: 2 where its labels look back, else 1."""
        return 2 if (self.objective, self.config.utility) == ("utility", "previous") else 1

    @property
    def is_fitted(self) -> bool:
        return hasattr(self, "reader_")

    def fit(self, store: Store, progress: Progress = lambda line: None) -> "Gate":
        """Fit on the `fit` split, stop by `val`; returns self.

        Raises GateError where the store lacks one of the two.
        """
        config = self.config
        require_type("store", store, Store)
        _require_splits(store)
        fit, val = (_objective(config, store, split) for split in ("fit", "val"))
        reader, self.history_ = _READERS[config.kind].fit(config, store, fit, val, progress)
        outputs = torch.from_numpy(reader.outputs(store, "val", val.loops))
        self.val_loss_ = float(val.loss(outputs, val.evidence.double()))
        self.baseline_loss_ = val.baseline
        self.store_, self.fingerprint_ = store.name, store.fingerprint
        self.commands = [config.command(store.name)]
        self.reader_ = reader
        return self

    def values(self, store: Store, split: str) -> np.ndarray:
        """The stop signal, float64 [example, loop]; NaN before `first_loop`.

        For ponder and utility it is the cumulative hazard -log(1 - CDF), nats, infinite at T. For
        correctness and agreement it is the logit, infinite at T for agreement: the last loop agrees
        with itself. For depth it is the expected number of further loops, 0 at T. Raises
        FingerprintError for a store it was not fitted on, GateError where the store lacks a signal
        that it reads.
        """
        self.require_store(store)
        outputs = self.reader_.outputs(store, split, self.read_loops(store.loops))
        return self.stop_values(torch.from_numpy(outputs), store.loops).numpy()

    def read_loops(self, loops: int) -> range:
        """The loops, of so many, at which its reader's outputs are asked for."""
        return range(self.first_loop, loops + (self.objective == "correctness"))

    def stop_values(self, outputs: Tensor, loops: int) -> Tensor:
        """The values [example, loop] of the reader's `outputs`, float64 [example, loop of
        `read_loops`]; that of loop t is made of outputs up to loop t."""
        if self.objective == "correctness":
            return outputs
        read = self.read_loops(loops)
        found = outputs.new_full((len(outputs), loops), torch.nan)
        at = slice(read.start - 1, read.stop - 1)
        if self.scale == "hazard":
            found[:, at.start :] = cumulative_hazard(pad(outputs, (0, 1)))
        else:
            found[:, at] = outputs
            found[:, -1] = 0.0 if self.scale == "loops" else torch.inf
        return found

    def require_store(self, store: Store) -> None:
        """Raise FingerprintError unless it was fitted on exactly this store."""
        self.require_fitted()
        if store.fingerprint != self.fingerprint_:
            raise FingerprintError(
                f"gate {self.name} was fitted on store {self.store_} with fingerprint "
                f"{self.fingerprint_[:12]}, not on {store.name} with {store.fingerprint[:12]}; "
                f"fit one with `trajdiag fit-gate {shlex.quote(store.name)}`"
            )

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the gate's folder, config.json last; it names the weights' SHA-256."""
        self.require_fitted()
        folder = Path(folder)
        weights = self.reader_.weights()
        content = {
            "version": GATE_VERSION,
            "name": self.name,
            **self.config.identity(),
            **self.reader_.facts(),
            "store": self.store_,
            "commands": self.commands,
            "fingerprint": self.fingerprint_,
            "val_loss": self.val_loss_,
            "baseline_loss": self.baseline_loss_,
            "history": self.history_,
            "sha256": hashlib.sha256(weights).hexdigest(),
        }
        content[_CHECK] = _check(content)
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content, indent=1) + "\n"
        write_files({folder / WEIGHTS: weights, folder / CONFIG: text.encode()})
        return folder

    def require_fitted(self) -> None:
        """Raise GateError unless it is fitted."""
        if not self.is_fitted:
            raise GateError(f"gate {self.name} is not fitted; call fit(store) first")


_READERS: dict[str, type[GateReader]] = {
    kind: SignalReader if kind == "boosted" else StateReader for kind in FITTED_KINDS
}


def load_gate(path: str | os.PathLike[str], store: Store) -> Gate:
    """The gate in folder `path`. Raises GateError where it is missing or damaged, FingerprintError
    where it was not fitted on `store`."""
    gate = read_gate(path)
    gate.require_store(store)
    return gate


def read_gate(path: str | os.PathLike[str]) -> Gate:
    """The gate in folder `path`, whatever its store. Raises GateError where missing or damaged."""
    folder = Path(require_type("a gate's folder", path, str))
    if not (folder / CONFIG).is_file():
        raise GateError(
            f"no gate at {folder}: it has no {CONFIG}; make one with `trajdiag fit-gate`"
        )
    try:
        content = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError(f"{CONFIG} is no JSON object")
        if content["version"] != GATE_VERSION:
            raise GateError(
                f"gate {folder} has version {shown(content['version'])}, this trajdiag reads "
                f"{GATE_VERSION}; fit it again with --overwrite"
            )
        options = {key: content[key] for key in FitGateConfig().identity()}
        gate = Gate(FitGateConfig(name=content["name"], **options))
        weights = (folder / WEIGHTS).read_bytes()
        if hashlib.sha256(weights).hexdigest() != content["sha256"]:
            raise ValueError(f"{WEIGHTS} is not the file that {CONFIG} names")
        gate.reader_ = _READERS[gate.config.kind].from_folder(gate.config, content, weights)
        said = {key: require_type(key, content[key], kind) for key, kind in _SAID.items()}
        losses = [said["val_loss"], said["baseline_loss"], *said["history"]]
        if not all(map(math.isfinite, losses)):
            raise ValueError(f"{CONFIG} holds a loss that is not finite")
        if not 0 < len(said["store"].encode()) <= _LONGEST:
            raise ValueError(f"{CONFIG} names no store")
        if not "".join(said["commands"]).isprintable():
            raise ValueError(f"{CONFIG} holds commands that nobody can type")
        gate.store_, gate.fingerprint_ = said["store"], said["fingerprint"]
        gate.val_loss_, gate.baseline_loss_ = said["val_loss"], said["baseline_loss"]
        gate.history_, gate.commands = list(said["history"]), list(said["commands"])
        if content.get(_CHECK, _check(content)) != _check(content):
            raise ValueError(f"{CONFIG} is not what was written")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, *_UNREADABLE) as error:
        raise GateError(
            f"gate {folder} is damaged: {_reason(error)}; fit it again with --overwrite"
        ) from error
    return gate


def _check(content: dict[str, Any]) -> int:
    """Of all that a gate's config says but this number itself; earlier gates have none."""
    said = {key: value for key, value in content.items() if key != _CHECK}
    return crc32c(json.dumps(said, sort_keys=True, separators=(",", ":")).encode())


def _reason(error: Exception) -> str:
    """Why a gate's folder cannot be read, in words."""
    if isinstance(error, KeyError):
        return f"{CONFIG} does not say {error.args[0]}"
    if isinstance(error, TypeError | AttributeError | IndexError):
        return f"{CONFIG} says something of another type than a gate's"
    return " ".join(str(error).split())


def _require_splits(store: Store) -> None:
    for missing in {"fit", "val"} - set(store.splits):
        raise GateError(
            f"store {store.name} has no {missing} examples, and a gate is fitted on fit and "
            f"stopped by val; {made_again_with(store, missing)} (a benchmark without training "
            "questions has none), or score its signals, which need no fitting"
        )


def _objective(config: FitGateConfig, store: Store, split: str) -> Objective:
    if config.objective == "agreement":
        return objectives.agreement(torch.from_numpy(store.predictions(split)))
    if config.objective in ("correctness", "depth"):
        correct = torch.from_numpy(store.correct(split))
        return (objectives.depth if config.objective == "depth" else objectives.correctness)(
            correct
        )
    ce = torch.from_numpy(store.cross_entropy(split))
    if config.objective == "utility":
        return objectives.utility(ce, config.utility, config.k, config.gamma)
    return objectives.ponder(ce, prior(config.prior, store.loops, config.lam), config.beta)
