"""The loop without gradients against the one that keeps what gradients need."""

import pytest
import torch
from torch import Tensor

from tests.models.random_ouro import as_model, random_decoder
from trajdiag.models import decoder as decoder_module
from trajdiag.models import scratch as scratch_module
from trajdiag.models.decoder import OuroDecoder


@pytest.fixture(autouse=True)
def even_narrow_models_are_lean(monkeypatch):
    monkeypatch.setattr(decoder_module, "_LEAN_FROM", 0)
    monkeypatch.setattr(decoder_module, "_JOIN_UP_TO", 0)
    monkeypatch.setattr(scratch_module, "PIECE", 100)


def tokens(rows: int, positions: int) -> Tensor:
    return torch.randint(0, 13, (rows, positions), generator=torch.Generator().manual_seed(rows))


GROUPS = {
    "one row of two blocks of queries": [tokens(1, 200)],
    "rows of a block and less": [tokens(2, 128), tokens(3, 70)],
    "rows short, middling and long": [tokens(4, 5), tokens(1, 300), tokens(1, 800)],
    "a single token": [tokens(1, 1)],
}


def float64_states(decoder: OuroDecoder, groups: list[Tensor]) -> list[Tensor]:
    exact = OuroDecoder(decoder.config).double()
    exact.load_state_dict(decoder.state_dict())
    return [hidden.detach() for hidden in exact.run_packed(groups).hidden]


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS.keys())
@pytest.mark.parametrize("key_heads", [4, 2], ids=["mha", "gqa"])
def test_float32_states_agree_with_float64_ones(groups, key_heads):
    decoder = random_decoder(num_key_value_heads=key_heads)
    with torch.no_grad():
        lean = decoder.run_packed(groups).hidden
    for got, wanted in zip(lean, float64_states(decoder, groups), strict=True):
        torch.testing.assert_close(got.double(), wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS.keys())
def test_bfloat16_states_are_as_near_to_float64_ones_as_with_gradients(groups):
    decoder = random_decoder().bfloat16()
    wanted = torch.stack(float64_states(decoder, groups))
    kept = torch.stack(decoder.run_packed(groups).hidden)
    with torch.no_grad():
        lean = torch.stack(decoder.run_packed(groups).hidden)
    assert lean.dtype == torch.bfloat16 and lean.isfinite().all()
    assert (lean - wanted).norm() < 1.1 * (kept - wanted).norm()


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_leaves_the_real_positions_unchanged(side):
    model = as_model(random_decoder())
    short = tokens(2, 150)
    real = slice(30, 180) if side == "left" else slice(0, 150)
    padded, mask = torch.full((2, 180), 7), torch.zeros(2, 180, dtype=torch.int64)
    padded[:, real], mask[:, real] = short, 1
    with torch.no_grad():
        alone, together = model.begin(short), model.begin(padded, mask)
        for _ in range(3):
            alone, together = model.step(alone), model.step(together)
        got, wanted = model.hidden(together)[:, real], model.hidden(alone)
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-4)


def test_a_state_outlives_later_loops_and_other_batches():
    model = as_model(random_decoder())
    with torch.inference_mode():
        first = model.step(model.begin(tokens(1, 90)))
    kept = first.x.clone()
    with torch.no_grad():
        again = model.step(first)
        model.step(model.step(model.begin(tokens(2, 90))))
    assert torch.equal(first.x, kept)
    assert not torch.equal(again.x, kept)


def test_gradients_still_flow_from_a_batch_begun_without_them():
    model = as_model(random_decoder())
    with torch.no_grad():
        state = model.begin(tokens(1, 90))
    model.hidden(model.step(state)).sum().backward()
    assert all(layer.mlp.down_proj.weight.grad is not None for layer in model.decoder.model.layers)  # pyright: ignore


def test_rows_padded_on_the_left_may_join_rows_that_are_not():
    model = as_model(random_decoder())
    # the first of three, whose memory the three that are joined fit into
    several, short = tokens(3, 90), tokens(2, 60)
    plain = several[:1]
    padded, mask = torch.full((2, 90), 7), torch.zeros(2, 90, dtype=torch.int64)
    padded[:, 30:], mask[:, 30:] = short, 1
    with torch.inference_mode():
        states = [
            (model.step(model.begin(several)), torch.tensor([0])),
            (model.step(model.begin(padded, mask)), torch.tensor([0, 1])),
        ]
        for order in ([0, 1], [1, 0]):
            together = model.hidden(model.step(model.gather([states[i] for i in order])))
            first, second = together.split([[1, 2][i] for i in order])
            got = dict(zip(order, (first, second), strict=True))
            for number, ids, real in ((0, plain, slice(0, 90)), (1, short, slice(30, 90))):
                alone = model.hidden(model.step(model.step(model.begin(ids))))
                torch.testing.assert_close(got[number][:, real], alone, rtol=0, atol=1e-4)
