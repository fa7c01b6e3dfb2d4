import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.models.random_huginn import as_model, open_folder, random_decoder, write_folder
from trajdiag.errors import CheckpointError, NonFiniteError
from trajdiag.models.tracing import trace

REFERENCE = Path(__file__).parent / "reference" / "huginn-tiny"
QKV = "transformer.core_block.0.attn.Wqkv.weight"
HEAD = "lm_head.weight"
EMBEDDING = "transformer.wte.weight"


def refusal(folder: Path, error: type[Exception] = CheckpointError) -> str:
    with pytest.raises(error) as caught:
        open_folder(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("shard", [None, 4000], ids=["whole", "sharded"])
def test_a_checkpoint_opens_as_what_was_written(tmp_path, tied, shard):
    decoder = random_decoder(tie_embeddings=tied, bias=True)
    model = open_folder(write_folder(tmp_path, decoder, max_shard_bytes=shard))
    assert (tmp_path / "model.safetensors").is_file() == (shard is None)
    assert model.decoder.config == decoder.config
    assert torch.equal(trace(model, [1, 2]).logits, trace(as_model(decoder), [1, 2]).logits)


def test_the_record_says_what_was_opened(tmp_path):
    folder = write_folder(tmp_path / "mine", random_decoder())
    record = open_folder(folder, initial_state="noise:5").record
    assert (record.name, record.family, record.source) == ("mine", "huginn_raven", "local")
    assert record.initial_state == "noise:5"
    assert record.config == json.loads((folder / "config.json").read_text())
    sharded = write_folder(tmp_path / "other", random_decoder(), max_shard_bytes=3000)
    assert open_folder(sharded).record.sha256 == record.sha256
    changed = write_folder(tmp_path / "third", random_decoder(seed=1))
    assert open_folder(changed).record.sha256 != record.sha256


def test_a_tied_head_may_repeat_the_embedding_but_not_differ_from_it(tmp_path):
    decoder = random_decoder()
    head = decoder.head_weight.detach().clone()
    model = open_folder(write_folder(tmp_path / "same", decoder, tensors={HEAD: head}))
    assert torch.equal(trace(model, [1, 2]).logits, trace(as_model(decoder), [1, 2]).logits)
    other = write_folder(tmp_path / "other", decoder, tensors={HEAD: head + 1})
    assert f"{HEAD} differs from {EMBEDDING}" in refusal(other)


@pytest.mark.parametrize("table", [None, torch.full((1, 64, 1, 5, 2), math.nan)])
def test_the_stored_rotary_table_is_optional_and_never_read(tmp_path, table):
    reference = open_folder(REFERENCE)
    tensors = load_file(REFERENCE / "model.safetensors")
    del tensors["freqs_cis"]
    if table is not None:
        tensors["freqs_cis"] = table
    save_file(tensors, tmp_path / "model.safetensors")
    shutil.copy(REFERENCE / "config.json", tmp_path)
    model = open_folder(tmp_path)
    assert torch.equal(trace(model, [3, 1, 2]).logits, trace(reference, [3, 1, 2]).logits)
    assert model.record.sha256 == reference.record.sha256


def test_bfloat16_checkpoints_open_in_bfloat16_or_exactly_in_float32(tmp_path):
    decoder = random_decoder(dtype="bfloat16").to(torch.bfloat16)
    folder = write_folder(tmp_path, decoder)
    assert open_folder(folder).dtype == torch.bfloat16
    wide = open_folder(folder, torch.float32).decoder.head_weight
    assert torch.equal(wide, decoder.head_weight.float())


@pytest.mark.parametrize(
    ("stored", "keys", "opened"),
    [
        (torch.float16, {"dtype": "float16"}, torch.float32),
        (torch.float64, {}, torch.float32),
        (torch.bfloat16, {}, torch.bfloat16),
        (torch.float32, {"torch_dtype": "bfloat16"}, torch.bfloat16),
    ],
)
def test_dtype_is_the_configs_else_the_weights(tmp_path, stored, keys, opened):
    folder = write_folder(tmp_path, random_decoder().to(stored), **keys)
    assert open_folder(folder).dtype == opened


def test_a_padded_vocabulary_is_the_models(tmp_path):
    folder = write_folder(tmp_path, random_decoder(), vocab_size=11, padded_vocab_size=13)
    assert open_folder(folder).vocab_size == 13


TENSOR_FAULTS = {
    "missing": ({QKV: None}, f"missing {QKV}"),
    "missing bias": (
        {"transformer.coda.0.attn.qk_bias": None},
        "missing transformer.coda.0.attn.qk_bias",
    ),
    "extra": ({"transformer.extra.weight": torch.ones(2)}, "unexpected transformer.extra.weight"),
    "misshapen": ({QKV: torch.ones(36, 8)}, f"misshapen {QKV} [36, 8], not [36, 12]"),
}


@pytest.mark.parametrize(("changes", "message"), TENSOR_FAULTS.values(), ids=TENSOR_FAULTS.keys())
def test_tensors_that_do_not_fit_are_named(tmp_path, changes, message):
    assert message in refusal(write_folder(tmp_path, random_decoder(), tensors=changes))


def test_an_untied_head_must_be_there(tmp_path):
    folder = write_folder(tmp_path, random_decoder(), tie_embeddings=False)
    assert f"missing {HEAD}" in refusal(folder)


def test_an_adapter_bias_that_the_config_asks_for_must_be_there(tmp_path):
    message = refusal(write_folder(tmp_path, random_decoder(), bias=True))
    assert "missing transformer.adapter.bias" in message


def test_more_layers_than_tensors_are_refused_before_they_are_built(tmp_path):
    folder = write_folder(tmp_path, random_decoder(), n_layers_in_coda=10**7)
    assert "10000003 layers, but there are only" in refusal(folder)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_weight_that_is_not_finite_is_named(tmp_path, value):
    folder = write_folder(tmp_path, random_decoder())
    tensors = load_file(folder / "model.safetensors")
    tensors[QKV][3, 4] = value
    save_file(tensors, folder / "model.safetensors")
    assert f"weight {QKV} is not finite, first at [3, 4]" in refusal(folder, NonFiniteError)


def renamed(decoder, old: str, new: str | None) -> dict[str, torch.Tensor | None]:
    """The changes that rename every tensor with `old` in its name, or drop it."""
    changes: dict[str, torch.Tensor | None] = {}
    for name, tensor in decoder.state_dict().items():
        if old in name:
            changes[name] = None
            if new is not None:
                changes[name.replace(old, new)] = tensor.clone()
    return changes


RETROFITS = {
    "pre-norm blocks": ("norm_4", None, "no norm_4.weight"),
    "Llama norms": ("norm_1", "input_layernorm", "have input_layernorm.weight"),
    "Llama projections": ("attn.Wqkv", "attn.c_qkv", "have attn.c_qkv.weight"),
    "Llama tree": ("transformer.", "model.layers.", "no tensor transformer.core_block.0"),
}


@pytest.mark.parametrize(("old", "new", "reason"), RETROFITS.values(), ids=RETROFITS.keys())
def test_retrofitted_models_of_the_same_model_type_are_refused_by_name(tmp_path, old, new, reason):
    decoder = random_decoder()
    # Their configurations differ too: the tensors are what tells.
    folder = write_folder(
        tmp_path, decoder, tensors=renamed(decoder, old, new), rope_scaling={"rope_type": "llama3"}
    )
    message = refusal(folder)
    assert "model_type is huginn_raven, but the blocks are not Huginn's" in message
    assert reason in message and "retrofitted" in message
