"""The linear and MLP gates: a network on one loop's hidden state."""

from typing import Any, Self

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from trajdiag.gates.config import FitGateConfig
from trajdiag.gates.descent import constant_network, fit_network, new_network, on_raw_states
from trajdiag.gates.frozen_states import PIECE, FrozenStates, bytes_needed, measure
from trajdiag.gates.network import GateNetwork
from trajdiag.gates.objectives import Objective
from trajdiag.gates.reader import CONSTANT, Progress
from trajdiag.store.reader import Store


class StateReader:
    """`network` reads the states as they are stored."""

    def __init__(self, network: GateNetwork) -> None:
        self.network = network.requires_grad_(False)
        self._wide: dict[torch.device, dict[str, Tensor]] = {}

    @classmethod
    def fit(
        cls, config: FitGateConfig, store: Store, fit: Objective, val: Objective, progress: Progress
    ) -> tuple[Self, list[float]]:
        """Descend on the fit states, stop by val; see GateReader."""
        network = new_network(config.network_kind, store.d_model, config.seed)
        if fit.constant is not None:
            progress(CONSTANT)
            return cls(constant_network(network, fit.constant)), []
        rng = np.random.default_rng(config.seed)
        standardise = measure(store, fit.loops, rng)
        dtype = _product_dtype(config.kind, store.d_model)
        kept = bytes_needed(store, fit.loops, dtype) <= config.memory * 2**30
        network, history = fit_network(
            network,
            (FrozenStates(store, "fit", fit.loops, standardise, dtype, kept), fit),
            (FrozenStates(store, "val", val.loops, standardise, dtype, kept), val),
            rng=rng,
            dtype=dtype,
            epochs=config.epochs,
            patience=config.patience,
            progress=progress,
        )
        return cls(on_raw_states(network, standardise)), history

    @classmethod
    def from_folder(cls, config: FitGateConfig, content: dict[str, Any], weights: bytes) -> Self:
        """See GateReader."""
        tensors, d_model = load(weights), content["d_model"]
        if type(d_model) is not int or tensors["output.weight"].shape != (1, d_model):
            raise ValueError("d_model is not the width that the weights have")
        network = GateNetwork(config.network_kind, d_model)
        network.load_state_dict(tensors)
        if not all(torch.isfinite(weight).all() for weight in network.parameters()):
            raise ValueError("the weights hold NaN or infinity")
        return cls(network)

    def logits(self, hidden: Tensor) -> Tensor:
        """The network's outputs, float32 [...], of states [..., d_model] in any dtype.

        Computed in float64: a product's last bits depend on how many states are read together, and
        rounding to float32 takes them away.
        """
        with torch.no_grad():
            return torch.func.functional_call(
                self.network, self._weights(hidden.device), (hidden.double(),)
            ).float()

    def _weights(self, device: torch.device) -> dict[str, Tensor]:
        """The network's, float64, on `device`."""
        if self._wide.get(device) is None:
            self._wide[device] = {
                name: weight.to(device, torch.float64)
                for name, weight in self.network.named_parameters()
            }
        return self._wide[device]

    def outputs(self, store: Store, split: str, loops: range) -> np.ndarray:
        """See GateReader; every store has states."""
        rows = store.rows(split)
        found = np.empty((len(rows), len(loops)))
        for column, loop in enumerate(loops):
            for start in range(0, len(rows), PIECE):
                states = store.torch("hidden", rows=rows[start : start + PIECE], loop=loop)
                found[start : start + PIECE, column] = self.logits(states).numpy()
        return found

    def facts(self) -> dict[str, Any]:
        """The states' width."""
        return {"d_model": self.network.output.in_features}

    def weights(self) -> bytes:
        """The network's tensors."""
        return save(self.network.state_dict())


def _product_dtype(kind: str, d_model: int) -> torch.dtype:
    """bfloat16 where products dominate and the processor multiplies it natively, else float32."""
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()
    native = capabilities.get("avx512_bf16", False) or capabilities.get("amx_bf16", False)
    return torch.bfloat16 if native and kind == "mlp" and d_model >= 128 else torch.float32
