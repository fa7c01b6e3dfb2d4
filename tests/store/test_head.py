"""A head kept with a store: what it computes, and how it is believed."""

import hashlib
import json
import math

import numpy as np
import pytest
import torch
from safetensors.numpy import load as load_numpy
from safetensors.torch import save_file

from trajdiag.errors import StoreError
from trajdiag.store import head as head_module
from trajdiag.store.head import TOLERANCE, GoldenBatch, SavedHead, load_head, save_head

MODEL = "5" * 64


def random_head(*, bias=False, softcap=None, dtype=torch.float32, vocab=50, d_model=16):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(vocab, d_model, generator=generator).to(dtype)
    shift = torch.randn(vocab, generator=generator).to(dtype) if bias else None
    return SavedHead(weight=weight, bias=shift, softcap=softcap)


def by_definition(head: SavedHead, states: torch.Tensor) -> np.ndarray:
    """In float64."""
    z = states.double().numpy() @ head.weight.double().numpy().T
    if head.bias is not None:
        z += head.bias.double().numpy()
    return z if head.softcap is None else head.softcap * np.tanh(z / head.softcap)


def golden_batch(head: SavedHead, dtype=torch.float32) -> GoldenBatch:
    states = torch.randn(4, head.weight.shape[1], generator=torch.Generator().manual_seed(1))
    states = states.to(dtype)
    return GoldenBatch(
        states=states, logits=torch.from_numpy(by_definition(head, states).astype(np.float32))
    )


def load(content: bytes, model_sha256: str = MODEL) -> SavedHead:
    return load_head(content, store="mine", model_sha256=model_sha256)


HEADS = [
    {},
    {"bias": True},
    {"softcap": 3.0},
    {"bias": True, "softcap": 3.0, "dtype": torch.bfloat16},
    {"dtype": torch.float16},
]


@pytest.mark.parametrize("options", HEADS)
@pytest.mark.parametrize("rows", [7, 8192])
def test_logits_are_those_of_the_definition_in_pieces_too(monkeypatch, options, rows):
    monkeypatch.setattr(head_module, "_ROWS", rows)
    head = random_head(**options)
    states = torch.randn(3, 2, 16, generator=torch.Generator().manual_seed(2)).bfloat16()
    found = head.logits(states)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, by_definition(head, states), atol=1e-5)


@pytest.mark.parametrize("options", HEADS)
def test_a_head_comes_back_as_it_was_saved(options):
    head = random_head(**options)
    found = load(save_head(head, golden_batch(head), MODEL))
    assert found.weight.dtype == head.weight.dtype
    assert torch.equal(found.weight, head.weight)
    assert found.softcap == head.softcap
    assert (found.bias is None) == (head.bias is None)
    states = golden_batch(head).states
    assert torch.equal(found.logits(states), head.logits(states))


def test_logits_follow_from_the_description_of_the_file_alone():
    head = random_head(bias=True, softcap=3.0)
    golden = golden_batch(head)
    content = save_head(head, golden, MODEL)
    tensors = load_numpy(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    said = json.loads(header["__metadata__"]["trajdiag_head"])
    cap = said["softcap"]
    z = tensors["golden_states"] @ tensors["weight"].T + tensors["bias"]
    np.testing.assert_allclose(cap * np.tanh(z / cap), tensors["golden_logits"], atol=1e-5)
    assert (said["version"], said["model_sha256"]) == (1, MODEL)
    digest = hashlib.sha256()
    for name in ("bias", "golden_logits", "golden_states", "weight"):
        shape = list(tensors[name].shape)
        digest.update(json.dumps([name, "float32", shape]).encode())
        digest.update(tensors[name].astype("<f4").tobytes())
    assert said["sha256"] == digest.hexdigest()
    assert set(tensors) == {"weight", "bias", "golden_states", "golden_logits"}


def test_the_same_head_is_saved_as_the_same_bytes():
    head = random_head(bias=True, softcap=3.0)
    contents = {save_head(head, golden_batch(head), MODEL) for _ in range(20)}
    assert len(contents) == 1


def test_sums_in_another_order_are_within_the_tolerance():
    head = random_head(vocab=300, d_model=2048)
    golden = golden_batch(head)
    order = torch.randperm(2048, generator=torch.Generator().manual_seed(3))
    shuffled = SavedHead(weight=head.weight[:, order])
    turned = GoldenBatch(states=golden.states[:, order], logits=golden.logits)
    assert turned.difference(shuffled) is None


@pytest.mark.parametrize("tampered", ["weight", "bias", "golden_states", "golden_logits"])
def test_the_golden_batch_tells_a_tampered_file(tampered):
    head = random_head(bias=True)
    golden = golden_batch(head)
    allowed = TOLERANCE * float(golden.logits.abs().max())
    parts = {
        "weight": head.weight.clone(),
        "bias": head.bias.clone(),
        "golden_states": golden.states.clone(),
        "golden_logits": golden.logits.clone(),
    }
    # the smallest change that moves a logit of some state by ten times what is allowed
    place = tuple(0 for _ in parts[tampered].shape)
    reach = {
        "weight": float(golden.states[:, 0].abs().max()),
        "golden_states": float(head.weight[:, 0].abs().max()),
    }
    parts[tampered][place] += 10 * allowed / reach.get(tampered, 1.0)
    content = save_head(
        SavedHead(weight=parts["weight"], bias=parts["bias"]),
        GoldenBatch(states=parts["golden_states"], logits=parts["golden_logits"]),
        MODEL,
    )
    with pytest.raises(
        StoreError,
        match=r"head.safetensors of store mine does not give the model's logits: the logit of "
        r"token \d+ of golden state \d is .*, the model gave .*; run the extraction",
    ):
        load(content)


def test_a_nan_in_the_weight_is_told():
    head = random_head()
    weight = head.weight.clone()
    weight[3, 4] = math.nan
    content = save_head(SavedHead(weight=weight), golden_batch(head), MODEL)
    with pytest.raises(StoreError, match="token 3 of golden state 0 is nan"):
        load(content)


@pytest.mark.parametrize("seed", range(20))
def test_no_flipped_bit_goes_unnoticed(seed):
    head = random_head(bias=True, dtype=torch.bfloat16)
    content = bytearray(save_head(head, golden_batch(head), MODEL))
    data = 8 + int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(seed)
    content[rng.integers(data, len(content))] ^= 1 << rng.integers(8)
    with pytest.raises(
        StoreError, match=r"head.safetensors of store mine is damaged: it is not what"
    ):
        load(bytes(content))


@pytest.mark.parametrize("length", [0, 7, 8, 100, -1])
def test_a_file_that_was_cut_is_damaged(length):
    content = save_head(random_head(), golden_batch(random_head()), MODEL)
    with pytest.raises(StoreError, match=r"head.safetensors of store mine is damaged"):
        load(content[:length])


def test_another_shape_of_the_same_bytes_is_damaged():
    head = random_head(vocab=50, d_model=16)
    content = save_head(head, golden_batch(head), MODEL).replace(b"[50,16]", b"[16,50]")
    with pytest.raises(StoreError, match=r"damaged: it is not what was written"):
        load(content)


def test_a_file_of_something_else_is_damaged(tmp_path):
    save_file({"weight": torch.zeros(2, 2)}, tmp_path / "other.safetensors")
    with pytest.raises(StoreError, match=r"head.safetensors of store mine is damaged"):
        load((tmp_path / "other.safetensors").read_bytes())


def test_the_head_of_another_model_is_refused():
    head = random_head()
    content = save_head(head, golden_batch(head), MODEL)
    with pytest.raises(StoreError, match=r"of the model 555555555555, its states are of 666666"):
        load(content, "6" * 64)


def test_a_newer_version_is_refused(monkeypatch):
    monkeypatch.setattr(head_module, "VERSION", 2)
    content = save_head(random_head(), golden_batch(random_head()), MODEL)
    monkeypatch.undo()
    with pytest.raises(StoreError, match=r"has version 2, this trajdiag reads 1; use the version"):
        load(content)
