"""Rows that leave a batch, and rows that join one: each is what it would have been alone."""

import pytest
import torch

from tests.models import random_huginn, random_ouro
from tests.models.tiny_native import FAMILIES as NATIVE
from tests.models.tiny_native import opened, tiny
from trajdiag.models.base import Compacts, LoopedModel, logits

FAMILIES = ("ouro", "ouro-wide", "huginn", *NATIVE)


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, tmp_path_factory) -> LoopedModel:
    if request.param == "ouro":
        return random_ouro.as_model(random_ouro.random_decoder())
    if request.param == "ouro-wide":  # works in scratch memory
        return random_ouro.as_model(random_ouro.random_decoder(d_model=520, initializer_range=0.03))
    if request.param == "huginn":
        return random_huginn.as_model(random_huginn.random_decoder(), "noise:3")
    folder = tmp_path_factory.mktemp(request.param) / "tiny"
    return opened(request.param, tiny(request.param, folder))


def drawn(rows: int, seed: int, positions: int = 9) -> torch.Tensor:
    return torch.randint(1, 13, (rows, positions), generator=torch.Generator().manual_seed(seed))


def alone(model: LoopedModel, ids: torch.Tensor, length: int, loops: int):
    """State and logits after each loop of one row, run by itself, at its last real position."""
    at = torch.tensor([0]), torch.tensor([length - 1])
    state, found = model.begin(ids[None, :length]), []
    for _ in range(loops):
        state = model.step(state)
        found.append((model.hidden(state, at)[0], logits(model, state, at)[0]))
    return found


@pytest.mark.parametrize("padded", ["unpadded", "all padded", "one side padded"])
@torch.inference_mode()
def test_rows_at_different_loops_step_together_as_each_would_alone(model, padded):
    ids = [drawn(4, 1), drawn(3, 2)]
    lengths = [torch.full((4,), 9), torch.full((3,), 9)]
    if padded != "unpadded":
        lengths[0] = torch.tensor([9, 5, 9, 7])
    if padded == "all padded":
        lengths[1] = torch.tensor([6, 9, 8])
    masks = [None if (n == 9).all() else (torch.arange(9) < n[:, None]).long() for n in lengths]
    assert isinstance(model, Compacts)
    first = model.begin(ids[0], masks[0])
    for _ in range(2):
        first = model.step(first)
    kept, late = torch.tensor([3, 0, 1]), torch.tensor([2, 0])
    together = model.gather([(first, kept), (model.begin(ids[1], masks[1]), late)])
    rows = [(0, int(i), 2) for i in kept] + [(1, int(i), 0) for i in late]
    for done in (1, 2):
        together = model.step(together)
        at = torch.arange(5), torch.tensor([int(lengths[b][i]) - 1 for b, i, _ in rows])
        hidden, z = model.hidden(together, at), logits(model, together, at)
        for number, (b, i, before) in enumerate(rows):
            expected = alone(model, ids[b][i], int(lengths[b][i]), before + done)[-1]
            torch.testing.assert_close(hidden[number], expected[0], rtol=2e-5, atol=2e-5)
            torch.testing.assert_close(z[number], expected[1], rtol=2e-5, atol=5e-5)


@torch.inference_mode()
def test_taking_all_rows_of_one_state_changes_no_bit(model):
    ids = drawn(4, 1)
    whole = model.step(model.begin(ids))
    same = model.gather([(whole, torch.arange(4))])
    at = torch.arange(4), torch.full((4,), 8)
    for _ in range(2):
        whole_next, same = model.step(whole), model.step(same)
        assert torch.equal(model.hidden(same, at), model.hidden(whole_next, at))
        assert torch.equal(logits(model, same, at), logits(model, whole_next, at))
        whole = whole_next


@torch.inference_mode()
def test_what_rows_were_taken_from_outlives_their_steps(model):
    """Scratch memory is shared; states are not."""
    whole = model.step(model.begin(drawn(4, 1)))
    at = torch.arange(4), torch.full((4,), 8)
    before = model.hidden(whole, at).clone()
    model.step(model.gather([(whole, torch.tensor([1, 2]))]))
    assert torch.equal(model.hidden(whole, at), before)


@torch.inference_mode()
def test_left_padded_rows_keep_their_mask(model):
    if "left" not in model.padding:
        pytest.skip("this family refuses left padding")
    ids = drawn(2, 1)
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    state = model.step(model.begin(ids, mask))
    others = model.begin(drawn(1, 2)), torch.tensor([0])
    joined = model.step(model.gather([(state, torch.tensor([0])), others]))
    at = torch.tensor([0]), torch.tensor([8])
    expected = alone(model, ids[0, 4:], 5, 2)[-1][0]
    torch.testing.assert_close(model.hidden(joined, at)[0], expected, rtol=2e-5, atol=2e-5)
