"""The Huginn decoder: a prelude, a core that is looped, and a coda before the head
(arXiv 2502.05171).

Tokens run through it as one flat axis [token, d_model], row by row; only attention looks at rows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, scaled_dot_product_attention

from trajdiag.models.fused import rms_norm, swiglu
from trajdiag.models.huginn_config import HuginnConfig


@dataclass(frozen=True, kw_only=True)
class HuginnBatch:
    """What every loop of one batch shares."""

    rows: int
    positions: int
    turn: Tensor
    """complex64 [token, 1, head_dim / 2]: exp(i angle) of the rotary embedding (arXiv 2104.09864),
    which turns dimensions 2i and 2i + 1 of a head together."""


class HuginnDecoder(nn.Module):
    """Huginn's tensors under Huginn's names, and its maths."""

    def __init__(self, config: HuginnConfig) -> None:
        super().__init__()
        self.config = config
        self.transformer = _Body(config)
        if not config.tie_embeddings:
            self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    @property
    def head_weight(self) -> Tensor:
        """[vocab, d_model]."""
        return self.transformer.wte.weight if self.config.tie_embeddings else self.lm_head.weight

    def batch(self, rows: int, positions: int, position_ids: Tensor) -> HuginnBatch:
        """What the loops of one batch share; `position_ids` int64 [token]."""
        # As in the published code the angles are float32 whatever the states are.
        dim = self.config.head_dim
        exponent = torch.arange(0, dim, 2, device=position_ids.device, dtype=torch.float32) / dim
        frequency = 1.0 / self.config.rope_base**exponent
        angle = position_ids.float().unsqueeze(-1) * frequency
        turn = torch.polar(torch.ones_like(angle), angle).unsqueeze(1)
        return HuginnBatch(rows=rows, positions=positions, turn=turn)

    def prelude(self, input_ids: Tensor, batch: HuginnBatch) -> Tensor:
        """What every loop reads beside its state: [token, d_model] of int64 [token]."""
        x = embedding(input_ids, self.transformer.wte.weight) * self.config.embedding_scale
        return self._blocks(self.transformer.prelude, x, batch)

    def loop(self, x: Tensor, injected: Tensor, batch: HuginnBatch) -> Tensor:
        """The next state of state `x`, given the prelude's output; all [token, d_model]."""
        adapter = self.transformer.adapter
        x = linear(torch.cat([x, injected], dim=-1), adapter.weight, adapter.bias)
        return self._blocks(self.transformer.core_block, x, batch)

    def coda(self, x: Tensor, batch: HuginnBatch, tokens: Tensor | None = None) -> Tensor:
        """What the head reads of state `x` [token, d_model], at all tokens or at int64 [read]."""
        blocks = list(self.transformer.coda)
        x = self._norm(self.transformer.ln_f, x)
        for number, block in enumerate(blocks, start=1):
            # The last block's other tokens are of use to its attention alone.
            last = number == len(blocks)
            x = self._block(block, x, batch, tokens if last else None)
        if not blocks and tokens is not None:
            x = x[tokens]
        return self._norm(self.transformer.ln_f, x)

    def head(self, hidden: Tensor) -> Tensor:
        """float32 logits [..., vocab] of the coda's output [..., d_model], computed in float32."""
        return linear(hidden.float(), self.head_weight.float())

    def _block(
        self, block: nn.Module, x: Tensor, batch: HuginnBatch, tokens: Tensor | None = None
    ) -> Tensor:
        """One block's output [token, d_model], or [read, d_model] at the given tokens."""
        assert isinstance(block, _Block)
        attended = self._attend(self._norm(block.norm_1, x), block.attn, batch)
        if tokens is not None:
            attended, x = attended[tokens], x[tokens]
        x = self._norm(block.norm_2, linear(attended, block.attn.proj.weight) + x)
        fed = swiglu(linear(self._norm(block.norm_3, x), block.mlp.fc.weight))
        return self._norm(block.norm_4, linear(fed, block.mlp.proj.weight) + x)

    def _attend(self, x: Tensor, attention: "_Attention", batch: HuginnBatch) -> Tensor:
        """Causal attention before its output projection, [token, d_model]."""
        heads, dim = self.config.n_heads, self.config.head_dim
        qkv = linear(x, attention.Wqkv.weight).view(-1, 3 * heads, dim)
        turned = qkv[:, : 2 * heads]
        if self.config.qk_bias:
            turned = turned + attention.qk_bias.view(2 * heads, dim)
        pairs = torch.view_as_complex(turned.float().unflatten(-1, (-1, 2)))
        turned = torch.view_as_real(pairs * batch.turn).flatten(-2).to(x.dtype)
        # [row, head, position, head_dim]
        q, k, v = (
            part.view(batch.rows, batch.positions, heads, dim).transpose(1, 2)
            for part in (turned[:, :heads], turned[:, heads:], qkv[:, 2 * heads :])
        )
        attended = scaled_dot_product_attention(q, k, v, is_causal=True)
        return attended.transpose(1, 2).reshape(-1, heads * dim)

    def _blocks(self, blocks: nn.ModuleList, x: Tensor, batch: HuginnBatch) -> Tensor:
        for block in blocks:
            x = self._block(block, x, batch)
        return x

    def _norm(self, norm: "_Norm", x: Tensor) -> Tensor:
        return rms_norm(x, norm.weight, self.config.norm_eps)


class _Body(nn.Module):
    def __init__(self, config: HuginnConfig) -> None:
        super().__init__()
        width = config.n_embd
        self.wte = nn.Embedding(config.vocab_size, width)
        self.prelude = _stack(config, config.n_layers_in_prelude)
        self.adapter = nn.Linear(2 * width, width, bias=config.bias)
        self.core_block = _stack(config, config.n_layers_in_recurrent_block)
        self.coda = _stack(config, config.n_layers_in_coda)
        self.ln_f = _Norm(width)


class _Block(nn.Module):
    def __init__(self, config: HuginnConfig) -> None:
        super().__init__()
        self.norm_1 = _Norm(config.n_embd)
        self.attn = _Attention(config)
        self.norm_2 = _Norm(config.n_embd)
        self.norm_3 = _Norm(config.n_embd)
        self.mlp = _Mlp(config)
        self.norm_4 = _Norm(config.n_embd)


class _Attention(nn.Module):
    def __init__(self, config: HuginnConfig) -> None:
        super().__init__()
        width = config.n_embd
        self.Wqkv = nn.Linear(width, 3 * width, bias=False)
        if config.qk_bias:
            self.qk_bias = nn.Parameter(torch.zeros(2, 1, config.n_heads, config.head_dim))
        self.proj = nn.Linear(width, width, bias=False)


class _Mlp(nn.Module):
    def __init__(self, config: HuginnConfig) -> None:
        super().__init__()
        self.fc = nn.Linear(config.n_embd, 2 * config.intermediate_size, bias=False)
        self.proj = nn.Linear(config.intermediate_size, config.n_embd, bias=False)


class _Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))


def _stack(config: HuginnConfig, blocks: int) -> nn.ModuleList:
    return nn.ModuleList(_Block(config) for _ in range(blocks))
