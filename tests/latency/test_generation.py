"""Greedy generation with a depth for every token."""

import dataclasses
import json

import numpy as np
import pytest
import torch

import trajdiag
from tests.language_models import loaded, tiny_ouro
from tests.looped import Spiral
from tests.models.random_ouro import as_model, random_decoder
from trajdiag.errors import ConfigError, NonFiniteError, UnknownNameError
from trajdiag.gates.halting import cumulative_hazard
from trajdiag.latency import generation
from trajdiag.latency.cached_rows import CachedRows
from trajdiag.metrics.frontier import exit_depth
from trajdiag.models.base import logits
from trajdiag.models.checkpoint import write_checkpoint
from trajdiag.models.tracing import trace
from trajdiag.readout_registry import READOUTS
from trajdiag.signals.tracker import compute_signals

PROMPTS = [[3, 1, 4, 1], [5], [9, 2, 6, 5, 3, 5, 8]]


def full_depth(model, prompt, count):
    """Greedy tokens by whole forwards to the last loop."""
    row = list(prompt)
    with torch.no_grad():
        for _ in range(count):
            state = model.begin(torch.tensor([row]))
            for _ in range(model.loops):
                state = model.step(state)
            row.append(int(logits(model, state)[0, -1].argmax()))
    return row[len(prompt) :]


def early(model, prompt, count, readout, threshold):
    """Greedy tokens and their depths where every earlier token ran all loops: whole forwards, and
    the exits that scoring gives of them."""
    row, depths = list(prompt), []
    for _ in range(count):
        found = trace(model, [row])
        of_last = found.logits[0, -1][None]
        if readout == "native":
            values = cumulative_hazard(found.gate_logit[:, -1])
        else:
            values = compute_signals(found.hidden[0, -1][None], of_last, [readout])[readout]
        entry = READOUTS[readout]
        direction = entry.direction or "high"
        depths.append(
            int(exit_depth(np.asarray(values), threshold, direction, entry.first_loop)[0])
        )
        row.append(int(of_last[0, depths[-1] - 1].argmax()))
    return row[len(prompt) :], depths


MODELS = {
    "plain": {"loops": 4},
    "shared-keys": {"loops": 3, "num_key_value_heads": 1},
    "mlp-gate": {"loops": 4, "gate": "mlp", "tie_word_embeddings": True},
    "one-loop": {"loops": 1},
}


@pytest.fixture(params=MODELS.values(), ids=MODELS)
def model(request):
    return as_model(random_decoder(21, **request.param))


@pytest.mark.parametrize("context", ["full", "recompute", "copy-last"])
def test_that_never_leaves_is_full_depth_generation(model, context):
    for threshold in ("never", float("nan")):
        found = trajdiag.generate(
            model, PROMPTS, threshold=threshold, max_new_tokens=6, context=context
        )
        for prompt, one in zip(PROMPTS, found, strict=True):
            assert one.prompt == tuple(prompt)
            assert list(one.tokens) == full_depth(model, prompt, 6)
            assert one.exit_depth == (model.loops,) * 6 and one.mean_depth == model.loops
            # the last token is not read itself
            assert one.loops_run == model.loops * (len(prompt) + 5)
            assert one.text is None


@pytest.mark.parametrize("context", ["full", "recompute"])
@pytest.mark.parametrize(
    ("readout", "threshold"), [("native", 0.7), ("entropy", 2.0), ("hidden_cosine", 0.6)]
)
def test_where_earlier_tokens_have_all_loops_tokens_and_depths_are_those_of_whole_forwards(
    model, context, readout, threshold
):
    found = trajdiag.generate(
        model, PROMPTS, readout=readout, threshold=threshold, context=context, max_new_tokens=8
    )
    expected = [early(model, prompt, 8, readout, threshold) for prompt in PROMPTS]
    assert [(list(one.tokens), list(one.exit_depth)) for one in found] == expected
    assert model.loops == 1 or any(one.mean_depth < model.loops for one in found)


@pytest.mark.parametrize("context", ["full", "recompute", "copy-last"])
def test_prompts_together_are_prompts_alone(model, context):
    options = {"threshold": 0.7, "context": context, "max_new_tokens": 7}
    together = trajdiag.generate(model, PROMPTS, **options)
    assert together == [trajdiag.generate(model, prompt, **options)[0] for prompt in PROMPTS]
    assert together == trajdiag.generate(model, PROMPTS, batch=2, **options)


@pytest.mark.parametrize("dead", [1e-9, 1 / 8, 2])
@pytest.mark.parametrize("context", ["full", "recompute", "copy-last"])
def test_rows_that_are_done_leave_and_change_nothing(context, dead, monkeypatch):
    model = as_model(random_decoder(27, loops=3, num_key_value_heads=2))
    rng = np.random.default_rng(3)
    prompts = [rng.integers(0, 13, n).tolist() for n in (3, 9, 1, 6, 2, 8, 4, 4, 5)]
    options = {"threshold": 0.7, "context": context, "max_new_tokens": 12}
    free = [trajdiag.generate(model, prompt, **options)[0] for prompt in prompts]
    # which rows end early, and where, depends on what they are
    ends = frozenset([free[0].tokens[3], free[4].tokens[6]])
    monkeypatch.setattr(generation, "_ends", lambda model: ends)
    monkeypatch.setattr(generation, "DEAD", dead)
    held, keep = [], CachedRows.keep

    def watched(self, rows):
        keep(self, rows)
        held.append((self.held, len(rows)))

    monkeypatch.setattr(CachedRows, "keep", watched)
    together = trajdiag.generate(model, prompts, **options)
    assert all(now == kept for now, kept in held)
    assert bool(held) == (dead < 1)
    alone = [trajdiag.generate(model, prompt, **options)[0] for prompt in prompts]
    assert together == alone
    assert len({len(one.tokens) for one in together}) > 2
    for one, whole in zip(together, free, strict=True):
        assert one.tokens == whole.tokens[: len(one.tokens)]


def test_token_ids_may_be_lists_arrays_or_tensors():
    model = as_model(random_decoder(22, loops=2))
    expected = trajdiag.generate(model, [[1, 2], [3, 4]], threshold="never", max_new_tokens=2)
    for prompts in (np.array([[1, 2], [3, 4]]), torch.tensor([[1, 2], [3, 4]]), ((1, 2), (3, 4))):
        found = trajdiag.generate(model, prompts, threshold="never", max_new_tokens=2)
        assert found == expected
    (one,) = trajdiag.generate(model, np.array([3, 4]), threshold="never", max_new_tokens=2)
    assert one == expected[1]


def test_that_always_leaves_runs_every_new_token_once():
    model = as_model(random_decoder(22, loops=4))
    for context in ("recompute", "copy-last"):
        (one,) = trajdiag.generate(
            model, [1, 2], readout="fixed", threshold=1, context=context, max_new_tokens=5
        )
        assert one.exit_depth == (1,) * 5 and one.loops_run == 2 * 4 + 4


def test_bfloat16_generates():
    model = as_model(random_decoder(23, loops=3).to(torch.bfloat16))
    (one,) = trajdiag.generate(model, [1, 2, 3], threshold="never", max_new_tokens=1)
    assert list(one.tokens) == full_depth(model, [1, 2, 3], 1)
    found = trajdiag.generate(model, PROMPTS, threshold=0.7, max_new_tokens=5)
    assert all(len(one.tokens) == 5 and set(one.exit_depth) <= {1, 2, 3} for one in found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_ouro(tmp_path_factory.mktemp("ouro") / "tiny", max_position_embeddings=24)


def test_texts_are_continued_in_text(folder):
    model = loaded(folder)
    options = {"threshold": 0.5, "max_new_tokens": 4}
    text, tokens = "What is the Answer", model.tokenizer.encode("What is the Answer")
    (by_name,) = trajdiag.generate(folder, text, device="cpu", **options)
    (by_tokens,) = trajdiag.generate(model, tokens, **options)
    assert by_name == by_tokens
    assert by_name.text == model.tokenizer.decode(list(by_name.tokens))
    empty, eos = trajdiag.generate(model, ["", [0]], **options)
    assert empty == eos and empty.prompt == (0,)


def test_a_row_ends_with_the_token_that_ends_a_text(folder):
    model = loaded(folder)
    free = full_depth(model, [5, 6, 7], 6)
    model.tokenizer.eos_token_id = free[2]
    one, other = trajdiag.generate(model, [[5, 6, 7], [7]], threshold="never", max_new_tokens=6)
    assert list(one.tokens) == free[: free.index(free[2]) + 1]
    assert one.text == model.tokenizer.decode(free[: free.index(free[2])])
    assert len(one.exit_depth) == len(one.tokens)
    assert list(other.tokens) == full_depth(model, [7], 6)[: len(other.tokens)]


def test_a_row_ends_where_the_model_takes_no_more_positions(folder):
    model = loaded(folder)
    long, short = trajdiag.generate(
        model, [[1] * 22, [1]], threshold="never", max_new_tokens=9, context="copy-last"
    )
    assert (len(long.tokens), len(short.tokens)) == (3, 9)
    with pytest.raises(ConfigError, match="prompt 2 has 25 tokens, and model tiny takes 24"):
        trajdiag.generate(model, [[1], [1] * 25], threshold="never")


def test_readout_files_bring_their_rule(folder, tmp_path):
    from tests.latency.replay import documents

    model = loaded(folder)
    store = documents(model, tmp_path / "stores" / "notes.zarr").store
    trajdiag.fit_gate(store, kind="linear", epochs=1, cache_dir=tmp_path)
    for name in ("entropy", "linear-ponder"):
        saved = trajdiag.choose_threshold(store, name, depth=2.5, cache_dir=tmp_path)
        readout = name if saved.gate is None else saved.load_gate(store)
        found = trajdiag.generate(model, PROMPTS, readout=saved.path, max_new_tokens=5)
        assert found == trajdiag.generate(
            model, PROMPTS, readout=readout, threshold=saved.point.threshold, max_new_tokens=5
        )
        never = trajdiag.generate(model, [1], readout=saved.path, threshold="never")
        assert set(never[0].exit_depth) == {model.loops}


def test_a_state_that_is_not_finite_is_named_with_its_prompt():
    decoder = random_decoder(24)
    with torch.no_grad():
        decoder.model.embed_tokens.weight[12] = torch.nan
    said = "gate logit of position 2 of prompt 3 at loop 1 is NaN"
    with pytest.raises(NonFiniteError, match=said):
        trajdiag.generate(as_model(decoder), [[1], [2], [3, 12]], threshold=9, batch=2)


@pytest.mark.parametrize(
    ("prompts", "options", "said"),
    [
        ([], {}, "no prompt to continue"),
        ([[1], []], {}, "prompt 2 has no tokens"),
        (["text"], {}, "has no tokenizer and reads no text"),
        ([[1, 13]], {}, "prompt 1 must be a text or token ids from 0 to 12, not 13"),
        ([[1, 0.5]], {}, r"not 0\.5"),
        (7, {}, "not int"),
        (b"abc", {}, "not bytes"),
        ({1: 2}, {}, "not dict"),
        ([[1], {2, 3}], {}, r"prompt 2 must be a text or token ids from 0 to 12, not \{2, 3\}"),
        ([1], {"threshold": None}, "needs a threshold"),
        ([1], {"threshold": "often"}, "threshold must be a number"),
        ([1], {"context": "copy"}, "context must be full, recompute or copy-last"),
        ([1], {"max_new_tokens": 0}, "max_new_tokens must be from 1 to"),
        ([1], {"min_depth": 4}, "one of loops 1 to 3"),
        ([1], {"readout": "oracle"}, "is hindsight"),
        ([1], {"readout": None}, "readout must be a text or a path or a Gate, got None"),
        ([1], {"readout": ""}, "readout must be a name, a readout file or a fitted gate, got ''"),
        ([1], {"max_new_tokens": 10**400}, "max_new_tokens must be from 1 to 2,147,483,647, got 1"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(prompts, options, said):
    model = as_model(random_decoder(25))
    with pytest.raises(ConfigError, match=said) as caught:
        trajdiag.generate(model, prompts, **({"threshold": 0.5} | options))
    assert "\n" not in str(caught.value)


def test_half_a_character_is_refused_by_the_number_of_its_prompt(folder):
    with pytest.raises(ConfigError, match=r"prompt 2 has half a character .*'a\\ud800'"):
        trajdiag.generate(folder, ["a", "a\ud800"], threshold=0.5)


def test_room_is_made_as_it_is_needed(folder):
    (few,), (many,) = (
        trajdiag.generate(folder, ["ab"], threshold=0.5, max_new_tokens=most)
        for most in (4, 2**31 - 1)
    )
    assert many.tokens[:4] == few.tokens


def test_names_that_nothing_bears_are_refused():
    model = as_model(random_decoder(25))
    with pytest.raises(UnknownNameError, match="did you mean entropy"):
        trajdiag.generate(model, [1], readout="entropie", threshold=1)
    with pytest.raises(UnknownNameError, match="option of generate 'max_tokens'"):
        trajdiag.generate(model, [1], max_tokens=3)
    with pytest.raises(ConfigError, match="models in Ouro's format"):
        trajdiag.generate(Spiral(), [1], threshold=1)
    without = as_model(random_decoder(25, gate="none"))
    with pytest.raises(ConfigError, match="reads the model's own gate, and random has none"):
        trajdiag.generate(without, [1], threshold=1)


def test_a_checkpoint_without_a_tokenizer_may_name_its_end_in_config(tmp_path):
    decoder = random_decoder(26)
    end = full_depth(as_model(decoder), [1, 2], 1)[0]
    write_checkpoint(tmp_path / "m", decoder, tokens={"eos_token_id": end})
    assert json.loads((tmp_path / "m" / "config.json").read_text())["eos_token_id"] == end
    (one,) = trajdiag.generate(tmp_path / "m", [1, 2], threshold="never", device="cpu")
    assert one.tokens == (end,) and dataclasses.asdict(one)["text"] is None
