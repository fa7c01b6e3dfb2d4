"""A looped model as a model of lm-evaluation-harness, scored in the plainest way: one row at a
time, no padding, the loops by hand. It shares no code with the extraction that it checks."""

from typing import Any

import torch
from lm_eval.api.model import TemplateLM

from trajdiag.models.base import LoopedModel, Tokenizer, logits


class FinalLoop(TemplateLM):
    """What the model says after its last loop."""

    def __init__(self, model: LoopedModel, tokenizer: Tokenizer, loops: int | None = None) -> None:
        super().__init__()
        self.model, self.loops = model, loops or model.loops
        self._tokenizer = tokenizer

    @property
    def eot_token_id(self) -> int:
        assert self._tokenizer.eos_token_id is not None
        return self._tokenizer.eos_token_id

    @property
    def prefix_token_id(self) -> int:
        """The context of a continuation without one."""
        bos = self._tokenizer.bos_token_id
        return self.eot_token_id if bos is None else bos

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **kwargs: Any
    ) -> list[int]:
        return self._tokenizer.encode(string, add_special_tokens=add_special_tokens is not False)

    def _loglikelihood_tokens(
        self, requests: list[tuple[tuple[str, str], list[int], list[int]]], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        return [self.score(context, continuation) for _, context, continuation in requests]

    def score(self, context: list[int], continuation: list[int]) -> tuple[float, bool]:
        """The continuation's log-probability, nats, and whether each of its tokens is the most
        likely one."""
        with torch.inference_mode():
            row = torch.tensor([context + continuation], device=self.model.device)
            state = self.model.begin(row)
            for _ in range(self.loops):
                state = self.model.step(state)
            log_probability = logits(self.model, state)[0].double().log_softmax(-1)
        # The token at a position is predicted one position before.
        before = range(len(context) - 1, len(context) + len(continuation) - 1)
        said = list(zip(before, continuation, strict=True))
        total = sum(float(log_probability[position, token]) for position, token in said)
        greedy = all(int(log_probability[position].argmax()) == token for position, token in said)
        return total, greedy

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
        raise NotImplementedError

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        raise NotImplementedError
