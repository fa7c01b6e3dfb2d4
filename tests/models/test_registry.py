import json

import pytest
import torch

from tests.models.random_ouro import random_decoder
from tests.models.test_reference import REFERENCE
from tests.models.tiny_tokenizer import write_tokenizer
from trajdiag.errors import CheckpointError, ConfigError, UnknownNameError
from trajdiag.models.checkpoint import weights_sha256, write_checkpoint
from trajdiag.models.config import OuroConfig
from trajdiag.models.registry import create_model, load_model, shipped_models

KNOWN = "dory, hrm_text, huginn_raven, inkling2_loop_text, ouro"


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
    with pytest.raises(UnknownNameError, match=r"unknown model 'yours'; existing: .*mine.*ouro-1"):
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
    with pytest.raises(CheckpointError, match=rf"model_type {model_type!r} is not.*: {KNOWN}$"):
        load_model(tmp_path)


def test_remote_code_is_never_run(tmp_path):
    write_checkpoint(tmp_path, random_decoder())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "modeling.py").write_text("raise SystemExit('run')")
    config["auto_map"] = {"AutoModelForCausalLM": "modeling.Model"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_model(tmp_path, device="cpu").record.family == "ouro"
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "looped"}))
    with pytest.raises(CheckpointError, match=f"{KNOWN}; the code that auto_map names is never"):
        load_model(tmp_path)


def test_the_first_of_the_places_that_bear_a_name_is_opened(tmp_path, monkeypatch):
    name = shipped_models()[0]
    shipped = load_model(name).record.sha256
    monkeypatch.chdir(tmp_path)
    for folder in (name, "ouro-1.4b", "cache/checkpoints/ouro-1.4b", "cache/checkpoints/huginn"):
        write_checkpoint(tmp_path / folder, random_decoder())
    assert load_model(name).record.sha256 == shipped
    assert load_model(f"./{name}").record.sha256 != shipped
    assert load_model("ouro-1.4b").record.source == "local"
    assert load_model("huginn").record.source == "cache"


def test_only_the_hub_has_revisions():
    with pytest.raises(ConfigError, match=r"from the hub, and .*ouro-tiny is not from there"):
        load_model(REFERENCE, revision="main")


@pytest.mark.parametrize("start", ["ones", "noise", "noise:", "noise:x", "noise:-1", "noise:07"])
def test_an_initial_state_is_spelt_right(start):
    with pytest.raises(ConfigError, match="an initial state is zeros or noise:SEED"):
        load_model(REFERENCE, initial_state=start)


def test_an_initial_state_is_for_those_that_have_one():
    with pytest.raises(
        ConfigError, match="is for huginn_raven models: ouro-tiny is of family ouro"
    ):
        load_model(REFERENCE, initial_state="noise:7")


def test_a_tokenizer_in_the_folder_comes_with_the_model(tmp_path):
    write_checkpoint(tmp_path, random_decoder())
    write_tokenizer(tmp_path, ["<eos>", "a", "b"])
    assert load_model(tmp_path, device="cpu").tokenizer.encode("b a") == [2, 1]
    write_tokenizer(tmp_path, [f"t{i}" for i in range(14)])
    with pytest.raises(CheckpointError, match="'t13' = 13, but the model has a vocabulary of 13"):
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


def test_a_folder_without_a_model_that_hides_the_hubs_is_said_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("ouro-1.4b", "someone/looped"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("ouro-1.4b", "ouro-1.4b/"):
        with pytest.raises(
            CheckpointError, match=r"folder ouro-1\.4b .* hides .*give --model ByteDance/Ouro-1\.4B"
        ):
            load_model(name)
    with pytest.raises(CheckpointError, match=r"folder someone/looped .* hides .*: rename it"):
        load_model("someone/looped")
    with pytest.raises(CheckpointError, match=r"is not a checkpoint: it has no config\.json"):
        load_model(tmp_path / "ouro-1.4b")


@pytest.mark.parametrize("name", ["", "x" * 300, "x/" * 4000, "no\0name"])
def test_what_no_folder_is_called_is_an_unknown_name(tmp_path, monkeypatch, name):
    write_checkpoint(tmp_path, random_decoder())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownNameError, match="unknown model"):
        load_model(name)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://huggingface.co/ByteDance/Ouro-1.4B", "give --model ByteDance/Ouro-1.4B$"),
        ("https://hf.co/a/b/", "give --model a/b$"),
        ("https://huggingface.co/a/b/tree/v2", "give --model a/b, and extract with --revision v2$"),
        ("hf://a/b", "give --model a/b$"),
        ("https://example.org/a/b", r"is a folder or a hub id \(owner/name\), not an address"),
    ],
)
def test_an_address_is_answered_with_the_id_to_use(address, said):
    with pytest.raises(ConfigError, match=said):
        load_model(address)


@pytest.mark.parametrize("revision", ["", " ", "a\0b", "a\nb", "x" * 300])
def test_what_no_revision_is_called_is_refused(revision):
    with pytest.raises(ConfigError, match="a revision is a branch, a tag or a commit, not '"):
        load_model("ouro-1.4b", revision=revision)


def test_a_config_may_begin_with_a_byte_order_mark(tmp_path):
    write_checkpoint(tmp_path, random_decoder())
    path = tmp_path / "config.json"
    path.write_text(path.read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert load_model(tmp_path, device="cpu").record.family == "ouro"
