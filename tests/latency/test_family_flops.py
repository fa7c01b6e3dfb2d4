"""Counted matrix products of every other family against formulas of its config."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.language_models import folder_of, loaded
from tests.latency.replay import Frozen, letters
from trajdiag.latency.flops import count_flops
from trajdiag.latency.full_depth import run_full_depth
from trajdiag.latency.rule import live_rule
from trajdiag.latency.runner import run_live

LOOPS = 3


@dataclass
class Formula:
    """Products of one row of `n` tokens run alone; a multiplication and an addition are two."""

    config: dict[str, Any]

    def begin(self, n: int) -> int:
        return 0

    def step(self, n: int, loop: int) -> int:
        raise NotImplementedError

    def read(self, n: int) -> int:
        """The logits of one position: the vocabulary's."""
        return 2 * self.width * self.config["vocab_size"]

    @property
    def width(self) -> int:
        return self.config["hidden_size"]


class Huginn(Formula):
    """Blocks before, an adapter and blocks in, and blocks after the loop."""

    @property
    def width(self) -> int:
        return self.config["n_embd"]

    def block(self, n: int, out: int | None = None) -> int:
        """Queries, keys and values of all tokens; what follows of `out` of them."""
        d, feed, out = self.width, self.config["intermediate_size"], n if out is None else out
        return 2 * n * 3 * d * d + 4 * n * n * d + 2 * out * (d * d + 3 * d * feed)

    def begin(self, n: int) -> int:
        return self.config["n_layers_in_prelude"] * self.block(n)

    def step(self, n: int, loop: int) -> int:
        adapter = 2 * n * 2 * self.width * self.width
        return adapter + self.config["n_layers_in_recurrent_block"] * self.block(n)

    def read(self, n: int) -> int:
        coda = (self.config["n_layers_in_coda"] - 1) * self.block(n) + self.block(n, 1)
        return coda + super().read(n)


class Gated(Formula):
    """Attention with a gate on its output, and a gated feed-forward."""

    def attention(self, n: int) -> int:
        d, heads, dim = self.width, self.config["num_attention_heads"], self.config["head_dim"]
        own, shared = d * heads * dim, d * (self.config.get("num_key_value_heads") or heads) * dim
        return 2 * n * (3 * own + 2 * shared) + 4 * n * n * heads * dim  # q, gate, out; k, v

    def feed_forward(self, n: int) -> int:
        return 2 * n * 3 * self.width * self.config["intermediate_size"]


class Dory(Gated):
    """Its layers are attention or feed-forward."""

    def layers(self, kinds: list[str], n: int) -> int:
        return sum(self.feed_forward(n) if kind == "mlp" else self.attention(n) for kind in kinds)

    @property
    def edges(self) -> tuple[int, int]:
        c = self.config
        return c["n_input_layers"], c["num_hidden_layers"] - c["n_output_layers"]

    def begin(self, n: int) -> int:
        return self.layers(self.config["layer_types"][: self.edges[0]], n)

    def step(self, n: int, loop: int) -> int:
        return self.layers(self.config["layer_types"][slice(*self.edges)], n)

    def read(self, n: int) -> int:
        return self.layers(self.config["layer_types"][self.edges[1] :], n) + super().read(n)


class Hrm(Gated):
    """A loop is the fast stack L_cycles times and the slow stack once."""

    def step(self, n: int, loop: int) -> int:
        stacks = self.config["L_cycles"] + 1
        layers = self.config["num_layers_per_stack"]
        return stacks * layers * (self.attention(n) + self.feed_forward(n))


class Inkling(Formula):
    """Attention with relative positions, sinks and short convolutions; experts; layers that attend
    to the states at block boundaries; messages from one pass to the next."""

    def boundaries(self, layer: int) -> int:
        """Of the layers before `layer`."""
        return len(range(0, layer, self.config["n_layers_per_attn_res_block"]))

    def over_blocks(self, n: int, queries: int, keys: int) -> int:
        return 4 * n * queries * keys * self.width

    def convolution(self, n: int, channels: int) -> int:
        """Over the padded row, whose end is then cut off."""
        kernel = self.config["conv_kernel_size"]
        return 2 * channels * kernel * (n + kernel - 1)

    def layer(self, number: int, n: int) -> int:
        c, d = self.config, self.width
        full = c["layer_types"][number] == "hybrid"
        heads, shared = (
            (c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"])
            if full
            else (
                c["swa_num_attention_heads"] * c["swa_head_dim"],
                c["swa_num_key_value_heads"] * c["swa_head_dim"],
            )
        )
        count = c["num_attention_heads"] if full else c["swa_num_attention_heads"]
        extent = c["rel_extent"] if full else c["sliding_window_size"]
        maps = 3 * d * heads + 2 * d * shared + d * count * c["d_rel"] + d * count
        maps += count * c["d_rel"] * extent
        found = 4 * n * n * heads
        if full:  # the convolution's weights are computed, and it is not a product of matrices
            maps += 2 * d * c["num_key_value_heads"] * c["conv_kernel_size"]
        else:
            found += 2 * self.convolution(n, shared)
        experts = c["num_experts_per_tok"] * 3 * d * c["moe_intermediate_size"]
        maps += d * c["n_routed_experts"] + experts
        found += 2 * n * maps + 2 * self.convolution(n, d)
        if number:
            found += self.over_blocks(n, 3 if full else 1, self.boundaries(number) + 1)
        return found + self.over_blocks(n, 1, self.boundaries(number + 1) + 1)

    @property
    def edges(self) -> tuple[int, int]:
        return self.config["loop_layer_index_start"], self.config["loop_layer_index_end"]

    def begin(self, n: int) -> int:
        return sum(self.layer(number, n) for number in range(self.edges[0]))

    def step(self, n: int, loop: int) -> int:
        first, end = self.edges
        found = sum(self.layer(number, n) for number in range(first, end))
        if loop > 1:
            keys = self.boundaries(end) - self.boundaries(first)
            gates = 4 * 2 * n * (2 + 2) * self.width * self.config["loop_gate_rank"]
            found += (end - first) * (self.over_blocks(n, 4, keys) + gates)
        return found

    def read(self, n: int) -> int:
        layers = self.config["num_hidden_layers"]
        after = sum(self.layer(number, n) for number in range(self.edges[1], layers))
        return after + self.over_blocks(n, 1, self.boundaries(layers) + 1) + super().read(n)


FORMULAS = {"huginn_raven": Huginn, "dory": Dory, "hrm_text": Hrm, "inkling2_loop_text": Inkling}


@pytest.fixture(scope="module", params=FORMULAS)
def counted(request, tmp_path_factory) -> tuple[Frozen, Formula]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    model = loaded(folder_of(request.param, folder / "model"))
    frozen = letters(model, folder / "s.zarr", loops=LOOPS, fit=8, val=4, test=4)
    return frozen, FORMULAS[request.param](model.record.config)


def test_full_depth_is_the_formula_of_the_config(counted):
    frozen, of = counted
    flops, _ = count_flops(
        frozen.model, lambda model: run_full_depth(model, frozen.work, LOOPS, batch_tokens=1)
    )
    length = frozen.work.row_length.tolist()
    loops = sum(of.begin(n) + sum(of.step(n, t) for t in range(1, LOOPS + 1)) for n in length)
    assert flops.loops == loops
    assert flops.whole - flops.loops == sum(map(of.read, length))


def test_live_is_the_loops_that_were_run_and_the_readings_of_each(counted):
    frozen, of = counted
    middle = float(np.median(frozen.store.signal("entropy")[:, :-1]))
    rule = live_rule(frozen.model, "entropy", middle, loops=LOOPS)
    flops, found = count_flops(
        frozen.model, lambda model: run_live(model, frozen.work, rule, batch_tokens=1)
    )
    depth, length = found.exit_depth.tolist(), frozen.work.row_length.tolist()
    assert len(set(depth)) > 1
    loops = sum(
        of.begin(n) + sum(of.step(n, t) for t in range(1, last + 1))
        for n, last in zip(length, depth, strict=True)
    )
    assert flops.loops == loops
    reads = sum(last * of.read(n) for n, last in zip(length, depth, strict=True))
    assert flops.whole - flops.loops == reads
