"""A small random Huginn and its outputs, written by the published code, and a second
implementation on other sizes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy import stats

from tests.models import naive_huginn
from tests.models.random_huginn import as_model, open_folder, random_decoder
from trajdiag.errors import ConfigError
from trajdiag.models.base import FreeStart, LoopedModel
from trajdiag.models.huginn import initial_noise
from trajdiag.models.tracing import trace

REFERENCE = Path(__file__).parent / "reference" / "huginn-tiny"


@pytest.fixture(scope="module")
def expected():
    return load_file(REFERENCE / "expected.safetensors")


def close(got: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-5)


def test_states_and_logits_agree_with_the_published_code(expected):
    model = open_folder(REFERENCE)
    assert isinstance(model, LoopedModel) and isinstance(model, FreeStart)
    assert model.loops == 6
    traced = trace(model, expected["input_ids"], initial_state=expected["initial_state"])
    close(traced.hidden, expected["latent"])
    close(traced.logits, expected["logits"])
    assert traced.gate_logit is None


@torch.no_grad()
def test_the_prelude_and_what_the_head_reads_agree_with_the_published_code(expected):
    model = open_folder(REFERENCE)
    state = model.begin_from(expected["initial_state"], expected["input_ids"])
    close(state.injected.view(3, 9, -1), expected["prelude"])
    for loop in range(6):
        state = model.step(state)
        close(model.head_input(state), expected["head_input"][:, :, loop])


def test_rotary_angles_are_those_that_the_published_code_stored():
    stored = load_file(REFERENCE / "model.safetensors")["freqs_cis"]
    turn = open_folder(REFERENCE).decoder.batch(1, 64, torch.arange(64)).turn
    torch.testing.assert_close(torch.view_as_real(turn)[None], stored, rtol=0, atol=2e-7)


@torch.no_grad()
def test_places_read_are_the_same_as_in_the_whole(expected):
    model = open_folder(REFERENCE)
    state = model.step(model.begin_from(expected["initial_state"], expected["input_ids"]))
    at = (torch.tensor([2, 0, 0, 1]), torch.tensor([8, 3, 0, 3]))
    assert torch.equal(model.hidden(state, at), model.hidden(state)[at])
    close(model.head_input(state, at), expected["head_input"][:, :, 0][at])


def test_bfloat16_stays_near_float32_and_its_head_is_float32(expected):
    model = open_folder(REFERENCE, torch.bfloat16)
    with torch.no_grad():
        state = model.begin_from(expected["initial_state"], expected["input_ids"])
        for _ in range(model.loops):
            state = model.step(state)
        hidden, read = model.hidden(state), model.head_input(state)
        logits = model.head(read)
    assert hidden.dtype == read.dtype == torch.bfloat16
    last = expected["latent"][:, :, -1]
    assert (hidden.float() - last).norm() / last.norm() < 0.03
    head = load_file(REFERENCE / "model.safetensors")["transformer.wte.weight"].bfloat16().double()
    assert logits.dtype == torch.float32
    close(logits.double(), read.double() @ head.T)


VARIANTS = {
    "three heads": {},
    "one head": {"n_heads": 1},
    "no qk_bias": {"qk_bias": False},
    "untied": {"tie_embeddings": False},
    "adapter bias": {"bias": True},
    "other constants": {"rope_base": 100.0, "norm_eps": 0.1},
    "deeper": {"n_layers_in_prelude": 3, "n_layers_in_recurrent_block": 1, "n_layers_in_coda": 1},
    "core alone": {"n_layers_in_prelude": 0, "n_layers_in_coda": 0},
}


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
@torch.no_grad()
def test_a_second_implementation_agrees_at_every_position_and_loop(options):
    decoder = random_decoder(**options)
    tensors = {name: tensor.double().numpy() for name, tensor in decoder.state_dict().items()}
    tokens = [3, 0, 12, 7, 7]
    initial = torch.randn(1, 5, 12, generator=torch.Generator().manual_seed(1))
    wanted = naive_huginn.run(decoder.config, tensors, tokens, initial[0].double().numpy(), 3)
    model = as_model(decoder)
    traced = trace(model, tokens, initial_state=initial)
    np.testing.assert_allclose(traced.hidden[0], wanted[0], atol=5e-5)
    np.testing.assert_allclose(traced.logits[0], wanted[2], atol=5e-5)
    state = model.step(model.begin_from(initial, torch.tensor([tokens])))
    some = (torch.tensor([0, 0]), torch.tensor([4, 1]))
    np.testing.assert_allclose(model.head_input(state)[0], wanted[1][:, 0], atol=5e-5)
    np.testing.assert_allclose(model.head_input(state, some), wanted[1][[4, 1], 0], atol=5e-5)


@torch.no_grad()
def test_given_position_ids_are_the_rotary_positions():
    decoder = random_decoder()
    tensors = {name: tensor.double().numpy() for name, tensor in decoder.state_dict().items()}
    tokens, positions = [3, 0, 12], [2, 9, 30]
    model = as_model(decoder)
    state = model.step(model.begin(torch.tensor([tokens]), None, torch.tensor([positions])))
    wanted, *_ = naive_huginn.run(decoder.config, tensors, tokens, np.zeros((3, 12)), 1, positions)
    np.testing.assert_allclose(model.hidden(state)[0], wanted[:, 0], atol=5e-5)


def test_a_longer_run_begins_with_the_shorter_one():
    model = as_model(random_decoder(), "noise:1")
    short, long = (trace(model, [[1, 2, 3], [4, 5, 6]], loops=loops) for loops in (2, 5))
    assert torch.equal(short.hidden, long.hidden[:, :, :2])
    assert torch.equal(short.logits, long.logits[:, :, :2])


@pytest.mark.parametrize("initial", ["zeros", "noise:3"])
def test_right_padded_rows_are_what_they_are_alone(initial):
    model = as_model(random_decoder(), initial)
    rows = [[5, 1, 2, 9, 9, 3], [7], [0, 0, 12]]
    ids = torch.tensor([row + [11] * (6 - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (6 - len(row)) for row in rows])
    batched = trace(model, ids, mask)
    for number, row in enumerate(rows):
        alone = trace(model, row)
        close(batched.hidden[number, : len(row)], alone.hidden[0])
        close(batched.logits[number, : len(row)], alone.logits[0])


@pytest.mark.parametrize("row", [[0, 1, 1], [1, 0, 1]], ids=["left", "inside"])
def test_padding_before_a_real_token_is_refused(row):
    model = as_model(random_decoder())
    assert model.padding == {"right"}
    ids, mask = torch.ones(2, 3, dtype=torch.long), torch.tensor([[1, 1, 0], row])
    with pytest.raises(ConfigError, match="row 1 has padding before a real token"):
        model.begin(ids, mask)
    with pytest.raises(ConfigError, match="pad on the right"):
        model.begin_from(torch.zeros(2, 3, 12), ids, mask)
    if row[0] == 0:
        with pytest.raises(ConfigError, match="left padding"):
            trace(model, ids, mask)


def test_inputs_that_do_not_fit_are_refused():
    model = as_model(random_decoder())
    with pytest.raises(ConfigError, match="rows of 33 tokens are longer than the 32"):
        model.begin(torch.ones(1, 33, dtype=torch.long))
    with pytest.raises(ConfigError, match="vocabulary of 13"):
        model.begin(torch.tensor([[13]]))
    with pytest.raises(ConfigError, match=r"must be \[1, 2, 12\], not \[2, 12\]"):
        model.begin_from(torch.zeros(2, 12), torch.tensor([[1, 2]]))


@torch.no_grad()
def test_state_zero_is_zeros_or_the_noise_of_its_position():
    decoder = random_decoder()
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert not as_model(decoder).hidden(as_model(decoder).begin(ids)).any()
    noisy = as_model(decoder, "noise:7")
    start = noisy.hidden(noisy.begin(ids))
    assert start.shape == (2, 3, 12) and start.std() > 0.1
    assert torch.equal(start[0], start[1])
    longer = noisy.hidden(noisy.begin(torch.ones(1, 20, dtype=torch.long)))
    assert torch.equal(longer[0, :3], start[0])
    again, other = (as_model(decoder, f"noise:{seed}") for seed in (7, 8))
    assert torch.equal(again.hidden(again.begin(ids)), start)
    assert not torch.equal(other.hidden(other.begin(ids)), start)


def test_a_table_of_noise_begins_with_every_shorter_one():
    config = random_decoder().config
    long = initial_noise(config, 0, 32)
    assert long.dtype == torch.float32
    for positions in (1, 7, 31):
        assert torch.equal(initial_noise(config, 0, positions), long[:positions])


def test_noise_is_the_published_truncated_normal():
    config = random_decoder(n_embd=600, n_heads=1).config
    noise = initial_noise(config, 0, 500).double().numpy().ravel()
    scale = np.sqrt(2 / (5 * 600)) * np.sqrt(600)
    wanted = stats.truncnorm(-3, 3, scale=scale)
    assert 2.99 * scale < np.abs(noise).max() <= 3 * scale * (1 + 1e-6)
    assert noise.std() == pytest.approx(wanted.std(), rel=0.01)
    assert stats.kstest(noise, wanted.cdf).statistic < 0.005


@pytest.mark.parametrize("initial", ["noise", "noise:", "noise:-1", "noise:x", "ones"])
def test_an_initial_state_that_is_not_one_is_refused(initial):
    with pytest.raises(ConfigError, match="existing: zeros, noise:SEED"):
        as_model(random_decoder(), initial)
