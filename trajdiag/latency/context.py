"""What exits do to later tokens: text decoded token by token, beside full depth, timed in turn."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trajdiag.errors import ConfigError
from trajdiag.latency.agreement import Agreement, Offline, compared
from trajdiag.latency.cached_rows import Context, require_caching
from trajdiag.latency.chosen import Chosen
from trajdiag.latency.decoding import Decoded, decode_given
from trajdiag.latency.flops import Flops, count_decoding
from trajdiag.latency.measured import Span, said_of, span
from trajdiag.latency.reopening import Reopened
from trajdiag.latency.rule import live_rule
from trajdiag.latency.side_by_side import Side, memory_for
from trajdiag.latency.timing import timed
from trajdiag.models.ouro import OuroModel
from trajdiag.progress import Progress
from trajdiag.readout_registry import FIXED

CONTEXTS: Mapping[Context, str] = {
    "full": "full-cached",
    "recompute": "recompute",
    "copy-last": "copy-last",
}
"""What earlier tokens leave, and how rows of results call it."""


@dataclass(frozen=True, kw_only=True)
class MeasuredContext:
    """One readout, decoded under one context. Seconds are those of a token."""

    chosen: Chosen
    context: str
    batch: str
    """`batched` or `one`."""
    loops: int
    decoded: Decoded
    offline: Offline
    full_prediction: NDArray[np.int64]
    """[example]: at the last loop, decoded at full depth."""
    full_flops: Flops
    live_flops: Flops
    full_seconds: NDArray[np.float64]
    """[repeat]: decoding at full depth, without a readout."""
    live_seconds: NDArray[np.float64]
    """[repeat]: each beside the full-depth run of the same round."""

    @property
    def ideal(self) -> float:
        """The speed-up if time were the loops up to the exits and nothing else."""
        return self.loops / self.decoded.depth

    @property
    def speedup(self) -> Span:
        """Full depth's time by the live run's, of runs of one round."""
        return span(self.full_seconds / self.live_seconds)

    @property
    def agreement(self) -> float:
        """The share of examples that are predicted as at full depth."""
        return float((self.decoded.prediction == self.full_prediction).mean())

    @cached_property
    def unlike_offline(self) -> Agreement:
        """Live against offline."""
        return compared(self.decoded, self.offline, self.chosen.threshold)

    def said(self) -> list[str]:
        """Lines for the user: a threshold that decides nothing, and what differs from offline."""
        where = f"{self.chosen.readout.name}, {self.batch}, {self.context}"
        depth = self.decoded.exit_depth
        return said_of(self.chosen, where, depth, self.loops, self.unlike_offline)


def decodable(again: Reopened, task: str) -> OuroModel:
    """The model of a store of running text, to be decoded token by token. Raises ConfigError for
    another task and for a model of another family."""
    if not again.is_text:
        raise ConfigError(
            f"--context live decodes running text token by token, and task {task} is none: its "
            "decision is read at the end of its row, whose tokens leave with it; use a store of a "
            "text:PATH task, or --context full"
        )
    return require_caching(again.model)


def measure_context(
    model: OuroModel,
    side: Side,
    chosen: Sequence[Chosen],
    offline: Sequence[Offline],
    loops: int,
    repeats: int,
    progress: Progress,
) -> list[MeasuredContext]:
    """Every readout of `chosen` under every context; see `measure_side`."""
    never = live_rule(model, FIXED, math.nan, loops=loops)
    rules = [each.rule(model, loops) for each in chosen]
    runs: dict[tuple[int, str], Callable[..., Decoded]] = {}

    def add(number: int, context: Context) -> None:
        rule = never if number < 0 else rules[number]
        runs[number, CONTEXTS[context]] = lambda around=nullcontext: decode_given(
            model,
            side.work,
            rule,
            context,
            batch_tokens=side.batch_tokens,
            around_loops=around,
        )

    add(-1, "full")
    for number in range(len(rules)):
        for context in CONTEXTS:
            add(number, context)
    with memory_for(side, model.device):
        found = {key: run() for key, run in runs.items()}
        flops = {key: count_decoding(run)[0] for key, run in runs.items()}
        seconds = timed(runs, repeats, model.device, progress)
    full = found.pop((-1, CONTEXTS["full"]))
    of_token = {key: values / full.tokens for key, values in seconds.items()}
    return [
        MeasuredContext(
            chosen=chosen[number],
            context=context,
            batch=side.batch,
            loops=loops,
            decoded=decoded,
            offline=offline[number],
            full_prediction=full.prediction,
            full_flops=flops[-1, CONTEXTS["full"]],
            live_flops=flops[number, context],
            full_seconds=of_token[-1, CONTEXTS["full"]],
            live_seconds=of_token[number, context],
        )
        for (number, context), decoded in found.items()
    ]
