"""Loops against a cache give the states of whole rows, however the rows are cut into spans."""

import numpy as np
import pytest
import torch

from tests.models.random_ouro import as_model, random_decoder
from trajdiag.models.cached_ouro import CachedOuro
from trajdiag.models.ouro import OuroModel
from trajdiag.models.tracing import trace

LENGTHS = (7, 1, 4)


def rows_of(lengths: tuple[int, ...], seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 13, length).tolist() for length in lengths]


def cached_states(
    model: OuroModel, rows: list[list[int]], cuts: list[int], room: int = 3
) -> list[torch.Tensor]:
    """[position, loop, d_model] of each row, run in pieces that end at `cuts`."""
    cached = CachedOuro(model, loops=model.loops, rows=len(rows), positions=room)
    found = [torch.zeros(len(row), model.loops, model.d_model, dtype=model.dtype) for row in rows]
    length = np.array([len(row) for row in rows])
    for begin, end in zip([0, *cuts], [*cuts, max(length)], strict=True):
        at = np.flatnonzero(length > begin)
        start, width = np.full(len(at), begin), np.minimum(length[at], end) - begin
        cached.grow(int((start + width).max()))
        spans = cached.spans(at, start, width)
        pieces = [rows[row][begin:end] for row in at]
        x = model.decoder.embed(torch.tensor([token for piece in pieces for token in piece]))
        for loop in range(1, model.loops + 1):
            x = cached.loop(x, loop, spans)
            for row, states in zip(at, x.split(width.tolist()), strict=True):
                found[row][begin:end, loop - 1] = states
        assert torch.equal(spans.last, torch.tensor(np.cumsum(width) - 1))
    return found


SIZES = {
    "plain": {},
    "shared-keys": {"num_key_value_heads": 2},
    "one-key-head": {"num_key_value_heads": 1, "layers": 1},
    "one-loop": {"loops": 1},
    "wide": {"d_model": 260, "heads": 2, "initializer_range": 0.06},
    "mlp-gate": {"gate": "mlp", "tie_word_embeddings": True},
}


@pytest.mark.parametrize("cuts", [[], [1, 2, 3, 4, 5, 6], [2, 3]], ids=["whole", "single", "mixed"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_states_are_those_of_whole_rows(sizes, cuts):
    model = as_model(random_decoder(1, **sizes))
    rows = rows_of(LENGTHS)
    with torch.no_grad():
        found = cached_states(model, rows, cuts)
    for row, states in zip(rows, found, strict=True):
        alone = trace(model, row)
        torch.testing.assert_close(states, alone.hidden[0], rtol=1e-5, atol=1e-5)
        logits = model.decoder.head(states).detach()
        assert torch.equal(logits.argmax(-1), alone.logits[0].argmax(-1))


def test_bfloat16_states_are_those_of_whole_rows_within_its_rounding():
    model = as_model(random_decoder(2, num_key_value_heads=2).to(torch.bfloat16))
    rows = rows_of(LENGTHS)
    with torch.no_grad():
        found = cached_states(model, rows, [3])
    for row, states in zip(rows, found, strict=True):
        exact = trace(as_model(model.decoder.float()), row).hidden[0]
        model.decoder.to(torch.bfloat16)
        whole = trace(model, row).hidden[0]
        off, usual = (states.float() - exact).norm(), (whole.float() - exact).norm()
        assert off < 2 * usual and usual < 0.1 * exact.norm()


def test_what_stands_for_deeper_loops_is_the_exit_loops():
    model = as_model(random_decoder(3))
    cached = CachedOuro(model, loops=3, rows=2, positions=4)
    tokens = model.decoder.embed(torch.tensor([1, 2, 3, 4]))
    with torch.no_grad():
        spans = cached.spans(np.arange(2), np.array([0, 0]), np.array([2, 2]))
        for loop in (1, 2, 3):
            tokens = cached.loop(tokens, loop, spans)
        before = [cached.cache.read(loop, 1, 2, 4).clone() for loop in (1, 2, 3)]
        cached.cache.copy_deeper(1, np.array([0, 1]), np.array([1, 0]))
    for loop in (2, 3):
        found, own = cached.cache.read(loop, 1, 2, 4), before[loop - 1]
        for row, position in ((0, 0), (1, 1)):
            assert torch.equal(found[row, :, position], own[row, :, position])
        for row, position in ((0, 1), (1, 0)):
            assert torch.equal(found[row, :, position], before[0][row, :, position])
            assert not torch.equal(found[row, :, position], own[row, :, position])


def test_rows_that_stay_go_on_to_the_same_bits():
    """Those that stay are read in place, which gives what copying them out of the cache does."""
    model = as_model(random_decoder(4))
    stay, tokens = np.array([1, 2, 4]), torch.tensor([1, 2, 3, 4, 5, 6])
    found = []
    with torch.no_grad():
        for keeps in (False, True):
            cached = CachedOuro(model, loops=3, rows=6, positions=4)
            spans = cached.spans(np.arange(6), np.zeros(6, int), np.array([1, 2, 3, 1, 2, 3]))
            x = model.decoder.embed(tokens[[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]])
            for loop in (1, 2, 3):
                x = cached.loop(x, loop, spans)
            if keeps:
                cached.cache.keep(stay, 3)
                assert cached.cache.rows == 3
                cached.grow(9)
            rows = np.arange(3) if keeps else stay
            spans = cached.spans(rows, np.array([2, 3, 2]), np.ones(3, int))
            x = model.decoder.embed(tokens[:3])
            for loop in (1, 2, 3):
                x = cached.loop(x, loop, spans)
            found.append(x)
    assert torch.equal(*found)
