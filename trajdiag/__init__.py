"""trajdiag: when adaptive depth in a looped Transformer works badly, is it the trajectory or the
readout?

The functions of the command line, for notebooks: each is imported on first use, so that
`import trajdiag` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trajdiag.batch_report import report
    from trajdiag.deployment.choosing import choose_threshold
    from trajdiag.deployment.readout_file import load_readout
    from trajdiag.diagnosis.diagnosing import diagnose
    from trajdiag.extraction import extract
    from trajdiag.gates.frozen_fit import fit_gate
    from trajdiag.gates.gate import load_gate
    from trajdiag.latency.generation import generate
    from trajdiag.latency.measuring import measure_latency
    from trajdiag.models.registry import load_model
    from trajdiag.models.tracing import trace
    from trajdiag.plots import plot_attribution, plot_frontier, plot_regret
    from trajdiag.scoring.stores import score
    from trajdiag.store.arrays_import import import_arrays
    from trajdiag.store.from_arrays import from_arrays
    from trajdiag.store.reader import open_store as open
    from trajdiag.tasks.registry import make_task
    from trajdiag.training.config import train_config
    from trajdiag.training.trainer import train

_HOMES = {
    "choose_threshold": ("trajdiag.deployment.choosing", "choose_threshold"),
    "diagnose": ("trajdiag.diagnosis.diagnosing", "diagnose"),
    "extract": ("trajdiag.extraction", "extract"),
    "fit_gate": ("trajdiag.gates.frozen_fit", "fit_gate"),
    "from_arrays": ("trajdiag.store.from_arrays", "from_arrays"),
    "generate": ("trajdiag.latency.generation", "generate"),
    "import_arrays": ("trajdiag.store.arrays_import", "import_arrays"),
    "load_gate": ("trajdiag.gates.gate", "load_gate"),
    "load_model": ("trajdiag.models.registry", "load_model"),
    "load_readout": ("trajdiag.deployment.readout_file", "load_readout"),
    "make_task": ("trajdiag.tasks.registry", "make_task"),
    "measure_latency": ("trajdiag.latency.measuring", "measure_latency"),
    "open": ("trajdiag.store.reader", "open_store"),
    "plot_attribution": ("trajdiag.plots", "plot_attribution"),
    "plot_frontier": ("trajdiag.plots", "plot_frontier"),
    "plot_regret": ("trajdiag.plots", "plot_regret"),
    "report": ("trajdiag.batch_report", "report"),
    "score": ("trajdiag.scoring.stores", "score"),
    "trace": ("trajdiag.models.tracing", "trace"),
    "train": ("trajdiag.training.trainer", "train"),
    "train_config": ("trajdiag.training.config", "train_config"),
}

_CONFIGS = {
    "choose_threshold": ("trajdiag.deployment.targets", "TargetConfig"),
    "diagnose": ("trajdiag.diagnosis.diagnosing", "DiagnoseConfig"),
    "extract": ("trajdiag.extraction.config", "ExtractConfig"),
    "fit_gate": ("trajdiag.gates.config", "FitGateConfig"),
    "generate": ("trajdiag.latency.generation", "GenerateConfig"),
    "import_arrays": ("trajdiag.store.arrays_import", "ImportConfig"),
    "measure_latency": ("trajdiag.latency.config", "LatencyConfig"),
    "report": ("trajdiag.diagnosis.diagnosing", "DiagnoseConfig"),
    "score": ("trajdiag.scoring.stores", "ScoreConfig"),
    "train_config": ("trajdiag.training.config", "TrainConfig"),
}
"""The config whose fields are the options of a function, which `help` shows."""

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "choose_threshold",
    "diagnose",
    "extract",
    "fit_gate",
    "from_arrays",
    "generate",
    "import_arrays",
    "load_gate",
    "load_model",
    "load_readout",
    "make_task",
    "measure_latency",
    "open",
    "plot_attribution",
    "plot_frontier",
    "plot_regret",
    "report",
    "score",
    "trace",
    "train",
    "train_config",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'trajdiag' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = getattr(importlib.import_module(module), attribute)
    if name in _CONFIGS:
        home, config = _CONFIGS[name]
        shown = importlib.import_module("trajdiag.option_docs").show_options
        config = getattr(importlib.import_module(home), config)
        shown(value, config, defaults=name != "train_config")  # a preset has its own
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
