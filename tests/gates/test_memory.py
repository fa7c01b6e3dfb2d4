"""Fitting a gate from disk: its memory is the budget's, however many examples there are."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trajdiag.store.from_arrays import from_arrays

ROOT = Path(__file__).parents[2]
LOOPS, D_MODEL = 4, 256
PEAK_MIB = """
import sys
from trajdiag.gates.frozen_fit import fit_gate
fit_gate(sys.argv[1], kind="linear", epochs=1, memory=0.01, cache_dir=sys.argv[2])
status = open("/proc/self/status").read()
print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)
"""


def peak_mib(folder: Path, examples: int) -> float:
    """The most memory that a process ever held while it fitted a gate, file pages included."""
    rng = np.random.default_rng(0)
    store = from_arrays(
        folder / f"{examples}.zarr",
        hidden=rng.normal(size=(examples, LOOPS, D_MODEL)).astype(np.float32),
        logits=rng.normal(size=(examples, LOOPS, 3)).astype(np.float32),
        target=rng.integers(0, 3, examples),
    )
    command = [sys.executable, "-c", PEAK_MIB, str(store.path), str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_peak_memory_does_not_grow_with_the_number_of_examples(tmp_path: Path):
    small, large = 24_000, 96_000
    growth = peak_mib(tmp_path, large) - peak_mib(tmp_path, small)
    states = (large - small) * LOOPS * D_MODEL * 4 / 2**20
    # what grows is columns, and pages of chunk files that are let go a moment later: .14 to .22
    assert growth < 0.3 * states
