"""The script that writes a large random Ouro, at a small size."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.models.test_reference import REFERENCE
from trajdiag.models.checkpoint import read_checkpoint
from trajdiag.models.config import OuroConfig
from trajdiag.models.tokenizer import read_tokenizer

SCRIPT = Path(__file__).parents[2] / "scripts" / "make-random-ouro"
SIZES = {"hidden": 32, "intermediate": 88, "layers": 2, "heads": 4, "vocab": 400, "loops": 3}


def make(folder: Path, **sizes: int) -> subprocess.CompletedProcess:
    words = [f"--{name}={value}" for name, value in (SIZES | sizes).items()]
    command = [sys.executable, str(SCRIPT), str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("random") / "ouro"
    made = make(home)
    assert made.returncode == 0, made.stderr
    return home


def test_it_opens_as_a_checkpoint_of_the_sizes_asked_for(folder):
    read = read_checkpoint(folder, torch.device("cpu"))
    assert read.decoder.config == OuroConfig.from_sizes(
        vocab_size=400, d_model=32, layers=2, heads=4, loops=3, feed_forward=88, dtype="bfloat16"
    )
    weights = dict(read.decoder.named_parameters())
    assert all(weight.dtype == torch.bfloat16 for weight in weights.values())
    embedding = weights["model.embed_tokens.weight"].float()
    assert embedding.std().item() == pytest.approx(0.02, rel=0.05)
    assert (weights["model.norm.weight"] == 1).all()
    matrices = [weight.flatten()[:8] for weight in weights.values() if weight.ndim == 2]
    assert len({tuple(matrix.tolist()) for matrix in matrices}) == len(matrices)


def test_its_config_has_the_keys_of_a_published_one(folder):
    made = json.loads((folder / "config.json").read_text())
    published = json.loads((REFERENCE / "config.json").read_text(encoding="utf-8"))
    assert {"pad_token_id", "eos_token_id"} <= made.keys()
    assert "trajdiag" not in made
    assert made["architectures"] == published["architectures"]


def test_its_tokenizer_takes_any_text_and_stays_within_the_vocabulary(folder):
    tokenizer = read_tokenizer(folder)
    assert tokenizer is not None
    text = "".join(map(chr, range(32, 127))) + "\n(3 + 4) mod 7 = é"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert max(tokenizer.get_vocab().values()) < 400
    assert tokenizer.eos_token_id == 0 and 0 not in ids


def test_a_folder_that_holds_a_checkpoint_is_left_alone(folder):
    before = (folder / "model.safetensors").read_bytes()
    refusal = make(folder, seed=1)
    assert refusal.returncode == 2 and "holds a checkpoint already" in refusal.stderr
    assert (folder / "model.safetensors").read_bytes() == before
