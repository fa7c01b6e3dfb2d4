"""Ouro at its released size, with random weights: 8 questions on a small machine.

Needs 3 GB of disk and about 4 GiB of memory, and takes minutes: `scripts/test -m slow`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trajdiag.store.reader import Store

ROOT = Path(__file__).parents[2]

EXTRACT = """
import sys, time
from pathlib import Path
from trajdiag.cli import main
began = time.monotonic()
code = main(sys.argv[1:])
# the kernel's own mark: ru_maxrss inherits the parent's
peak = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmHWM"))
print(code, int(peak.split()[1]) * 1024, time.monotonic() - began, file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_8_questions_take_at_most_half_again_the_memory_of_the_weights(tmp_path, capsys):
    folder = tmp_path / "ouro-random"
    subprocess.run([sys.executable, ROOT / "scripts" / "make-random-ouro", folder], check=True)
    weights = (folder / "model.safetensors").stat().st_size
    assert 2.8e9 < weights < 2.9e9
    options = ["--task-options.fit", "0", "--task-options.val", "4", "--task-options.test", "4"]
    command = ["extract", "--model", str(folder), *options]
    words = [sys.executable, "-c", EXTRACT, *command]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code, peak, seconds = done.stderr.splitlines()[-1].split()
    with capsys.disabled():
        print(f"\n{seconds} s, peak {int(peak) / weights:.3f} of the weights ({weights:,} bytes)")
    assert code == "0", done.stderr
    assert int(peak) <= 1.5 * weights
    store = Store.open(tmp_path / done.stdout.strip())
    assert (len(store), store.loops, store.d_model, store.classes) == (8, 4, 2048, 7)
    assert store.record.store_dtype == "bfloat16"
    assert store.numpy("vocabulary/logits").shape == (8, 4, 49152)
