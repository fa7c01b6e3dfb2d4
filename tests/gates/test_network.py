import numpy as np
import pytest
import torch

from trajdiag.errors import ConfigError
from trajdiag.gates.network import GateNetwork


def test_linear_gate_is_an_affine_map():
    gate = GateNetwork("linear", 8)
    states = torch.randn(3, 4, 8)
    weight, bias = (t.detach().numpy() for t in (gate.output.weight, gate.output.bias))
    expected = states.numpy() @ weight[0] + bias[0]
    np.testing.assert_allclose(gate(states).detach(), expected, rtol=1e-5, atol=1e-6)
    assert set(gate.state_dict()) == {"output.weight", "output.bias"}


def test_mlp_gate_has_one_silu_layer_as_wide_as_the_state():
    gate = GateNetwork("mlp", 8)
    states = torch.randn(5, 8)
    w = {name: tensor.double().numpy() for name, tensor in gate.state_dict().items()}
    z = states.double().numpy() @ w["hidden.weight"].T + w["hidden.bias"]
    expected = (z / (1 + np.exp(-z))) @ w["output.weight"][0] + w["output.bias"][0]
    np.testing.assert_allclose(gate(states).detach(), expected, rtol=1e-5, atol=1e-6)
    assert w["hidden.weight"].shape == (8, 8)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ConfigError, match="existing: linear, mlp"):
        GateNetwork("cubic", 8)  # pyright: ignore[reportArgumentType]
