import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.models.random_ouro import as_model, random_decoder
from tests.store.test_durable import MOUNT, can_mount
from trajdiag.errors import CheckpointError, NonFiniteError
from trajdiag.models.checkpoint import read_checkpoint, weights_sha256, write_checkpoint
from trajdiag.models.tracing import trace

CPU = torch.device("cpu")
QUERY = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture
def folder(tmp_path) -> Path:
    write_checkpoint(tmp_path / "model", random_decoder())
    return tmp_path / "model"


def change_tensors(folder: Path, **changes: torch.Tensor | None) -> None:
    """Rewrite model.safetensors with tensors replaced, added, or (None) left out."""
    tensors = load_file(folder / "model.safetensors") | changes
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, folder / "model.safetensors")


def change_config(folder: Path, **changes: object) -> None:
    content = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(content))


def assert_refused(folder: Path, message: str, error: type[Exception] = CheckpointError) -> None:
    with pytest.raises(error, match=message) as refusal:
        read_checkpoint(folder, CPU)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("gate", ["none", "linear", "mlp"])
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("shard", [None, 4000], ids=["whole", "sharded"])
def test_a_checkpoint_survives_a_round_trip(tmp_path, gate, tied, shard):
    decoder = random_decoder(gate=gate, tie_word_embeddings=tied, num_key_value_heads=2)
    write_checkpoint(tmp_path, decoder, max_shard_bytes=shard)
    assert (tmp_path / "model.safetensors").is_file() == (shard is None)
    read = read_checkpoint(tmp_path, CPU)
    assert read.decoder.config == decoder.config
    assert read.sha256 == weights_sha256(decoder)
    kept = read.decoder.state_dict()
    assert kept.keys() == decoder.state_dict().keys()
    assert all(torch.equal(kept[name], tensor) for name, tensor in decoder.state_dict().items())


def test_only_ouros_own_tensors_are_stored_where_the_gate_is_ouros(folder):
    names = {name.split(".layers.")[0] for name in load_file(folder / "model.safetensors")}
    assert names == {
        "model",
        "model.embed_tokens.weight",
        "model.norm.weight",
        "model.early_exit_gate.weight",
        "model.early_exit_gate.bias",
        "lm_head.weight",
    }


@pytest.mark.parametrize("gate", ["none", "mlp"])
def test_a_model_without_ouros_gate_stores_a_zero_one(tmp_path, gate):
    write_checkpoint(tmp_path, random_decoder(gate=gate))
    tensors = load_file(tmp_path / "model.safetensors")
    assert not tensors["model.early_exit_gate.weight"].any()
    assert tensors["model.early_exit_gate.weight"].shape == (1, 16)
    assert tensors["model.early_exit_gate.bias"].shape == (1,)
    extra = {name for name in tensors if name.startswith("trajdiag.")}
    wanted = {"hidden.weight", "hidden.bias", "output.weight", "output.bias"}
    assert extra == ({f"trajdiag.exit_gate.{name}" for name in wanted} if gate == "mlp" else set())


def test_config_tells_the_task_and_the_training(tmp_path):
    task = {"name": "mano", "parameters": {"modulus": 7}}
    write_checkpoint(tmp_path, random_decoder(), task=task, training={"steps": 3})
    section = read_checkpoint(tmp_path, CPU).config["trajdiag"]
    assert section == {"gate": "linear", "task": task, "training": {"steps": 3}}


def test_a_bfloat16_checkpoint_opens_in_bfloat16_or_exactly_in_float32(tmp_path):
    decoder = random_decoder(dtype="bfloat16").to(torch.bfloat16)
    write_checkpoint(tmp_path, decoder)
    assert read_checkpoint(tmp_path, CPU).decoder.head_weight.dtype == torch.bfloat16
    wide = read_checkpoint(tmp_path, CPU, torch.float32).decoder.head_weight
    assert torch.equal(wide, decoder.head_weight.float())


def test_float16_weights_open_in_float32(folder):
    halves = {n: t.half() for n, t in load_file(folder / "model.safetensors").items()}
    save_file(halves, folder / "model.safetensors")
    change_config(folder, dtype="float16")
    assert read_checkpoint(folder, CPU).decoder.head_weight.dtype == torch.float32


def test_dtype_is_the_weights_own_where_the_config_has_none(tmp_path):
    write_checkpoint(tmp_path, random_decoder().to(torch.bfloat16))
    change_config(tmp_path, dtype=None, torch_dtype=None)
    assert read_checkpoint(tmp_path, CPU).decoder.head_weight.dtype == torch.bfloat16


def test_sha256_depends_on_the_weights_alone(tmp_path):
    decoder = random_decoder()
    for name, shard in (("a", None), ("b", 3000)):
        write_checkpoint(tmp_path / name, decoder, max_shard_bytes=shard)
    a, b = (read_checkpoint(tmp_path / name, CPU).sha256 for name in "ab")
    assert a == b
    with torch.no_grad():
        decoder.head_weight[0, 0] += 1e-3
    assert weights_sha256(decoder) != a


def test_tied_weights_may_repeat_the_embedding_but_not_differ_from_it(tmp_path):
    decoder = random_decoder(tie_word_embeddings=True)
    write_checkpoint(tmp_path, decoder)
    embedding = load_file(tmp_path / "model.safetensors")["model.embed_tokens.weight"]
    change_tensors(tmp_path, **{"lm_head.weight": embedding.clone()})
    read = as_model(read_checkpoint(tmp_path, CPU).decoder)
    assert torch.equal(trace(read, [1, 2]).logits, trace(as_model(decoder), [1, 2]).logits)
    change_tensors(tmp_path, **{"lm_head.weight": embedding + 1})
    assert_refused(tmp_path, "ties the head, but lm_head.weight differs")


TENSOR_FAULTS = {
    "missing": ({QUERY: None}, f"missing {QUERY}"),
    "missing head": ({"lm_head.weight": None}, "missing lm_head.weight"),
    "missing gate": ({"model.early_exit_gate.bias": None}, "missing model.early_exit_gate.bias"),
    "extra": ({"model.extra.weight": torch.ones(2)}, "unexpected model.extra.weight"),
    "extra bias": ({QUERY.replace("weight", "bias"): torch.ones(16)}, "unexpected .*q_proj.bias"),
    "misshapen": ({QUERY: torch.ones(16, 8)}, rf"misshapen {QUERY} \[16, 8\], not \[16, 16\]"),
    "scalar": ({"model.norm.weight": torch.tensor(1.0)}, r"misshapen model.norm.weight \[\]"),
    "integers": ({QUERY: torch.ones(16, 16, dtype=torch.int8)}, f"not floating point {QUERY} I8"),
}


@pytest.mark.parametrize(("changes", "message"), TENSOR_FAULTS.values(), ids=TENSOR_FAULTS.keys())
def test_tensors_that_do_not_fit_are_named(folder, changes, message):
    change_tensors(folder, **changes)
    assert_refused(folder, message)


def test_all_faults_are_named_at_once_and_long_lists_are_cut(folder):
    change_config(folder, num_hidden_layers=3, layer_types=None)
    change_tensors(folder, **{"model.extra.weight": torch.ones(2)})
    assert_refused(folder, "missing model.layers.2.*and 6 more; unexpected model.extra.weight")


def test_more_layers_than_tensors_are_refused_before_they_are_built(folder):
    change_config(folder, num_hidden_layers=10**8, layer_types=None)
    assert_refused(folder, "num_hidden_layers = 100000000, but there are only 27 tensors")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_weight_that_is_not_finite_is_named_with_its_place(folder, value):
    weight = load_file(folder / "model.safetensors")[QUERY]
    weight[3, 5] = value
    change_tensors(folder, **{QUERY: weight})
    assert_refused(folder, rf"{QUERY} is not finite, first at \[3, 5\]", NonFiniteError)


def test_a_decoder_that_is_not_finite_is_not_written(tmp_path):
    decoder = random_decoder()
    with torch.no_grad():
        decoder.head_weight[1, 2] = torch.nan
    with pytest.raises(NonFiniteError, match=r"lm_head.weight is not finite, first at \[1, 2\]"):
        write_checkpoint(tmp_path / "model", decoder)
    assert list((tmp_path / "model").iterdir()) == []


DAMAGE = {
    "empty": lambda whole: b"",
    "header only in part": lambda whole: whole[:100],
    "last byte lost": lambda whole: whole[:-1],
    "half": lambda whole: whole[: len(whole) // 2],
    "bytes appended": lambda whole: whole + b"x",
    "endless header": lambda whole: struct.pack("<Q", 2**62) + whole[8:],
    "not safetensors": lambda whole: b"PK\x03\x04" + whole,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_file_is_refused_by_name(folder, damage):
    file = folder / "model.safetensors"
    file.write_bytes(damage(file.read_bytes()))
    assert_refused(folder, "model.safetensors is not a whole safetensors file")


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00", "[" * 100_000])
def test_a_config_that_is_not_a_json_object_is_refused(folder, text):
    (folder / "config.json").write_text(text)
    assert_refused(folder, "config.json")


def test_a_config_that_is_not_text_is_refused(folder):
    (folder / "config.json").write_bytes(b"\xff\xfe\x80")
    assert_refused(folder, "config.json is not valid JSON")


def test_a_folder_without_config_or_weights_is_refused(folder):
    (folder / "model.safetensors").unlink()
    assert_refused(folder, "has neither model.safetensors nor model.safetensors.index.json")
    (folder / "config.json").unlink()
    assert_refused(folder, "is not a checkpoint: it has no config.json")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickles_are_never_read(folder, name):
    (folder / "model.safetensors").rename(folder / name)
    assert_refused(folder, f"{name}; only safetensors are read")


@pytest.fixture
def sharded(tmp_path) -> Path:
    write_checkpoint(tmp_path / "sharded", random_decoder(), max_shard_bytes=4000)
    return tmp_path / "sharded"


def change_weight_map(folder: Path, **changes: object) -> None:
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"] |= changes
    path.write_text(json.dumps(index))


def test_a_lost_shard_is_named(sharded):
    lost = sorted(sharded.glob("*.safetensors"))[1]
    lost.unlink()
    assert_refused(sharded, f"lacks {lost.name}, which model.safetensors.index.json names")


def test_an_index_that_disagrees_with_its_shards_is_refused(sharded):
    first, second = sorted(sharded.glob("*.safetensors"))[:2]
    held = sorted(load_file(first))[0]
    change_weight_map(sharded, **{held: second.name})
    assert_refused(sharded, f"{second.name} lacks {held}")


def test_a_tensor_that_the_index_does_not_name_is_refused(sharded):
    first = min(sharded.glob("*.safetensors"))
    save_file(load_file(first) | {"stray": torch.ones(1)}, first)
    assert_refused(sharded, f"{first.name} holds stray")


@pytest.mark.parametrize("where", ["../model.safetensors", "/etc/model.safetensors", 3])
def test_an_index_cannot_lead_out_of_its_folder(sharded, where):
    change_weight_map(sharded, **{QUERY: where})
    assert_refused(sharded, f"{QUERY} is in .*, not a file name")


def test_an_index_cannot_name_a_pickle(sharded):
    change_weight_map(sharded, **{QUERY: "pytorch_model.bin"})
    assert_refused(sharded, "only safetensors are read, not pytorch_model.bin")


@pytest.mark.parametrize("text", ["{", "{}", '{"weight_map": []}'])
def test_a_damaged_index_is_refused(sharded, text):
    (sharded / "model.safetensors.index.json").write_text(text)
    assert_refused(sharded, "model.safetensors.index.json")


FULL = """
import sys
from pathlib import Path
from tests.models.random_ouro import random_decoder
from trajdiag.errors import OutOfSpaceError
from trajdiag.models.checkpoint import write_checkpoint
folder = Path(sys.argv[1])
write_checkpoint(folder / "model", random_decoder())
earlier = (folder / "model" / "model.safetensors").read_bytes()
(folder / "filling").write_bytes(bytes(2**20 - len(earlier) - 2**14))
try:
    write_checkpoint(folder / "model", random_decoder(seed=1))
except OutOfSpaceError as error:
    print(error)
assert sorted(p.name for p in (folder / "model").iterdir()) == ["config.json", "model.safetensors"]
assert (folder / "model" / "model.safetensors").read_bytes() == earlier
"""


@pytest.mark.skipif(not can_mount(), reason="may not mount a small file system")
def test_a_full_disk_is_said_and_leaves_the_earlier_checkpoint(tmp_path):
    command = (
        f'mount -t tmpfs -o size=1m none {tmp_path} && exec {sys.executable} -c "$1" {tmp_path}'
    )
    done = subprocess.run([*MOUNT, command, "sh", FULL], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"no space left while writing {tmp_path}/model/model.safetensors")


def test_writing_again_replaces_whole_files_and_leaves_no_others(folder):
    other = random_decoder(seed=1)
    write_checkpoint(folder, other)
    assert read_checkpoint(folder, CPU).sha256 == weights_sha256(other)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
