import pytest
import torch

from tests.models.random_ouro import random_decoder
from tests.models.test_reference import REFERENCE
from trajdiag.errors import CheckpointError, ConfigError, UnknownNameError
from trajdiag.models.checkpoint import weights_sha256, write_checkpoint
from trajdiag.models.config import OuroConfig
from trajdiag.models.registry import create_model, load_model, shipped_models


def test_a_folder_opens_and_its_record_tells_no_path():
    model = load_model(REFERENCE)
    record = model.record
    assert (record.name, record.family, record.source) == ("ouro-tiny", "ouro", "local")
    assert record.config["model_type"] == "ouro" and len(record.sha256) == 64
    assert str(REFERENCE.parent) not in repr(record)


def test_a_name_in_the_cache_opens(tmp_path):
    write_checkpoint(tmp_path / "checkpoints" / "mine", random_decoder(gate="none"))
    model = load_model("mine", cache_dir=tmp_path)
    assert (model.record.source, model.has_gate) == ("cache", False)


@pytest.mark.parametrize("name", shipped_models())
def test_every_shipped_model_opens(name):
    assert load_model(name).record.source == "shipped"


def test_an_unknown_name_lists_what_exists(tmp_path):
    write_checkpoint(tmp_path / "checkpoints" / "mine", random_decoder())
    with pytest.raises(UnknownNameError, match=r"unknown model 'yours'; existing: .*mine"):
        load_model("yours", cache_dir=tmp_path)


def test_a_file_is_not_a_model():
    with pytest.raises(CheckpointError, match="is a file; give the folder"):
        load_model(REFERENCE / "model.safetensors")


@pytest.mark.parametrize("model_type", ["llama", None])
def test_another_family_is_refused_by_name(tmp_path, model_type):
    write_checkpoint(tmp_path, random_decoder())
    config = tmp_path / "config.json"
    text = "null" if model_type is None else f'"{model_type}"'
    config.write_text(config.read_text().replace('"model_type": "ouro"', f'"model_type": {text}'))
    with pytest.raises(CheckpointError, match=rf"model_type {model_type!r} .*supported: ouro"):
        load_model(tmp_path)


@pytest.mark.parametrize("device", ["tpu9", "cuda:99"])
def test_a_device_that_cannot_be_had_is_refused(device):
    with pytest.raises(ConfigError, match=f"device '{device}'"):
        load_model(REFERENCE, device=device)


def test_an_unknown_dtype_lists_the_known_ones():
    with pytest.raises(ConfigError, match="existing: auto, float32, bfloat16"):
        load_model(REFERENCE, dtype="float16")


def test_a_seed_gives_the_same_weights_every_time():
    config = OuroConfig.from_sizes(vocab_size=11, d_model=16, layers=1, heads=2, loops=3)
    a, b, other = (weights_sha256(create_model(config, seed)) for seed in (0, 0, 1))
    assert a == b != other


def test_fresh_matrices_have_the_stated_spread():
    config = OuroConfig.from_sizes(
        vocab_size=64, d_model=64, layers=1, heads=2, loops=3, initializer_range=0.1
    )
    decoder = create_model(config, 0)
    assert decoder.model.embed_tokens.weight.std().item() == pytest.approx(0.1, rel=0.05)
    assert torch.equal(decoder.model.norm.weight, torch.ones(64))
