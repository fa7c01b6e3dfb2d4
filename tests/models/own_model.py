"""A looped model of one's own: `--model tests.models.own_model:TinyLooped`."""

import torch
from torch import nn

from trajdiag.models.base import LoopedModel, take_positions


class TinyLooped(nn.Module, LoopedModel):
    loops, d_model, vocab_size = 4, 32, 64
    device, dtype = torch.device("cpu"), torch.float32

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)  # Load your weights here instead.
        self.embedding = nn.Embedding(self.vocab_size, self.d_model)
        self.block = nn.TransformerEncoderLayer(
            self.d_model, nhead=4, dim_feedforward=64, batch_first=True, norm_first=True
        )
        self.norm = nn.LayerNorm(self.d_model)
        self.unembedding = nn.Linear(self.d_model, self.vocab_size)

    def begin(self, input_ids, attention_mask=None, position_ids=None):
        return self.embedding(input_ids.to(self.device))

    def step(self, state):
        causal = nn.Transformer.generate_square_subsequent_mask(state.shape[1])
        return self.norm(self.block(state, src_mask=causal, is_causal=True))

    def hidden(self, state, at=None):
        return take_positions(state, at)

    def head(self, head_input):
        return self.unembedding(head_input.float())
