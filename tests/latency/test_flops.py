"""Counted matrix products against the formula of the architecture."""

import numpy as np
import pytest

from tests.latency.replay import letters
from tests.models.random_ouro import as_model, random_decoder
from trajdiag.latency.flops import count_flops
from trajdiag.latency.full_depth import run_full_depth
from trajdiag.latency.rule import live_rule
from trajdiag.latency.runner import run_live

D, FEED, LAYERS, LOOPS, VOCABULARY = 16, 32, 2, 4, 13


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    decoder = random_decoder(loops=LOOPS, layers=LAYERS, d_model=D, feed_forward=FEED)
    return letters(as_model(decoder), tmp_path_factory.mktemp("f") / "f.zarr", loops=LOOPS)


def loop_flops(length: np.ndarray) -> int:
    """One loop of rows run alone, unpadded: four maps of d x d and three of d x feed_forward a
    token, and each head's scores and mix over all positions x positions."""
    tokens, pairs = int(length.sum()), int((length.astype(np.int64) ** 2).sum())
    return LAYERS * (2 * tokens * (4 * D * D + 3 * D * FEED) + 2 * 2 * pairs * D)


def test_full_depth_is_the_formula(frozen):
    work = frozen.work
    flops, predicted = count_flops(
        frozen.model, lambda model: run_full_depth(model, work, LOOPS, batch_tokens=1)
    )
    assert flops.loops == LOOPS * loop_flops(work.row_length)
    # the head is computed for the task's four classes, or for the vocabulary
    assert flops.whole - flops.loops == len(work) * 2 * D * VOCABULARY
    np.testing.assert_array_equal(predicted, frozen.store.predictions()[:, -1])


def test_live_is_the_loops_that_were_run_and_the_heads_that_were_read(frozen):
    rule = live_rule(frozen.model, "entropy", 0.9, loops=LOOPS)
    flops, found = count_flops(
        frozen.model, lambda model: run_live(model, frozen.work, rule, batch_tokens=1)
    )
    depth = found.exit_depth
    assert len(np.unique(depth)) > 1
    length = frozen.work.row_length
    assert flops.loops == sum(loop_flops(length[depth >= t]) for t in range(1, LOOPS + 1))
    # a head a loop: read up to the exit, or at the last loop for the prediction
    assert flops.whole - flops.loops == depth.sum() * 2 * D * VOCABULARY
