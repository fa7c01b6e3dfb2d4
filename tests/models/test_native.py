"""What the families that transformers implements share. Their reference is transformers' own
forward of the same weights, configured for another number of loops."""

import itertools
import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from tests.models.tiny_native import FAMILIES, LOOPS, opened, published_logits, tiny
from trajdiag.errors import ConfigError
from trajdiag.models.base import LoopedModel, logits
from trajdiag.models.inputs import checked_inputs
from trajdiag.models.native import NativeModel, attention_mask
from trajdiag.models.native_weights import quiet

IDS = torch.randint(0, 50, (3, 11), generator=torch.Generator().manual_seed(1))
"""Rows longer than the tiny models' attention windows."""


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(family, tmp_path_factory.mktemp(family))


@pytest.fixture(scope="module")
def model(family: str, folder: Path) -> NativeModel:
    return opened(family, folder)


def every_loop(model: NativeModel, ids: Tensor, mask: Tensor | None, loops: int) -> list[Tensor]:
    """Logits [row, position, vocab] of each loop."""
    with torch.inference_mode():
        state = model.begin(ids, mask)
        found = []
        for _ in range(loops):
            state = model.step(state)
            found.append(logits(model, state))
    return found


def test_each_loop_is_the_output_of_a_model_configured_for_so_many(
    family: str, folder: Path, model: NativeModel
) -> None:
    found = every_loop(model, IDS, None, loops=5)
    for loop in (1, 2, 3, 5):
        torch.testing.assert_close(
            found[loop - 1], published_logits(family, folder, loop, IDS), rtol=0, atol=1e-6
        )
    changes = [(a - b).abs().max() for a, b in itertools.pairwise(found)]
    assert min(changes) > 0.01  # The comparison would miss a loop that did nothing.


@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_rows_are_what_they_are_alone(model: NativeModel, side: str) -> None:
    assert side in model.padding
    lengths = [11, 6, 1]
    ids, mask = padded(lengths, side)
    together = every_loop(model, ids, mask, loops=4)
    for row, length in enumerate(lengths):
        alone = every_loop(model, IDS[row : row + 1, :length], None, loops=4)
        for loop in range(4):
            torch.testing.assert_close(
                together[loop][row][mask[row].bool()], alone[loop][0], rtol=1e-5, atol=5e-5
            )


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_holds_no_nan_and_its_tokens_do_not_matter(model: NativeModel, side: str) -> None:
    ids, mask = padded([11, 6, 1], side)
    found = every_loop(model, ids, mask, loops=3)[-1]
    assert found.isfinite().all()
    other = every_loop(model, ids.where(mask.bool(), 49), mask, loops=3)[-1]
    torch.testing.assert_close(found[mask.bool()], other[mask.bool()], rtol=1e-5, atol=5e-5)


def test_padded_rows_are_what_transformers_makes_of_them(
    family: str, folder: Path, model: NativeModel
) -> None:
    ids, mask = padded([11, 6, 3], "left")
    expected = published_logits(family, folder, 3, ids, mask)[mask.bool()]
    found = every_loop(model, ids, mask, loops=3)[-1][mask.bool()]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_padding_is_never_left_with_nothing_to_attend_to(model: NativeModel) -> None:
    """A softmax over nothing is NaN in some versions of torch, and NaN spreads."""
    ids, mask = padded([11, 6, 1], "left")
    embedded = model.network.model.embed_tokens(ids)
    inputs = checked_inputs(ids, mask, None, name="tiny", vocab_size=50, device=torch.device("cpu"))
    allowed = attention_mask(model.network.model, embedded, inputs, sliding=False)
    if allowed.dtype == torch.bool:  # Eager attention adds its mask: no softmax is over nothing.
        seen = torch.ones(11, 11).tril().bool() & mask[:, None].bool() | torch.eye(11).bool()
        assert torch.equal(allowed[:, 0], seen)
    else:
        assert allowed.isfinite().all()


def test_bfloat16_states_are_transformers_own(family: str, tmp_path: Path) -> None:
    """To the bit: what a family keeps in float32 is kept, and what it rounds is rounded."""
    tiny(family, tmp_path, dtype=torch.bfloat16)
    with quiet(), torch.inference_mode():
        published = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
        expected = published.model(IDS, attention_mask=torch.ones_like(IDS), use_cache=False)
    model = opened(family, tmp_path)
    with torch.inference_mode():
        state = model.begin(IDS)
        for _ in range(model.loops):
            state = model.step(state)
        assert torch.equal(model.head_input(state), expected.last_hidden_state)


def test_given_positions_are_used(model: NativeModel) -> None:
    with torch.inference_mode():
        counted = model.step(model.begin(IDS))
        spread = model.step(model.begin(IDS, None, 3 * torch.arange(11).expand(3, -1)))
    assert (logits(model, counted) - logits(model, spread)).abs().max() > 1e-3


def test_some_positions_are_read_as_all_are(model: NativeModel) -> None:
    at = torch.tensor([0, 2, 2]), torch.tensor([4, 0, 10])
    with torch.inference_mode():
        state = model.step(model.step(model.begin(IDS)))
        assert torch.equal(model.hidden(state, at), model.hidden(state)[at])
        assert torch.equal(model.head_input(state, at), model.head_input(state)[at])
        assert model.hidden(state).shape == (3, 11, model.d_model)


def test_it_says_what_it_is(family: str, folder: Path, model: NativeModel) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert isinstance(model, LoopedModel)
    assert (model.loops, model.d_model, model.vocab_size, model.max_positions) == (3, 32, 50, 64)
    assert not model.has_gate
    assert model.gate_logit(model.begin(IDS)) is None
    assert (model.record.family, model.record.source) == (family, "local")
    assert model.record.config == config
    assert model.loops == config[LOOPS[family]]


def test_a_bfloat16_head_multiplies_in_float32(family: str, tmp_path: Path) -> None:
    model = opened(family, tiny(family, tmp_path, dtype=torch.bfloat16))
    x = torch.randn(5, model.d_model, generator=torch.Generator().manual_seed(0)).bfloat16()
    products = x.double() @ model.network.lm_head.weight.double().T
    head = model.network.lm_head
    if family == "dory":
        products *= head.logit_scale.double() * head.logit_scale_factor
    if family == "inkling2_loop_text":
        products = 30 * torch.tanh(products / 30)
    torch.testing.assert_close(model.head(x).double(), products, rtol=1e-6, atol=1e-5)


def test_unknown_tokens_are_refused(model: NativeModel) -> None:
    with pytest.raises(ConfigError, match=r"tiny has a vocabulary of 50 \(0 to 49\)"):
        model.begin(torch.tensor([[0, 50]]))


def test_masks_of_another_shape_are_refused(model: NativeModel) -> None:
    with pytest.raises(ConfigError, match=r"shape of input_ids, \[3, 11\], not \[3, 10\]"):
        model.begin(IDS, torch.ones(3, 10))


def padded(lengths: list[int], side: str) -> tuple[Tensor, Tensor]:
    """The first tokens of IDS' rows, and their mask, both [row, position]."""
    width = max(lengths)
    ids = torch.zeros(len(lengths), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        places = slice(width - length, None) if side == "left" else slice(0, length)
        ids[row, places] = IDS[row, :length]
        mask[row, places] = 1
    return ids, mask
