"""Peak memory of loading, measured from outside: each load in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trajdiag.models.checkpoint import read_checkpoint, write_checkpoint
from trajdiag.models.config import OuroConfig
from trajdiag.models.registry import create_model

LOAD = """
import sys
from pathlib import Path
import torch
from trajdiag.models.checkpoint import read_checkpoint

def peak():
    # Not ru_maxrss: that begins at the size of the process that started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024

before = peak()
dtype = getattr(torch, sys.argv[2])
decoder = read_checkpoint(Path(sys.argv[1]), torch.device("cpu"), dtype).decoder
assert all(weight.dtype == dtype for weight in decoder.parameters())
print((peak() - before) / sum(weight.nbytes for weight in decoder.parameters()))
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """78 million random weights: 156 MB in bfloat16, 312 MB in float32."""
    config = OuroConfig.from_sizes(
        vocab_size=2048, d_model=1024, layers=6, heads=16, loops=4, feed_forward=2816
    )
    decoder = create_model(config, 0)
    home = tmp_path_factory.mktemp("checkpoints")
    write_checkpoint(home / "float32 shards", decoder, max_shard_bytes=10**8)
    decoder.bfloat16()
    write_checkpoint(home / "bfloat16", decoder)
    return {path.name: path for path in home.iterdir()}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("stored", "dtype"),
    [("bfloat16", "bfloat16"), ("bfloat16", "float32"), ("float32 shards", "bfloat16")],
)
def test_loading_holds_the_weights_once(folders, stored, dtype):
    run = subprocess.run(
        [sys.executable, "-c", LOAD, str(folders[stored]), dtype],
        capture_output=True,
        text=True,
        check=True,
    )
    # Below 1, pages of the weights would not have been read, and nothing would be measured.
    assert 0.95 < float(run.stdout) < 1.25


def test_weights_outlive_their_files_replacement_and_writing_to_them_changes_no_file(tmp_path):
    config = OuroConfig.from_sizes(vocab_size=11, d_model=8, layers=1, heads=2, loops=2)
    write_checkpoint(tmp_path, create_model(config, 0))
    read = read_checkpoint(tmp_path, torch.device("cpu"))
    kept = read.decoder.head_weight.detach().clone()
    write_checkpoint(tmp_path, create_model(config, 1))
    assert torch.equal(read.decoder.head_weight, kept)
    again = read_checkpoint(tmp_path, torch.device("cpu"))
    with torch.no_grad():
        again.decoder.head_weight.zero_()
    assert read_checkpoint(tmp_path, torch.device("cpu")).sha256 == again.sha256
