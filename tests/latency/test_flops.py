"""Counted matrix products against the formula of the architecture."""

import numpy as np
import pytest

from tests.language_models import loaded, tiny_ouro
from tests.latency.replay import documents, letters
from tests.models.random_ouro import as_model, random_decoder
from trajdiag.latency.cached_rows import require_caching
from trajdiag.latency.decoding import decode_given
from trajdiag.latency.flops import count_decoding, count_flops
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


@pytest.mark.parametrize("context", ["full", "recompute", "copy-last"])
def test_decoding_is_the_passes_over_a_growing_cache_and_the_heads_that_were_read(
    context, tmp_path
):
    text = documents(loaded(tiny_ouro(tmp_path / "tiny")), tmp_path / "d.zarr")
    model, work = require_caching(text.model), text.work
    rule = live_rule(model, "native", 0.6, loops=LOOPS)
    flops, found = count_decoding(
        lambda around: decode_given(model, work, rule, context, batch_tokens=1, around_loops=around)
    )
    assert len(np.unique(found.exit_depth)) > 1 and len(work) == len(work.tokens)
    config = model.decoder.config
    d, feed = config.hidden_size, config.intermediate_size
    assert config.num_key_value_heads * config.head_dim == d
    expected = 0
    for row in range(len(work.row_length)):
        filled = [0] * LOOPS
        of_row = work.row == row
        depths = found.exit_depth[of_row][np.argsort(work.at[of_row])]
        for position, depth in enumerate(depths.tolist()):
            for loop in range(LOOPS if context == "full" else depth):
                tokens = position + 1 - filled[loop] if context == "recompute" else 1
                filled[loop] = position + 1
                maps = 2 * tokens * (4 * d * d + 3 * d * feed)
                expected += config.num_hidden_layers * (maps + 4 * tokens * (position + 1) * d)
    assert flops.loops == expected
    # a head a token, and the gate up to its exit
    readings = int(np.minimum(found.exit_depth, LOOPS - 1).sum())
    assert flops.whole - flops.loops == len(work) * 2 * d * model.vocab_size + readings * 2 * d
