"""How checkpoints of the families that transformers implements are opened, and what is refused."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.models.tiny_native import FAMILIES, LOOPS, opened, tiny
from trajdiag.errors import CheckpointError, NonFiniteError
from trajdiag.models.base import logits
from trajdiag.models.native import NativeModel

IDS = torch.randint(0, 50, (3, 11), generator=torch.Generator().manual_seed(1))
"""Rows longer than the tiny models' attention windows."""
WEIGHTS = "model.safetensors"
HEADS = {
    "dory": "lm_head.weight",
    "hrm_text": "lm_head.weight",
    "inkling2_loop_text": "model.llm.unembed.weight",
}
"""The head's name in the file, which is not always its name in the module."""
LARGE: dict[str, dict[str, Any]] = {
    "dory": {
        "intermediate_size": 2048,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
    },
    "hrm_text": {"num_hidden_layers": 14, "intermediate_size": 2048},
    "inkling2_loop_text": {
        "moe_intermediate_size": 640,
        "layer_types": ["hybrid_sliding", "hybrid"] * 12,
    },
}
"""What makes a model of about a hundred million parameters, with `hidden_size` 512."""
MEASURED = """
import sys, torch
from pathlib import Path
from tests.models.tiny_native import opened

def kibibytes(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key))

family, small, large = sys.argv[1:]
opened(family, Path(small))  # What importing takes is not the weights'.
for dtype in (torch.bfloat16, torch.float32):  # The highest mark rises only with the larger.
    before = kibibytes("VmRSS")
    model = opened(family, Path(large), dtype)
    weights = sum(tensor.nbytes for tensor in model.network.parameters()) / 1024
    print((kibibytes("VmHWM") - before) / weights)
    del model
"""


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(family, tmp_path_factory.mktemp(family))


@pytest.fixture(scope="module")
def model(family: str, folder: Path) -> NativeModel:
    return opened(family, folder)


def test_the_record_has_the_hash_of_the_stored_tensors(folder: Path, model: NativeModel) -> None:
    digest = hashlib.sha256()
    for name, tensor in sorted(load_file(folder / WEIGHTS).items()):
        digest.update(json.dumps([name, "F32", list(tensor.shape)]).encode())
        digest.update(tensor.numpy().tobytes())
    assert model.record.sha256 == digest.hexdigest()


@pytest.mark.parametrize(
    ("stored", "asked", "computed"),
    [
        (torch.bfloat16, None, torch.bfloat16),
        (torch.float16, None, torch.float32),
        (torch.float32, torch.bfloat16, torch.bfloat16),
        (torch.bfloat16, torch.float32, torch.float32),
    ],
)
def test_the_dtype_is_the_checkpoints_unless_it_is_asked_for(
    family: str,
    tmp_path: Path,
    stored: torch.dtype,
    asked: torch.dtype | None,
    computed: torch.dtype,
) -> None:
    model = opened(family, tiny(family, tmp_path, dtype=stored), asked)
    assert model.dtype == computed
    with torch.inference_mode():
        state = model.step(model.begin(IDS))
    assert model.hidden(state).dtype == computed
    assert logits(model, state).dtype == torch.float32


def test_nan_in_the_weights_is_named(family: str, tmp_path: Path) -> None:
    path = tiny(family, tmp_path) / WEIGHTS
    tensors = load_file(path)
    tensors[HEADS[family]][2, 3] = float("nan")
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(NonFiniteError, match=rf"{HEADS[family]} is not finite, first at \[2, 3\]"):
        opened(family, tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tensors, head: tensors.pop(head), "missing lm_head.weight"),
        (lambda tensors, head: tensors.update(more=torch.ones(2)), "unexpected more"),
        (lambda tensors, head: tensors.update({head: torch.ones(3, 32)}), "misshapen lm_head.weig"),
        (lambda tensors, head: tensors.update(more=torch.ones(2).char()), "more is I8"),
    ],
    ids=["missing", "unexpected", "misshapen", "whole numbers"],
)
def test_tensors_that_do_not_fit_are_named(
    family: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], change: Any, said: str
) -> None:
    path = tiny(family, tmp_path) / WEIGHTS
    tensors = load_file(path)
    change(tensors, HEADS[family])
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=said):
        opened(family, tmp_path)
    assert capfd.readouterr().err == ""


def test_more_layers_than_tensors_are_refused_before_they_are_built(
    family: str, tmp_path: Path
) -> None:
    path = tiny(family, tmp_path) / "config.json"
    content = json.loads(path.read_text())
    many = {"num_hidden_layers": 100_000, "num_layers_per_stack": 100_000}
    many |= {"layer_types": None, "n_recurrent_layers": None}
    path.write_text(json.dumps(content | {key: many[key] for key in many if key in content}))
    with pytest.raises(CheckpointError, match=r"0000 layers, but there are only \d+ tensors"):
        opened(family, tmp_path)


def test_only_safetensors_are_read(family: str, tmp_path: Path) -> None:
    path = tiny(family, tmp_path) / WEIGHTS
    torch.save(load_file(path), tmp_path / "pytorch_model.bin")
    path.unlink()
    with pytest.raises(CheckpointError, match="only safetensors are read"):
        opened(family, tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"hidden_size": "wide"}, "hidden_size"), ({"head_dim": 0}, "ZeroDivisionError")],
)
def test_a_config_that_transformers_refuses_is_one_line(
    family: str, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    path = tiny(family, tmp_path) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError, match=said) as caught:
        opened(family, tmp_path)
    assert "\n" not in str(caught.value)


def test_no_loops_are_refused(family: str, tmp_path: Path) -> None:
    path = tiny(family, tmp_path) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {LOOPS[family]: 0}))
    with pytest.raises(CheckpointError, match=r"from 1 to 4096, not 0|must be at least 1"):
        opened(family, tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("loops", 2**28, "must be a whole number from 1 to 4096, not 268435456"),
        ("loops", 10**400, "is too large"),
        *(
            ("max_position_embeddings", value, "max_position_embeddings")
            for value in ("64", [64], 0, -1, 1.5, True, 10**400)
        ),
        ("initializer_range", 10**400, r"initializer_range = 10+\.\.\. is too large"),
        ("pad_token_id", 2**40, "Padding_idx|pad_token_id"),
        (
            "dtype",
            "float8",
            r"unknown dtype 'float8'; existing: float32, bfloat16, float16, float64",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_numbers_that_cannot_be_run_are_named_in_one_line(
    family: str, folder: Path, tmp_path: Path, key: str, value: Any, said: str
) -> None:
    key = LOOPS[family] if key == "loops" else key
    content = json.loads((folder / "config.json").read_text()) | {key: value}
    (tmp_path / "config.json").write_text(json.dumps(content))
    (tmp_path / WEIGHTS).symlink_to(folder / WEIGHTS)
    with pytest.raises(CheckpointError, match=said) as caught:
        opened(family, tmp_path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_a_config_may_begin_with_a_byte_order_mark(
    family: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text((folder / "config.json").read_text(), "utf-8-sig")
    (tmp_path / WEIGHTS).symlink_to(folder / WEIGHTS)
    assert opened(family, tmp_path).record == opened(family, folder).record


def test_a_tied_head_that_differs_is_refused_and_names_both(family: str, tmp_path: Path) -> None:
    path = tiny(family, tmp_path) / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"tie_word_embeddings": True}))
    with pytest.raises(CheckpointError, match=r"ties the head, but lm_head\.w.* model\.embed_tok"):
        opened(family, tmp_path)


def test_opening_and_running_say_nothing(
    family: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = (
        "import sys, torch; from pathlib import Path; "
        "from tests.models.tiny_native import opened; "
        "model = opened(sys.argv[1], Path(sys.argv[2])); "
        "model.step(model.begin(torch.tensor([[1, 2, 3]])))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program, family, folder], check=True)
    assert capfd.readouterr() == ("", "")


@pytest.fixture(scope="module")
def large(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 MB in bfloat16, in many tensors, as large models have them."""
    sizes: dict[str, Any] = {"hidden_size": 512, "num_hidden_layers": 24, "vocab_size": 4000}
    folder = tmp_path_factory.mktemp(f"large-{family}")
    tiny(family, folder, dtype=torch.bfloat16, **sizes | LARGE[family])
    assert 150e6 < (folder / WEIGHTS).stat().st_size < 300e6
    return folder


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's process status")
def test_opening_holds_one_copy_of_the_weights(family: str, folder: Path, large: Path) -> None:
    """Of what is computed in, whether it is what the file holds or not."""
    command = [sys.executable, "-c", MEASURED, family, folder, large]
    measured = subprocess.run(command, check=True, capture_output=True, text=True)
    as_stored, widened = map(float, measured.stdout.split())
    assert as_stored <= 1.25
    assert widened <= 1.25
