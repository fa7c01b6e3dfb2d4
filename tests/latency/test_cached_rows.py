"""Tokens that leave early, and what they leave for later ones, against plain second versions."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from tests.models import naive_cached_ouro
from tests.models.random_ouro import as_model, random_decoder
from trajdiag.errors import ConfigError, NonFiniteError
from trajdiag.latency.cached_rows import CachedRows, require_caching
from trajdiag.latency.meter import LoopMeter
from trajdiag.latency.rule import live_rule

ROWS = [[3, 1, 4, 1, 5, 9, 2, 6, 5], [8, 9], [7, 9, 3, 2, 3, 8, 4]]
SIZES = {
    "plain": {"loops": 4},
    "shared-keys": {"loops": 4, "num_key_value_heads": 2},
    "mlp-gate": {"loops": 3, "gate": "mlp", "tie_word_embeddings": True, "layers": 1},
    "one-loop": {"loops": 1},
}


def entropy(states, logits):
    """Nats, of the latest loop."""
    of = log_softmax(logits[-1])
    return float(-(np.exp(of) * of).sum())


def displacement(states, logits):
    """Of the latest loop from the one before."""
    return float(np.linalg.norm(states[-1] - states[-2])) if len(states) > 1 else np.inf


VALUES = {"entropy": entropy, "hidden_displacement": displacement}


def expected(decoder, readout, threshold, context):
    """Exit depths [row][token] and predictions there."""
    value = VALUES[readout]

    def leaves(states, logits):
        return value(states, logits) <= threshold

    runs = [
        naive_cached_ouro.decode(decoder, row, leaves, copies=context == "copy-last")
        for row in ROWS
    ]
    return [depth for depth, _ in runs], [logits.argmax(-1).tolist() for _, logits in runs]


def threshold_of(decoder, readout):
    """Between two observed values near the middle."""
    seen = []

    def leaves(states, logits):
        if np.isfinite(value := VALUES[readout](states, logits)):
            seen.append(value)
        return False

    for row in ROWS:
        naive_cached_ouro.decode(decoder, row, leaves, copies=False)
    middle = np.sort(seen)[len(seen) // 2 - 1 : len(seen) // 2 + 1]
    return float(middle.mean()) if len(seen) > 1 else 0.5


def decoded(model, rule, context, rows=ROWS, prompt=0, positions=2):
    """Exit depths [row][token], predictions there, and the rows: the first `prompt` tokens of each
    in one pass, of which the last alone is read."""
    cached = CachedRows(
        model, rule, context, rows=len(rows), name=lambda row: f"row {row}", positions=positions
    )
    depth, predicted = [[] for _ in rows], [[] for _ in rows]

    def keep(at, exits):
        for row, left, token in zip(at, exits.depth, exits.prediction.tolist(), strict=True):
            depth[row].append(int(left))
            predicted[row].append(token)

    if prompt:
        keep(range(len(rows)), cached.prefill([row[:prompt] for row in rows]))
    for position in range(prompt, max(map(len, rows))):
        at = np.array([i for i, row in enumerate(rows) if len(row) > position])
        keep(at, cached.step(at, [rows[i][position] for i in at]))
    return depth, predicted, cached


@pytest.mark.parametrize("context", ["full", "recompute", "copy-last"])
@pytest.mark.parametrize("readout", VALUES)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_exits_and_predictions_are_those_of_a_naive_decoder(sizes, readout, context):
    decoder = random_decoder(5, **sizes)
    threshold = threshold_of(decoder, readout)
    model = as_model(decoder)
    rule = live_rule(model, readout, threshold)
    depth, predicted, cached = decoded(model, rule, context)
    assert (depth, predicted) == expected(decoder, readout, threshold, context)
    assert cached.length.tolist() == [len(row) for row in ROWS]
    if model.loops > 1:
        assert len({left for row in depth for left in row}) > 1


@pytest.mark.parametrize("context", ["full", "recompute", "copy-last"])
def test_rows_together_are_rows_alone(context):
    model = as_model(random_decoder(6, loops=4))
    rule = live_rule(model, "native", 0.7)
    together = decoded(model, rule, context)[:2]
    alone = [decoded(model, rule, context, [row])[:2] for row in ROWS]
    assert together == ([depth for (depth,), _ in alone], [tokens for _, (tokens,) in alone])


def test_what_earlier_tokens_leave_matters():
    decoder = random_decoder(5, loops=4)
    threshold = threshold_of(decoder, "entropy")
    full, copied = (expected(decoder, "entropy", threshold, c) for c in ("full", "copy-last"))
    assert full != copied


@pytest.mark.parametrize("readout", ["entropy", "vote_share", "native", "hidden_cosine"])
def test_recomputed_late_or_never_left_out_is_the_same(readout):
    model = as_model(random_decoder(7, loops=4))
    for threshold in (0.3, 0.7, 1.2):
        rule = live_rule(model, readout, threshold, min_depth=2)
        full, late = (decoded(model, rule, context) for context in ("full", "recompute"))
        assert full[:2] == late[:2]
        assert (late[2].loops_run <= full[2].loops_run).all()


def test_loops_run_count_what_is_run_for_later_tokens():
    model = as_model(random_decoder(8, loops=3))
    length = np.array([len(row) for row in ROWS])
    for context in ("recompute", "copy-last"):
        always = decoded(model, live_rule(model, "fixed", 0), context)[2]
        assert always.loops_run.tolist() == length.tolist()
    assert (decoded(model, live_rule(model, "fixed", 0), "full")[2].loops_run == 3 * length).all()
    never = live_rule(model, "native", float("nan"))
    assert (decoded(model, never, "recompute")[2].loops_run == 3 * length).all()


def test_a_token_that_goes_deeper_takes_along_all_that_lack_the_loop():
    model, script = as_model(random_decoder(8, loops=3)), Scripted()
    rule = dataclasses.replace(live_rule(model, "fixed", 1), meter=script)
    cached = CachedRows(model, rule, "recompute", rows=1, name=str)
    for depth, loops_run in ((1, 1), (1, 2), (1, 3), (2, 3 + 1 + 4), (1, 9), (3, 9 + 1 + 2 + 6)):
        script.depth = depth
        assert cached.step(np.array([0]), [depth]).depth.tolist() == [depth]
        assert cached.loops_run.tolist() == [loops_run]


class Scripted(LoopMeter):
    """Leaves where it is told."""

    depth = 1

    def value(self, table, loop):
        return (loop >= self.depth).double()


@pytest.mark.parametrize("context", ["full", "recompute", "copy-last"])
def test_a_prompt_runs_at_full_depth_and_its_last_token_may_leave_early(context):
    model = as_model(random_decoder(9, loops=4))
    rows = [row[:7] for row in ROWS if len(row) > 2]
    rule = live_rule(model, "native", 0.6)
    whole, _, _ = decoded(model, rule, "full", rows)
    depth, _, cached = decoded(model, rule, context, rows, prompt=4)
    assert [row[0] for row in depth] == [row[3] for row in whole]
    assert min(row[0] for row in depth) < 4
    if context != "copy-last":
        assert depth == [row[3:] for row in whole]
    assert (cached.loops_run >= 4 * 4 + 3).all()


def test_bfloat16_decodes_in_its_own_precision():
    model = as_model(random_decoder(10, loops=3, num_key_value_heads=2).to(torch.bfloat16))
    rule = live_rule(model, "native-released", 0.4)
    full, late = (decoded(model, rule, context, [ROWS[0]]) for context in ("full", "recompute"))
    same = np.mean(np.array(full[0]) == np.array(late[0]))
    assert same >= 0.7 and {*full[0][0]} <= {1, 2, 3}


@pytest.mark.parametrize(
    ("readout", "said"),
    [
        ("entropy", "logits of position 2 of row 1 at loop 1"),
        ("hidden_displacement", "hidden state of position 2 of row 1 at loop 1"),
        ("native", "gate logit of position 2 of row 1 at loop 1"),
        ("fixed", "logits of position 2 of row 1 at loop 2"),
    ],
)
def test_what_is_not_finite_is_named(readout, said):
    decoder = random_decoder(11)
    with torch.no_grad():
        decoder.model.embed_tokens.weight[9] = torch.nan
    model = as_model(decoder)
    rows = [[1, 2, 3], [8, 9, 3]]
    with pytest.raises(NonFiniteError, match=f"^{said} is NaN or infinite"):
        decoded(model, live_rule(model, readout, 2 if readout == "fixed" else -50), "full", rows)
    with pytest.raises(NonFiniteError, match="position 2 of row 1"):
        decoded(model, live_rule(model, readout, 2), "recompute", rows, prompt=2)


def test_continuations_are_not_decoded():
    model = as_model(random_decoder(12))
    rule = live_rule(model, "native-continuation", 0.5)
    with pytest.raises(ConfigError, match="there are none; use native"):
        CachedRows(model, rule, "full", rows=1, name=str)


def test_other_families_are_refused_in_one_line():
    from tests.looped import Spiral

    with pytest.raises(ConfigError, match=r"Ouro's format .family ouro.: spiral is of family"):
        require_caching(Spiral())
