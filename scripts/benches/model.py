"""The Ouro forward over its matrix products alone, back to back, in the same run.

The floor is every product that the loops ask for, into memory that is there already, with the same
weights: seven linear maps a layer, and attention's two products a head, of all queries with all
keys, as one batch over the heads (causality would spare almost half of these). It leaves out the
embedding, norms, rotary angles, softmax, the gated activation, residuals and the last norm.
"""

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from trajdiag.models.config import OuroConfig
from trajdiag.models.decoder import OuroDecoder
from trajdiag.models.registry import create_model

POSITIONS, REPEATS = 512, 7
BARS = {torch.float32: 1.10, torch.bfloat16: 1.35}


def run(repeats: int = REPEATS) -> list[dict[str, Any]]:
    """A row a dtype: the forward's time over the floor's, median of the ratios of pairs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    try:
        return [_row(dtype, bar, repeats) for dtype, bar in BARS.items()]
    finally:
        torch.set_num_threads(threads)


def _row(dtype: torch.dtype, bar: float, repeats: int) -> dict[str, Any]:
    config = OuroConfig.from_sizes(
        vocab_size=1024, d_model=1024, layers=8, heads=16, loops=4, feed_forward=2816
    )
    decoder = create_model(config, 0).to(dtype)
    input_ids = torch.randint(
        0, config.vocab_size, (1, POSITIONS), generator=torch.Generator().manual_seed(0)
    )
    sides = matrix_products(decoder, dtype), lambda: decoder.run_packed([input_ids])
    seconds: list[list[float]] = [[], []]
    with torch.inference_mode():
        for side in sides:
            side()
        for _ in range(repeats):
            for times, side in zip(seconds, sides, strict=True):
                began = time.perf_counter()
                side()
                times.append(time.perf_counter() - began)
    # each pair ran back to back, so that a machine that slows down slows both
    value = statistics.median(ours / floor for floor, ours in zip(*seconds, strict=True))
    name = f"model/{str(dtype).removeprefix('torch.')}"
    return {"name": name, "value": value, "unit": "ratio", "bar": bar, "holds": value <= bar}


def matrix_products(decoder: OuroDecoder, dtype: torch.dtype) -> Callable[[], None]:
    """What runs the floor."""
    layers = [
        [weight.T for name, weight in layer.named_parameters() if "_proj" in name]
        for layer in decoder.model.layers
    ]
    widths = {width for layer in layers for weight in layer for width in weight.shape}
    given = {width: torch.randn(POSITIONS, width).to(dtype) for width in widths}
    made = {width: torch.empty(POSITIONS, width, dtype=dtype) for width in widths}
    config = decoder.config
    heads, dim = config.num_attention_heads, config.head_dim
    q, k, v = (torch.randn(heads, POSITIONS, dim).to(dtype) for _ in range(3))
    shares = torch.rand(heads, POSITIONS, POSITIONS).to(dtype)
    scores, attended = torch.empty_like(shares), torch.empty_like(q)

    def products() -> None:
        for _ in range(config.total_ut_steps):
            for weights in layers:
                for weight in weights:
                    torch.mm(given[weight.shape[0]], weight, out=made[weight.shape[1]])
                torch.bmm(q, k.transpose(1, 2), out=scores)
                torch.bmm(shares, v, out=attended)

    return products
