"""`fit-gate`: a gate fitted on a store's frozen states and kept beside it."""

import os
from typing import Any

from trajdiag.cachedir import gates_folder
from trajdiag.errors import ConfigError
from trajdiag.gates.config import FitGateConfig
from trajdiag.gates.gate import CONFIG, Gate, read_gate
from trajdiag.names import checked_options
from trajdiag.progress import Progress
from trajdiag.store.durable import require_writable
from trajdiag.store.reader import Store, open_store


def fit_gate(
    store: Store | str | os.PathLike[str] | None = None,
    *,
    progress: Progress = lambda line: None,
    **options: Any,
) -> Gate:
    """Fit a gate on `store` (a name or a path; the newest complete one when absent) and save it
    under gates/STORE/NAME of the cache. `options` are FitGateConfig's fields.

    The store is only read. A gate of the same options and store is loaded instead of fitted again;
    raises ConfigError listing the differing options where the name is taken by another, StoreError,
    before anything is fitted, where it cannot be saved.
    """
    options = checked_options("fit_gate", FitGateConfig, options, "progress")
    config = FitGateConfig(**options)
    config.require_used()
    store = open_store(store, config.cache_dir)
    folder = gates_folder(store.name, config.cache_dir) / config.gate_name
    if (folder / CONFIG).is_file() and not config.overwrite:
        found = _same(read_gate(folder), config, store)
        progress(f"gate {found.name} of store {store.name} is fitted already")
        return found
    require_writable(folder)
    gate = Gate(config).fit(store, progress)
    gate.save(folder)
    nothing = f"; the {gate.reads} tell it nothing" * (gate.val_loss_ >= gate.baseline_loss_)
    progress(f"gate {gate.name} of store {store.name}: {gate.losses()}{nothing}")
    return gate


def _same(found: Gate, config: FitGateConfig, store: Store) -> Gate:
    """`found`, unless it is not what `config` would fit on `store`."""
    had = {**found.config.identity(), "fingerprint": found.fingerprint_[:12]}
    wanted = {**config.identity(), "fingerprint": store.fingerprint[:12]}
    differing = [f"{key} ({had[key]} -> {wanted[key]})" for key in had if had[key] != wanted[key]]
    if differing:
        raise ConfigError(
            f"gate {found.name} of store {store.name} was fitted with other options or on other "
            f"states: {', '.join(differing)}; choose another --name, or --overwrite it"
        )
    return found
