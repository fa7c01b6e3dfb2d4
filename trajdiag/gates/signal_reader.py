"""The boosted gate: gradient-boosted trees on the causal signals and their changes.

One ensemble for all loops, with the loop as a feature: fitted loop by loop it misses what holds at
all of them. (Histogram gradient boosting as in LightGBM, NeurIPS 2017, by scikit-learn.)
"""

from typing import Any, Self

import numpy as np
from safetensors.numpy import load, save

from trajdiag.gates.boosting import fit_trees
from trajdiag.gates.config import FitGateConfig
from trajdiag.gates.objectives import Objective
from trajdiag.gates.reader import CONSTANT, Progress
from trajdiag.gates.signal_features import SignalFeatures, feature_count, features, readable
from trajdiag.gates.trees import Trees
from trajdiag.store.reader import Store

MOST_ROWS = 250_000
"""Examples times loops that are fitted on at most, drawn by the seed."""
_PIECE = 8192
"""Examples whose features are held at a time."""


class SignalReader:
    """`trees` on the features that `names` make, in this order."""

    def __init__(self, names: tuple[str, ...], trees: Trees) -> None:
        self.names, self.trees = names, trees

    @classmethod
    def fit(
        cls, config: FitGateConfig, store: Store, fit: Objective, val: Objective, progress: Progress
    ) -> tuple[Self, list[float]]:
        """Boost on MOST_ROWS fit rows at most, choose the number of trees by as many of val; see
        GateReader."""
        names = readable(store)
        rng = np.random.default_rng(config.seed)
        x, drawn = _drawn(SignalFeatures(store, "fit", names), fit, rng)
        if drawn.constant is not None:
            progress(CONSTANT)
            return cls(names, Trees.constant(drawn.constant)), []
        trees, history = fit_trees(
            (x, drawn),
            _drawn(SignalFeatures(store, "val", names), val, rng),
            regress=config.objective == "depth",
            seed=config.seed,
            epochs=config.epochs,
            patience=config.patience,
            progress=progress,
        )
        return cls(names, trees), history

    @classmethod
    def from_folder(cls, config: FitGateConfig, content: dict[str, Any], weights: bytes) -> Self:
        """See GateReader."""
        names = content["signals"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("signals is no list of names")
        return cls(tuple(names), Trees.from_arrays(load(weights), feature_count(names)))

    def outputs(self, store: Store, split: str, loops: range) -> np.ndarray:
        """See GateReader."""
        features = SignalFeatures(store, split, self.names)
        found = np.empty((len(features), len(loops)))
        for examples, x in features.blocks(loops, _PIECE):
            found[examples] = self.trees(x.reshape(-1, x.shape[-1])).reshape(x.shape[:2])
        return found

    def output(self, values: np.ndarray, before: np.ndarray, loop: np.ndarray) -> np.ndarray:
        """float64 [example], of `values` [example, name] at the loops `loop` [example] and at the
        loops `before`; see `features`."""
        return self.trees(features(values, before, loop))

    def facts(self) -> dict[str, Any]:
        """The signals that it reads, in order; `native` is the model's own gate."""
        return {"signals": list(self.names)}

    def weights(self) -> bytes:
        """The trees' arrays."""
        return save(self.trees.arrays())


def _drawn(
    features: SignalFeatures, objective: Objective, rng: np.random.Generator
) -> tuple[np.ndarray, Objective]:
    """The features of all examples, or of as many as make MOST_ROWS rows, and their objective."""
    most = max(1, MOST_ROWS // len(objective.loops))
    if len(features) <= most:
        return features.at(slice(None), objective.loops), objective
    drawn = np.sort(rng.choice(len(features), most, replace=False))
    return features.at(drawn, objective.loops), objective.of(drawn)
