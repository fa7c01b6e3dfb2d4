"""The network that reads a halting logit off a hidden state, trained jointly or afterwards."""

from typing import Literal, get_args

from torch import Tensor, nn
from torch.nn.functional import silu

from trajdiag.errors import ConfigError

GateKind = Literal["linear", "mlp"]
GATE_KINDS: tuple[GateKind, ...] = get_args(GateKind)


class GateNetwork(nn.Module):
    """`linear`: one affine map to a logit. `mlp`: d_model -> d_model, SiLU, -> a logit.

    Tensors: `output.weight` [1, d_model] and `output.bias` [1]; for `mlp` also `hidden.weight`
    [d_model, d_model] and `hidden.bias` [d_model].
    """

    def __init__(self, kind: GateKind, d_model: int) -> None:
        super().__init__()
        if kind not in GATE_KINDS:
            raise ConfigError(f"unknown gate kind {kind!r}; existing: {', '.join(GATE_KINDS)}")
        self.kind: GateKind = kind
        self.hidden = nn.Linear(d_model, d_model) if kind == "mlp" else None
        self.output = nn.Linear(d_model, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """Halting logits [...] of states [..., d_model], in the states' dtype."""
        if self.hidden is not None:
            hidden = silu(self.hidden(hidden))
        return self.output(hidden).squeeze(-1)
