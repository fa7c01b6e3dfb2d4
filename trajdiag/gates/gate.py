"""A gate fitted on a store's frozen states: its stopping values, and its folder on disk."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from trajdiag.errors import ConfigError, FingerprintError, GateError
from trajdiag.gates import objectives
from trajdiag.gates.config import FitGateConfig
from trajdiag.gates.descent import fit_network, mean_loss, new_network, on_raw_states
from trajdiag.gates.frozen_states import PIECE, FrozenStates, Standardiser, bytes_needed, measure
from trajdiag.gates.halting import cumulative_hazard, prior
from trajdiag.gates.network import GateNetwork
from trajdiag.gates.objectives import Objective
from trajdiag.store.durable import disk_errors, write_files
from trajdiag.store.reader import Store

CONFIG, WEIGHTS = "config.json", "gate.safetensors"
GATE_VERSION = 1

_UNREADABLE = (RuntimeError, SafetensorError, ConfigError)
"""What torch, safetensors and our own config raise for a folder that is no gate of ours."""


class Gate:
    """Reads one stopping value a loop off frozen states. `fit` learns what ends in `_`.

    `network_`: the network on the states as stored. `val_loss_`: its objective on val, nats, in
    float32. `baseline_loss_`: what val would give without the states (see Objective.baseline).
    `history_`: the val loss after each pass. `store_` and `fingerprint_`: what it was fitted on.
    """

    network_: GateNetwork
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
        self.config = config or FitGateConfig(**options)
        self.commands = []

    def __repr__(self) -> str:
        return f"Gate({self.name}{f', fitted on {self.store_}' if self.is_fitted else ''})"

    @property
    def name(self) -> str:
        return self.config.gate_name

    @property
    def objective(self) -> str:
        return self.config.objective

    @property
    def direction(self) -> Literal["high"]:
        """High values mean ready to stop."""
        return "high"

    @property
    def first_loop(self) -> int:
        """The first loop at which it can stop: 2 where its labels look back, else 1."""
        return 2 if (self.objective, self.config.utility) == ("utility", "previous") else 1

    @property
    def is_fitted(self) -> bool:
        return hasattr(self, "network_")

    def fit(self, store: Store, progress: Callable[[str], None] = lambda line: None) -> "Gate":
        """Fit on the `fit` split, stop by `val`; returns self.

        Raises GateError where the store lacks one of the two.
        """
        config = self.config
        _require_splits(store)
        rng = np.random.default_rng(config.seed)
        fit, val = (_objective(config, store, split) for split in ("fit", "val"))
        standardise = measure(store, fit.loops, rng)
        dtype = _product_dtype(config.kind, store.d_model)
        kept = bytes_needed(store, fit.loops, dtype) <= config.memory * 2**30
        network, self.history_ = fit_network(
            new_network(config.kind, store.d_model, config.seed),
            (FrozenStates(store, "fit", fit.loops, standardise, dtype, kept), fit),
            (FrozenStates(store, "val", val.loops, standardise, dtype, kept), val),
            rng=rng,
            dtype=dtype,
            epochs=config.epochs,
            patience=config.patience,
            progress=progress,
        )
        self.network_ = on_raw_states(network, standardise)
        self.store_, self.fingerprint_ = store.name, store.fingerprint
        self.commands = [config.command(store.name)]
        self.val_loss_ = _raw_loss(self.network_, store, "val", val)
        self.baseline_loss_ = val.baseline
        return self

    def hazard_logits(self, hidden: Tensor) -> Tensor:
        """The gate's logits, float32 [...], of states [..., d_model] in any dtype."""
        self._require_fitted()
        with torch.no_grad():
            return self.network_(hidden.float())

    def values(self, store: Store, split: str) -> np.ndarray:
        """The stop signal, float64 [example, loop]; NaN before `first_loop`.

        It is the cumulative hazard -log(1 - CDF), nats, infinite at T; for the correctness
        objective it is the logit itself. Raises FingerprintError for a store it was not fitted on.
        """
        self.require_store(store)
        rows = store.rows(split)
        logits = np.zeros((len(rows), store.loops))
        reads_last = self.objective == "correctness"
        for loop in range(self.first_loop, store.loops + reads_last):
            for start in range(0, len(rows), PIECE):
                states = store.torch("hidden", rows=rows[start : start + PIECE], loop=loop)
                logits[start : start + PIECE, loop - 1] = self.hazard_logits(states).numpy()
        if reads_last:
            return logits
        found = np.full(logits.shape, np.nan)
        after = self.first_loop - 1
        found[:, after:] = cumulative_hazard(torch.from_numpy(logits[:, after:])).numpy()
        return found

    def require_store(self, store: Store) -> None:
        """Raise FingerprintError unless it was fitted on exactly this store."""
        self._require_fitted()
        if store.fingerprint != self.fingerprint_:
            raise FingerprintError(
                f"gate {self.name} was fitted on store {self.store_} with fingerprint "
                f"{self.fingerprint_[:12]}, not on {store.name} with {store.fingerprint[:12]}; "
                f"fit one with `trajdiag fit-gate {store.name}`"
            )

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the gate's folder, config.json last; it names the weights' SHA-256."""
        self._require_fitted()
        folder = Path(folder)
        weights = save(self.network_.state_dict())
        content = {
            "version": GATE_VERSION,
            "name": self.name,
            **self.config.identity(),
            "d_model": self.network_.output.in_features,
            "store": self.store_,
            "commands": self.commands,
            "fingerprint": self.fingerprint_,
            "val_loss": self.val_loss_,
            "baseline_loss": self.baseline_loss_,
            "history": self.history_,
            "sha256": hashlib.sha256(weights).hexdigest(),
        }
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content, indent=1) + "\n"
        write_files({folder / WEIGHTS: weights, folder / CONFIG: text.encode()})
        return folder

    def _require_fitted(self) -> None:
        if not self.is_fitted:
            raise GateError(f"gate {self.name} is not fitted; call fit(store) first")


def load_gate(path: str | os.PathLike[str], store: Store) -> Gate:
    """The gate in folder `path`. Raises GateError where it is missing or damaged, FingerprintError
    where it was not fitted on `store`."""
    gate = read_gate(path)
    gate.require_store(store)
    return gate


def read_gate(path: str | os.PathLike[str]) -> Gate:
    """The gate in folder `path`, whatever its store. Raises GateError where missing or damaged."""
    folder = Path(path)
    if not (folder / CONFIG).is_file():
        raise GateError(
            f"no gate at {folder}: it has no {CONFIG}; make one with `trajdiag fit-gate`"
        )
    try:
        content = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        if content["version"] != GATE_VERSION:
            raise GateError(
                f"gate {folder} has version {content['version']}, this trajdiag reads "
                f"{GATE_VERSION}; fit it again with --overwrite"
            )
        options = {key: content[key] for key in FitGateConfig().identity()}
        gate = Gate(FitGateConfig(name=content["name"], **options))
        network = GateNetwork(gate.config.kind, content["d_model"])
        weights = (folder / WEIGHTS).read_bytes()
        if hashlib.sha256(weights).hexdigest() != content["sha256"]:
            raise ValueError(f"{WEIGHTS} is not the file that {CONFIG} names")
        network.load_state_dict(load(weights))
        gate.network_ = network.requires_grad_(False)
        gate.store_, gate.fingerprint_ = content["store"], content["fingerprint"]
        gate.val_loss_, gate.baseline_loss_ = content["val_loss"], content["baseline_loss"]
        gate.history_, gate.commands = content["history"], content["commands"]
        if not isinstance(gate.fingerprint_, str) or not isinstance(gate.commands, list):
            raise ValueError(f"{CONFIG} names no store, or no commands")
        if not all(torch.isfinite(weight).all() for weight in network.parameters()):
            raise ValueError(f"{WEIGHTS} holds NaN or infinity")
    except (OSError, ValueError, LookupError, TypeError, *_UNREADABLE) as error:
        reason = " ".join(str(error).split())
        raise GateError(
            f"gate {folder} is damaged: {reason}; fit it again with --overwrite"
        ) from error
    return gate


def _require_splits(store: Store) -> None:
    for missing in {"fit", "val"} - set(store.splits):
        raise GateError(
            f"store {store.name} has no {missing} examples, and a gate is fitted on fit and "
            "stopped by val; extract with that split (a benchmark without training questions has "
            "none), or score its signals, which need no fitting"
        )


def _objective(config: FitGateConfig, store: Store, split: str) -> Objective:
    if config.objective == "correctness":
        return objectives.correctness(torch.from_numpy(store.correct(split)))
    ce = torch.from_numpy(store.cross_entropy(split))
    if config.objective == "utility":
        return objectives.utility(ce, config.utility, config.k, config.gamma)
    return objectives.ponder(ce, prior(config.prior, store.loops, config.lam), config.beta)


def _raw_loss(network: GateNetwork, store: Store, split: str, objective: Objective) -> float:
    """The objective in float32 on the states as stored, nats."""
    as_stored = Standardiser(mean=torch.zeros(store.d_model), spread=torch.ones(store.d_model))
    states = FrozenStates(store, split, objective.loops, as_stored, torch.float32, in_memory=False)
    return mean_loss(network, states, objective, torch.float32)


def _product_dtype(kind: str, d_model: int) -> torch.dtype:
    """bfloat16 where products dominate and the processor multiplies it natively, else float32."""
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()
    native = capabilities.get("avx512_bf16", False) or capabilities.get("amx_bf16", False)
    return torch.bfloat16 if native and kind == "mlp" and d_model >= 128 else torch.float32
