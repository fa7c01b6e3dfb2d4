"""Batches: little padding, within the budget, nothing twice and nothing left out."""

import numpy as np
import pytest
import torch

from tests.extraction.test_questions import Quiz
from tests.language_models import loaded, tiny_ouro
from trajdiag.errors import ConfigError
from trajdiag.extraction import extract
from trajdiag.extraction.batching import PADDING, TokenBudget, batches


@pytest.mark.parametrize("pads", [True, False])
@pytest.mark.parametrize("tokens", [1, 50, 700, 10**6])
def test_every_unit_is_in_one_batch_within_the_budget(pads, tokens):
    rng = np.random.default_rng(0)
    length, rows = rng.integers(1, 60, 300), rng.integers(1, 5, 300)
    found = list(batches(length, rows, TokenBudget(tokens), pads=pads))
    assert sorted(np.concatenate(found).tolist()) == list(range(300))
    for places in found:
        longest = length[places].max()
        assert len(places) == 1 or rows[places].sum() * longest <= tokens
        assert length[places].min() >= (longest * (1 - PADDING) if pads else longest)
        assert (np.diff(places) > 0).all()


def test_equal_lengths_fill_the_budget():
    found = list(batches(np.full(100, 7), np.ones(100, int), TokenBudget(70), pads=False))
    assert [len(places) for places in found] == [10] * 10


class OutOfMemory:
    """A model whose device holds no more than `most` tokens at once."""

    def __init__(self, model, most: int) -> None:
        self.model, self.most, self.held = model, most, []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def begin(self, input_ids, attention_mask=None, position_ids=None):
        self.held.append(input_ids.numel())
        if input_ids.numel() > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self.model.begin(input_ids, attention_mask, position_ids)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return loaded(tiny_ouro(tmp_path_factory.mktemp("ouro") / "tiny"))


def test_out_of_memory_halves_the_budget_and_says_so(model, tmp_path):
    lines, small = [], OutOfMemory(model, 100)
    store = extract(small, Quiz(), cache_dir=tmp_path / "a", progress=lines.append)
    whole = extract(model, Quiz(), cache_dir=tmp_path / "b")
    np.testing.assert_allclose(store.numpy("hidden"), whole.numpy("hidden"), atol=1e-5)
    np.testing.assert_array_equal(store.ids, whole.ids)
    said = [line for line in lines if "is out of memory: --batch-tokens" in line]
    assert said
    refused = [tokens for tokens in small.held if tokens > 100]
    assert len(refused) == len(said)
    assert small.held[-1] <= 100


def test_one_row_that_is_too_much_is_an_error(model, tmp_path):
    with pytest.raises(ConfigError, match=r"cpu has not the memory for \d rows of \d+ tokens"):
        extract(OutOfMemory(model, 5), Quiz(), cache_dir=tmp_path)
