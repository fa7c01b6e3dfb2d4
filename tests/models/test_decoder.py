import pytest
import torch
from torch import Tensor

from tests.models.naive_ouro import run
from tests.models.random_ouro import as_model, random_decoder
from trajdiag.errors import ConfigError
from trajdiag.models import decoder as decoder_module
from trajdiag.models.base import LoopedModel, logits
from trajdiag.models.tracing import trace

ROW = [3, 1, 4, 1, 5, 9, 2, 6]

SHAPES = {
    "as Ouro": {},
    "grouped queries": {"num_key_value_heads": 2},
    "one key head": {"num_key_value_heads": 1},
    "tied head": {"tie_word_embeddings": True},
    "heads wider than the model": {"head_dim": 6},
    "another rotary base": {"rope_theta": 100.0, "rms_norm_eps": 1e-2},
}


def tokens(rows: int, positions: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 13, (rows, positions), generator=torch.Generator().manual_seed(seed))


def assert_near(a: Tensor, b: Tensor, atol: float = 2e-5) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize("path", ["joined", "separate", "lean"])
@pytest.mark.parametrize("options", SHAPES.values(), ids=SHAPES.keys())
def test_decoder_agrees_with_a_naive_float64_one(options, path, monkeypatch):
    monkeypatch.setattr(decoder_module, "_JOIN_UP_TO", 512 if path == "joined" else 0)
    monkeypatch.setattr(decoder_module, "_LEAN_FROM", 0 if path == "lean" else 257)
    decoder = random_decoder(**options)
    weights = {name: t.double().numpy() for name, t in decoder.state_dict().items()}
    hidden, logits = run(decoder.config, weights, ROW, loops=4)
    traced = trace(as_model(decoder), ROW, loops=4)
    # float32's error after four loops, which is another on another processor
    assert_near(traced.hidden[0].double(), torch.from_numpy(hidden), atol=1e-4)
    assert_near(traced.logits[0].double(), torch.from_numpy(logits), atol=1e-4)


@pytest.mark.parametrize("side", ["left", "right", "both"])
@pytest.mark.parametrize("options", [{}, {"num_key_value_heads": 2}], ids=["mha", "gqa"])
def test_padding_leaves_the_real_positions_unchanged(side, options):
    model = as_model(random_decoder(**options))
    short = tokens(2, 5)
    alone = trace(model, short)
    before = {"left": 4, "right": 0, "both": 1}[side]
    padded, mask = torch.full((2, 9), 7), torch.zeros(2, 9, dtype=torch.int64)
    padded[:, before : before + 5], mask[:, before : before + 5] = short, 1
    together = trace(model, padded, mask)
    real = slice(before, before + 5)
    assert_near(together.hidden[:, real], alone.hidden)
    assert_near(together.logits[:, real], alone.logits)
    assert together.gate_logit is not None and alone.gate_logit is not None
    assert_near(together.gate_logit[:, real], alone.gate_logit)


def test_padded_positions_never_become_nan():
    mask = torch.ones(3, 8, dtype=torch.int64)
    mask[1, :5] = 0
    mask[2, :7] = 0
    traced = trace(as_model(random_decoder()), tokens(3, 8), mask)
    assert traced.hidden.isfinite().all() and traced.logits.isfinite().all()


def test_explicit_positions_shift_nothing_but_relative_angles():
    model = as_model(random_decoder())
    ids = tokens(2, 6)
    shifted = torch.arange(6).expand(2, 6) + 5
    gapped = torch.tensor([0, 1, 2, 7, 8, 9]).expand(2, 6)
    with torch.no_grad():
        plain = model.hidden(model.step(model.begin(ids)))
        moved = model.hidden(model.step(model.begin(ids, position_ids=shifted)))
        apart = model.hidden(model.step(model.begin(ids, position_ids=gapped)))
    assert_near(plain, moved)
    assert_near(plain[:, :3], apart[:, :3])
    assert (plain[:, 3:] - apart[:, 3:]).abs().max() > 1e-3


@pytest.mark.parametrize("gate", ["none", "linear", "mlp"])
def test_packed_groups_agree_with_rows_run_alone(gate):
    decoder = random_decoder(gate=gate, loops=4)
    model = as_model(decoder)
    groups = [tokens(3, 5, seed=1), tokens(1, 2, seed=2), tokens(2, 7, seed=3)]
    with torch.no_grad():
        packed = decoder.run_packed(groups)
    alone = [trace(model, group, loops=4) for group in groups]
    for loop in range(4):
        hidden = torch.cat([t.hidden[:, :, loop].flatten(0, 1) for t in alone])
        assert_near(packed.hidden[loop], hidden)
        assert_near(
            decoder.head(packed.hidden[loop][packed.last]),
            torch.cat([t.logits[:, -1, loop] for t in alone]),
        )
        gates = decoder.gate(packed.hidden[loop][packed.last])
        if gate == "none":
            assert gates is None
        else:
            expected = torch.cat(
                [t.gate_logit[:, -1, loop] for t in alone if t.gate_logit is not None]
            )
            assert_near(gates, expected)


@pytest.mark.parametrize("options", [{}, {"num_key_value_heads": 2}], ids=["mha", "gqa"])
def test_gradients_of_the_packed_path_agree_with_finite_differences(options):
    decoder = random_decoder(gate="mlp", layers=1, **options)
    groups = [tokens(2, 3, seed=1), tokens(2, 4, seed=2)]

    def loss() -> Tensor:
        read = decoder.read_packed(groups, torch.arange(14))
        gates = decoder.gate(read[1])
        assert gates is not None
        return decoder.head(read[-1]).square().mean() + gates.square().mean()

    loss().backward()
    step = 1e-2
    for name, parameter in decoder.named_parameters():
        assert parameter.grad is not None, name
        with torch.no_grad():
            # Along the gradient itself, the slope is the gradient's norm.
            direction = parameter.grad / parameter.grad.norm()
            parameter.add_(step * direction)
            above = loss().double()
            parameter.sub_(2 * step * direction)
            below = loss().double()
            parameter.add_(step * direction)
        slope = ((above - below) / (2 * step)).item()
        assert slope == pytest.approx(parameter.grad.norm().item(), rel=0.05, abs=2e-4), name


def test_bfloat16_autocast_trains_near_float32():
    decoder = random_decoder()
    groups = [tokens(4, 5), tokens(4, 7)]
    decoder.head(decoder.run_packed(groups).hidden[-1]).square().mean().backward()
    wanted = {name: p.grad.clone() for name, p in decoder.named_parameters() if p.grad is not None}
    decoder.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        logits = decoder.head(decoder.run_packed(groups).hidden[-1])
    assert logits.dtype == torch.float32
    logits.square().mean().backward()
    got = torch.cat([decoder.get_parameter(name).grad.flatten() for name in wanted])  # pyright: ignore
    whole = torch.cat([grad.flatten() for grad in wanted.values()])
    assert torch.cosine_similarity(got, whole, dim=0) > 0.99


def test_a_model_is_the_looped_model_that_the_protocol_asks_for():
    model = as_model(random_decoder(gate="none"))
    assert isinstance(model, LoopedModel)
    assert (model.loops, model.d_model, model.vocab_size, model.has_gate) == (3, 16, 13, False)
    with torch.no_grad():
        state = model.step(model.begin(tokens(3, 5)))
        at = torch.arange(3), torch.tensor([4, 0, 2])
        everywhere = model.hidden(state)
        assert torch.equal(model.hidden(state, at), everywhere[at])
        assert_near(logits(model, state, at), logits(model, state)[at])
        assert model.gate_logit(state, at) is None


def test_a_shorter_run_is_the_start_of_a_longer_one():
    model = as_model(random_decoder())
    long, short = trace(model, ROW, loops=6), trace(model, ROW, loops=2)
    assert torch.equal(long.hidden[:, :, :2], short.hidden)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.tensor([[0, 13]]), "run from 0 to 13.*vocabulary of 13"),
        (torch.tensor([[-1, 3]]), "run from -1 to 3"),
        (torch.zeros(0, 3, dtype=torch.int64), "at least one"),
        (torch.zeros(2, 3), "whole numbers"),
        (torch.zeros(3, dtype=torch.int64), r"\[row, position\]"),
    ],
)
def test_ids_that_cannot_be_embedded_are_refused(ids, message):
    with pytest.raises(ConfigError, match=message):
        as_model(random_decoder()).begin(ids)


@pytest.mark.parametrize(("width", "lean"), [(256, False), (264, True)])
def test_wide_models_are_lean_where_nothing_needs_gradients(width, lean):
    decoder = random_decoder(d_model=width)
    position = torch.arange(5)
    with torch.no_grad():
        assert (decoder.batch(((1, 5),), position).scratch is not None) is lean
    kept = decoder.batch(((1, 5),), position)
    assert kept.scratch is None and len(kept.layers[0].qkv) == 1
