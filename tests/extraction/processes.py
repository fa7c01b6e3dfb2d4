"""Extraction in processes of its own: a command in a folder that holds small_blocks.py."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SMALL_BLOCKS = '''"""A slow model in float32 and a task of 15 small blocks."""
import os
import time
from pathlib import Path

import torch

from tests.looped import Letters, Spiral
from trajdiag.store import schema

schema.BLOCK_EXAMPLES = 16


class Slow(Spiral):
    def __init__(self):
        super().__init__()
        self.pause = float(os.environ.get("PAUSE", "0.03"))

    def step(self, state):
        time.sleep(self.pause)
        return super().step(state)


class Fatal(Slow):
    """Ends its process soon after it has begun."""

    def step(self, state):
        if self.steps > 3:
            os._exit(1)
        return super().step(state)


class Few(Letters):
    """Three blocks."""

    name = "few"

    def __init__(self):
        super().__init__(fit=20, val=12, test=12)
'''
MODEL = ["--model", "small_blocks:Slow", "--task", "small_blocks:Letters"]
_SCHEDULERS = ("SLURM_", "RANK", "WORLD_SIZE", "TRAJDIAG_", "RAY_")


def begin(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """`trajdiag extract` of these words, begun in `folder`, in a process group of its own."""
    return program(folder, "-m", "trajdiag", "extract", *words, **environment)


def program(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """Python, begun with these words in `folder`."""
    (folder / "small_blocks.py").write_text(SMALL_BLOCKS, encoding="utf-8")
    plain = {key: value for key, value in os.environ.items() if not key.startswith(_SCHEDULERS)}
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env={**plain, "PYTHONPATH": f"{ROOT}:{folder}", "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed on stdout and stderr, once it has ended well."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out, err
