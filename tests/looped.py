"""A looped model and a task of no family and no registry: all that extraction may assume."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trajdiag.models.base import ModelRecord, Positions, take_positions
from trajdiag.store.schema import SPLITS
from trajdiag.tasks.base import Examples


class Spiral:
    """state_t = tanh(state_{t-1} W + mean over earlier positions of the embedding)."""

    def __init__(
        self, *, d_model=8, vocab_size=11, loops=3, gate=True, dtype=torch.float32
    ) -> None:
        generator = torch.Generator().manual_seed(0)

        def weights(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator).to(dtype)

        self.embedding = weights(vocab_size, d_model)
        self.weight = weights(d_model, d_model) / d_model**0.5
        self.unembedding = weights(vocab_size, d_model).float()
        self.gate = weights(d_model).float()
        self.record = ModelRecord(
            name="spiral", family="test", source="local", revision=None, config={}, sha256="5" * 64
        )
        self.loops, self.d_model, self.vocab_size = loops, d_model, vocab_size
        self.has_gate = gate
        self.padding: frozenset[str] = frozenset()
        self.device, self.dtype = torch.device("cpu"), dtype
        self.max_positions: int | None = None
        self.tokenizer = None
        self.steps = 0

    def begin(self, input_ids, attention_mask=None, position_ids=None) -> Any:
        assert attention_mask is None, "extraction needs no padding"
        x = self.embedding[input_ids]
        count = torch.arange(1, x.shape[1] + 1)[:, None]
        return torch.zeros_like(x), (x.float().cumsum(1) / count).to(self.dtype)

    def step(self, state: Any) -> Any:
        self.steps += 1
        x, context = state
        return torch.tanh(x @ self.weight + context), context

    def hidden(self, state: Any, at: Positions | None = None) -> Tensor:
        return take_positions(state[0], at)

    def head_input(self, state: Any, at: Positions | None = None) -> Tensor:
        return self.hidden(state, at)

    def head(self, head_input: Tensor) -> Tensor:
        return head_input.float() @ self.unembedding.T

    def gate_logit(self, state: Any, at: Positions | None = None) -> Tensor | None:
        return self.hidden(state, at).float() @ self.gate if self.has_gate else None


@dataclass(frozen=True, kw_only=True)
class Letters:
    """Inputs of mixed lengths over the tokens 0..10; the classes are the tokens 2, 3, 5, 7."""

    fit: int = 120
    val: int = 50
    test: int = 70
    seed: int = 0
    vocab_size: int = 11
    class_ids: np.ndarray | None = field(default_factory=lambda: np.array([2, 3, 5, 7]))

    name = "letters"
    class_names = None

    def parameters(self) -> dict[str, Any]:
        return {"fit": self.fit, "val": self.val, "test": self.test, "seed": self.seed}

    def examples(self) -> dict[str, Examples]:
        return {
            split: self._draw(split, count)
            for split, count in zip(SPLITS, (self.fit, self.val, self.test), strict=True)
            if count
        }

    def notes(self) -> dict[str, Any]:
        return {"drawn": self.fit + self.val + self.test}

    def _draw(self, split: str, count: int) -> Examples:
        rng = np.random.default_rng([self.seed, SPLITS.index(split)])
        length = rng.integers(2, 7, count).astype(np.int32)
        ids = rng.integers(0, 10, (count, length.max())).astype(np.int32)
        ids[np.arange(ids.shape[1]) >= length[:, None]] = 10
        return Examples(
            input_ids=ids,
            length=length,
            target=rng.integers(0, 4, count),
            difficulty=length.astype(float),
            group=np.arange(count) // 2,
            id=np.array([f"{split}-{i:04d}" for i in range(count)]),
            input=np.array(
                [" ".join(map(str, row[:n])) for row, n in zip(ids, length, strict=True)]
            ),
            covariates={"ones": (ids == 1).sum(1).astype(float)},
        )
