"""The Ouro decoder: embed once, then loop one stack of layers and a final norm (arXiv 2510.25741).

Tokens run through it as one flat axis [token, d_model], whatever rows they came from: every linear
layer is one matrix product, and only attention looks at the rows. A padded batch is one group of
equal rows; a training batch is several groups of different lengths, without padding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, scaled_dot_product_attention

from trajdiag.gates.network import GateNetwork
from trajdiag.models.batch import Batch, LayerWeights, Projection, gathered_batch
from trajdiag.models.config import OuroConfig
from trajdiag.models.fused import rms_norm, rotate, swiglu
from trajdiag.models.lean_loop import lean_loop
from trajdiag.models.scratch import scratch_for
from trajdiag.models.short_attention import ShortRows, short_rows, suits
from trajdiag.models.short_loops import short_loops
from trajdiag.models.short_space import Spaces

Groups = tuple[tuple[int, int], ...]
"""(rows, positions) of each."""

_JOIN_UP_TO = 512
"""The width up to which one joined projection is worth copying its weights together for."""
_LEAN_FROM = 257
"""The width from which on `lean_loop` serves whatever needs no gradients: a tenth faster at 384 and
512. Below it gains less, down to nothing at 64 (measured on two cores)."""


@dataclass(frozen=True, kw_only=True)
class PackedStates:
    """The states of a packed batch."""

    hidden: list[Tensor]
    """[token, d_model] after each loop, normed: what head, gate and the next loop read."""
    last: Tensor
    """int64 [row]: the token at each row's last position, rows in the order of the groups."""


class OuroDecoder(nn.Module):
    """Ouro's tensors under Ouro's names, and its maths."""

    def __init__(self, config: OuroConfig) -> None:
        super().__init__()
        self.config = config
        self.model = _Body(config)
        self._spaces = Spaces()
        if not config.tie_word_embeddings:
            self.lm_head = _Weight(config.vocab_size, config.hidden_size)
        if config.gate == "mlp":
            self.trajdiag = nn.ModuleDict({"exit_gate": GateNetwork("mlp", config.hidden_size)})

    @property
    def head_weight(self) -> Tensor:
        """[vocab, d_model]."""
        tied = self.config.tie_word_embeddings
        return self.model.embed_tokens.weight if tied else self.lm_head.weight

    def embed(self, input_ids: Tensor) -> Tensor:
        """State 0, [..., d_model] of int64 [...]."""
        return embedding(input_ids, self.model.embed_tokens.weight)

    def batch(
        self,
        groups: tuple[tuple[int, int], ...],
        position_ids: Tensor,
        mask: Tensor | None = None,
        *,
        lean: bool = True,
    ) -> Batch:
        """What the loops of one batch share; `position_ids` int64 [token]. Without `lean` it is not
        for `lean_loop`."""
        device = position_ids.device.type
        autocast = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if autocast else self.model.norm.weight.dtype
        width = self.config.hidden_size
        lean = lean and width >= _LEAN_FROM and not (autocast or torch.is_grad_enabled())
        narrow = width <= _JOIN_UP_TO and not lean
        # A complex product turns short heads several times faster, but only float32 has it, and its
        # pairs must be neighbours: attention does not mind the order of a head's dimensions, so the
        # rows of the joined copy are reordered.
        neighbours = narrow and dtype == torch.float32
        angle = _angles(position_ids, self.config.head_dim, self.config.rope_theta).unsqueeze(1)
        if neighbours:
            turn = torch.polar(torch.ones_like(angle), angle)
        else:
            turn = torch.stack([angle.cos(), angle.sin()]).to(dtype)
        layers = tuple(
            _layer_weights(layer, dtype, self.config.head_dim, join=narrow, neighbours=neighbours)
            for layer in self.model.layers
        )
        scratch = None
        if lean:
            scratch = scratch_for(self.config, groups, mask is None, position_ids.device, dtype)
        return Batch(groups=groups, mask=mask, turn=turn, layers=layers, scratch=scratch)

    def gather(self, parts: Sequence[tuple[Batch, Tensor]]) -> Batch:
        """One batch of the wanted rows, int64 [row], of batches of one group each, whose positions
        are as many."""
        first = parts[0][0]
        scratch = first.scratch
        rows, positions = sum(len(rows) for _, rows in parts), first.groups[0][1]
        if scratch is not None and scratch.tokens < rows * positions:
            scratch = scratch_for(
                self.config,
                ((rows, positions),),
                all(batch.mask is None for batch, _ in parts),
                scratch.stream.device,
                scratch.stream.dtype,
            )
        return gathered_batch(parts, scratch)

    def loop(self, x: Tensor, batch: Batch) -> Tensor:
        """One pass through all layers and the final norm, [token, d_model] to [token, d_model]."""
        if batch.scratch is not None and not torch.is_grad_enabled():
            return lean_loop(x, batch, batch.scratch, self.model.norm.weight, self.config)
        for layer in batch.layers:
            x = self.after_attention(x, self._attend(x, layer, batch), layer)
        return self.last_norm(x)

    def heads(self, x: Tensor, layer: LayerWeights, turn: Tensor) -> Tensor:
        """[token, head + 2 x key head, head_dim]: queries, keys and values of the stream `x`, which
        is normed first, the first two turned by the angles of their tokens."""
        config = self.config
        rotated = config.num_attention_heads + config.num_key_value_heads
        projected = self._projected(x, layer)
        heads = projected.view(-1, rotated + config.num_key_value_heads, config.head_dim)
        return rotate(heads, turn, rotated=rotated)

    def after_attention(self, x: Tensor, attended: Tensor, layer: LayerWeights) -> Tensor:
        """The stream after a layer, of the one before it and what its attention gives, [token,
        d_model]."""
        eps = self.config.rms_norm_eps
        x = rms_norm(attended, layer.attention_out_norm, eps, residual=x)
        fed = _project(rms_norm(x, layer.mlp_in_norm, eps), layer.gate_up)
        return rms_norm(linear(swiglu(fed), layer.down), layer.mlp_out_norm, eps, residual=x)

    def last_norm(self, x: Tensor) -> Tensor:
        """A loop's end: the state of the stream."""
        return rms_norm(x, self.model.norm.weight, self.config.rms_norm_eps)

    def head(self, hidden: Tensor) -> Tensor:
        """float32 logits [..., vocab] of states [..., d_model], computed in float32."""
        with torch.autocast(hidden.device.type, enabled=False):
            return linear(hidden.float(), self.head_weight.float())

    def gate(self, hidden: Tensor) -> Tensor | None:
        """float32 halting logits [...] of states [..., d_model]; None without a gate."""
        if self.config.gate == "none":
            return None
        with torch.autocast(hidden.device.type, enabled=False):
            if self.config.gate == "mlp":
                network = self.trajdiag["exit_gate"]
                weights = {name: tensor.float() for name, tensor in network.named_parameters()}
                return torch.func.functional_call(network, weights, (hidden.float(),))
            gate = self.model.early_exit_gate
            return linear(hidden.float(), gate.weight.float(), gate.bias.float()).squeeze(-1)

    def run_packed(self, groups: list[Tensor]) -> PackedStates:
        """Run groups of equal-length rows, each int64 [row, position] without padding, to T.

        Tokens are concatenated group by group and row by row.
        """
        shapes, device = _shapes(groups), groups[0].device
        positions = torch.cat([torch.arange(p, device=device).repeat(r) for r, p in shapes])
        batch, x, hidden = self.batch(shapes, positions), self._embed_packed(groups), []
        for _ in range(self.config.total_ut_steps):
            x = self.loop(x, batch)
            hidden.append(x)
        ends = torch.cat([torch.full((r,), p, device=device) for r, p in shapes]).cumsum(0) - 1
        return PackedStates(hidden=hidden, last=ends)

    def read_packed(self, groups: list[Tensor], read_at: Tensor) -> Tensor:
        """[loop, read, d_model]: what `run_packed` gives at the tokens `read_at`, int64 [read],
        after each of the config's T loops; faster where gradients are needed."""
        config = self.config
        if not self._short(groups):
            hidden = self.run_packed(groups).hidden
            return torch.stack([state.index_select(0, read_at) for state in hidden])
        return short_loops(
            self._embed_packed(groups),
            [
                _layer_weights(layer, torch.float32, config.head_dim, join=True, neighbours=True)
                for layer in self.model.layers
            ],
            self.model.norm.weight,
            _short_rows(
                _shapes(groups), config.num_attention_heads, config.head_dim, config.rope_theta
            ),
            read_at,
            self._spaces,
            head_dim=config.head_dim,
            loops=config.total_ut_steps,
            eps=config.rms_norm_eps,
        )

    def _embed_packed(self, groups: list[Tensor]) -> Tensor:
        """State 0, [token, d_model], of packed groups."""
        return self.embed(torch.cat([group.reshape(-1) for group in groups]))

    def _short(self, groups: list[Tensor]) -> bool:
        """Whether `short_loops` serves them."""
        config, device = self.config, groups[0].device
        narrow = config.hidden_size <= _JOIN_UP_TO and self.model.norm.weight.dtype == torch.float32
        plain = narrow and config.num_attention_heads == config.num_key_value_heads
        full = torch.is_grad_enabled() and not torch.is_autocast_enabled(device.type)
        return plain and full and suits(_shapes(groups), device)

    def _projected(self, x: Tensor, layer: LayerWeights) -> Tensor:
        """Queries, keys and values side by side of the stream `x`, which is normed first."""
        return _project(rms_norm(x, layer.attention_in_norm, self.config.rms_norm_eps), layer.qkv)

    def _attend(self, x: Tensor, layer: LayerWeights, batch: Batch) -> Tensor:
        config = self.config
        queries, keys = config.num_attention_heads, config.num_key_value_heads
        heads = self.heads(x, layer, batch.turn)
        attended = []
        for group, (rows, positions) in zip(
            heads.split([r * p for r, p in batch.groups]), batch.groups, strict=True
        ):
            # [row, head, position, head_dim]
            by_row = group.view(rows, positions, -1, config.head_dim).transpose(1, 2)
            q, k, v = by_row.split([queries, keys, keys], dim=1)
            if keys != queries:
                k, v = (t.repeat_interleave(queries // keys, dim=1) for t in (k, v))
            out = scaled_dot_product_attention(
                q, k, v, attn_mask=batch.mask, is_causal=batch.mask is None
            )
            attended.append(out.transpose(1, 2).reshape(rows * positions, -1))
        return linear(attended[0] if len(attended) == 1 else torch.cat(attended), layer.output)


def _angles(position_ids: Tensor, head_dim: int, theta: float) -> Tensor:
    """float32 [token, head_dim / 2], in radians."""
    pair = torch.arange(0, head_dim, 2, device=position_ids.device, dtype=torch.float32)
    frequency = 1.0 / theta ** (pair / head_dim)
    return position_ids.float().unsqueeze(-1) * frequency


def _shapes(groups: Sequence[Tensor]) -> Groups:
    return tuple((group.shape[0], group.shape[1]) for group in groups)


@lru_cache(maxsize=16)
def _short_rows(groups: Groups, heads: int, head_dim: int, theta: float) -> ShortRows:
    """Kept, since the steps of a training ask for the same ones."""
    longest = torch.arange(max(positions for _, positions in groups))
    return short_rows(groups, _angles(longest, head_dim, theta), heads)


class _Body(nn.Module):
    def __init__(self, config: OuroConfig) -> None:
        super().__init__()
        self.embed_tokens = _Weight(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = _Weight(config.hidden_size)
        if config.gate == "linear":
            self.early_exit_gate = _Weight(1, config.hidden_size, bias=True)


class _Layer(nn.Module):
    def __init__(self, config: OuroConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.self_attn = _Attention(config)
        self.mlp = _Mlp(config)
        self.input_layernorm = _Weight(width)
        self.input_layernorm_2 = _Weight(width)
        self.post_attention_layernorm = _Weight(width)
        self.post_attention_layernorm_2 = _Weight(width)


class _Attention(nn.Module):
    def __init__(self, config: OuroConfig) -> None:
        super().__init__()
        width, dim = config.hidden_size, config.head_dim
        queries, keys = config.num_attention_heads * dim, config.num_key_value_heads * dim
        self.q_proj = _Weight(queries, width)
        self.k_proj = _Weight(keys, width)
        self.v_proj = _Weight(keys, width)
        self.o_proj = _Weight(width, queries)


class _Mlp(nn.Module):
    def __init__(self, config: OuroConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = _Weight(inner, width)
        self.up_proj = _Weight(inner, width)
        self.down_proj = _Weight(width, inner)


class _Weight(nn.Module):
    """A weight to be filled: torch's own layers draw theirs, which even on the meta device costs a
    second and 74 MB of imports."""

    def __init__(self, *shape: int, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape))
        if bias:
            self.bias = nn.Parameter(torch.empty(shape[0]))


def _layer_weights(
    layer: nn.Module, dtype: torch.dtype, head_dim: int, *, join: bool, neighbours: bool
) -> LayerWeights:
    assert isinstance(layer, _Layer)
    attention, mlp = layer.self_attn, layer.mlp
    turned = [attention.q_proj.weight, attention.k_proj.weight]
    if neighbours:
        # [head, half, pair, d_model] to [head, pair, half, d_model]
        turned = [
            w.unflatten(0, (-1, 2, head_dim // 2)).transpose(1, 2).flatten(0, 2) for w in turned
        ]
    return LayerWeights(
        attention_in_norm=layer.input_layernorm.weight,
        qkv=_projection([*turned, attention.v_proj.weight], dtype, join),
        output=attention.o_proj.weight.to(dtype),
        attention_out_norm=layer.input_layernorm_2.weight,
        mlp_in_norm=layer.post_attention_layernorm.weight,
        gate_up=_projection([mlp.gate_proj.weight, mlp.up_proj.weight], dtype, join),
        down=mlp.down_proj.weight.to(dtype),
        mlp_out_norm=layer.post_attention_layernorm_2.weight,
    )


def _projection(weights: list[Tensor], dtype: torch.dtype, join: bool) -> Projection:
    cast = tuple(weight.to(dtype) for weight in weights)
    return (torch.cat(cast),) if join else cast


def _project(x: Tensor, weights: Projection) -> Tensor:
    if len(weights) == 1:
        return linear(x, weights[0])
    return torch.cat([linear(x, weight) for weight in weights], dim=-1)
