"""Training from a configuration to a checkpoint: it learns, resumes to the bit, and refuses."""

import dataclasses
import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from trajdiag.errors import (
    CheckpointError,
    ConfigError,
    NonFiniteError,
    OutOfSpaceError,
    UnknownNameError,
)
from trajdiag.models.registry import load_model
from trajdiag.tasks.registry import make_task
from trajdiag.training.config import TrainConfig, train_config
from trajdiag.training.evaluation import evaluate
from trajdiag.training.trainer import STATE, train

TINY: dict[str, Any] = {
    "loops": 2,
    "d_model": 16,
    "heads": 2,
    "feed_forward": 32,
    "steps": 60,
    "batch": 32,
    "save_every": 20,
    "task_options": {"modulus": 3, "max_difficulty": 2, "fit": 30, "val": 30, "test": 300},
}


def tiny(cache: Path, **options: Any) -> TrainConfig:
    return train_config(**(TINY | {"name": "tiny", "cache_dir": str(cache)} | options))


def quiet(line: str) -> None:
    del line


def test_a_tiny_model_learns_its_task_and_names_it(tmp_path: Path) -> None:
    config = tiny(tmp_path, steps=400, task_options={"modulus": 3, "max_difficulty": 1})
    folder = train(config, quiet)
    model = load_model(folder, device="cpu")
    assert not model.has_gate
    named = model.record.config["trajdiag"]["task"]
    task = make_task(named["name"], **named["parameters"])
    accuracy = evaluate(model, task.examples()["test"], task.class_ids)
    assert accuracy.overall[-1] == 1.0


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_joint_gate_is_trained_and_survives_the_round_trip(tmp_path: Path, kind: str) -> None:
    model = load_model(train(tiny(tmp_path, objective="joint", gate=kind), quiet), device="cpu")
    assert model.has_gate
    state = model.step(model.begin(torch.tensor([[7, 3, 1, 2, 6]])))
    gate_logit = model.gate_logit(state)
    assert gate_logit is not None and gate_logit.abs().min() > 0


def test_progress_tells_accuracy_by_difficulty_and_the_val_accuracy(tmp_path: Path) -> None:
    lines: list[str] = []
    train(tiny(tmp_path, report_every=30, curriculum=False), lines.append)
    steps = [line for line in lines if line.startswith("step")]
    assert [line.split()[1] for line in steps] == ["30/60", "60/60"]
    assert all(re.search(r"right by difficulty  1: [01]\.\d\d  2: [01]\.\d\d", s) for s in steps)
    assert re.search(r"val accuracy by loop [01]\.\d{3} [01]\.\d{3}; ", lines[-1])


KILLED = """
import sys
from pathlib import Path
from tests.training.test_trainer import quiet, tiny
from trajdiag.training.trainer import train
train(tiny(Path(sys.argv[1]), steps=400, objective="joint"), quiet)
"""


def test_a_killed_training_resumes_to_the_same_bits(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    state = killed / "checkpoints" / "tiny" / STATE
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(killed)])
    try:
        deadline = time.monotonic() + 120
        while not state.exists() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert state.exists() and not (state.parent / "config.json").exists()
    lines: list[str] = []
    folder = train(tiny(killed, steps=400, objective="joint"), lines.append)
    assert re.match(r"going on from step \d+ of", lines[0])
    whole = train(tiny(tmp_path / "whole", steps=400, objective="joint"), quiet)
    for name in ("model.safetensors", "config.json"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", "model.safetensors"]


def test_bf16_trains_float32_weights(tmp_path: Path) -> None:
    folder = train(tiny(tmp_path, steps=20, precision="bf16"), quiet)
    weights = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


def test_a_complete_checkpoint_is_left_as_it_is(tmp_path: Path) -> None:
    folder = train(tiny(tmp_path), quiet)
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir()}
    lines: list[str] = []
    assert train(tiny(tmp_path, report_every=7), lines.append) == folder
    assert len(lines) == 1 and "complete already" in lines[0]
    assert {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir()} == before


def test_another_configuration_is_refused_by_the_options_that_differ(tmp_path: Path) -> None:
    folder = train(tiny(tmp_path), quiet)
    with pytest.raises(ConfigError, match=r"\(lr 0\.004 there, 0\.001 asked for; seed 0 there, 1 "):
        train(tiny(tmp_path, lr=1e-3, seed=1), quiet)
    before = load_file(folder / "model.safetensors")["lm_head.weight"]
    train(tiny(tmp_path, seed=1, overwrite=True), quiet)
    assert not torch.equal(before, load_file(folder / "model.safetensors")["lm_head.weight"])


def test_an_unfinished_training_of_another_configuration_is_refused(tmp_path: Path) -> None:
    lines: list[str] = []

    def stop(line: str) -> None:
        lines.append(line)
        if line.startswith("step 25"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tiny(tmp_path, report_every=25), stop)
    with pytest.raises(ConfigError, match="steps 60 there, 61 asked for"):
        train(tiny(tmp_path, steps=61), quiet)
    train(tiny(tmp_path), lines.append)
    assert lines[2].startswith("going on from step 20")


def test_a_damaged_training_state_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "tiny"
    folder.mkdir(parents=True)
    (folder / STATE).write_bytes(b"not a state")
    with pytest.raises(CheckpointError, match=r"training\.safetensors is not a training state"):
        train(tiny(tmp_path), quiet)


def test_a_full_disk_leaves_the_last_saved_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, synced = os.fsync, []

    def full(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 3:  # the first state and its folder are synced
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutOfSpaceError, match=r"no space left while writing .*safetensors"):
        train(tiny(tmp_path), quiet)
    monkeypatch.undo()
    folder = tmp_path / "checkpoints" / "tiny"
    assert [p.name for p in folder.iterdir()] == [STATE]
    lines: list[str] = []
    train(tiny(tmp_path), lines.append)
    assert lines[0].startswith("going on from step 20")


def test_a_foreign_checkpoint_is_not_touched(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CheckpointError, match="was not trained here"):
        train(tiny(tmp_path), quiet)


def test_a_diverging_loss_stops_with_the_step(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match=r"training loss is .* at step \d+; try an lr below"):
        train(tiny(tmp_path, lr=1e30, clip=1e30, warmup=0), quiet)
    assert not (tmp_path / "checkpoints" / "tiny" / "config.json").exists()


def test_what_cannot_be_trained_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown task"):
        train(tiny(tmp_path, task="sudoku", task_options={}), quiet)
    with pytest.raises(ConfigError, match="must be one folder's name"):
        train(tiny(tmp_path, name="a/b"), quiet)
    with pytest.raises(ConfigError, match="device 'abacus' cannot be used"):
        train(tiny(tmp_path, device="abacus"), quiet)


def test_nothing_is_removed_for_what_is_no_truth_value(tmp_path: Path) -> None:
    folder = train(tiny(tmp_path, steps=1), quiet)
    there = {path: path.read_bytes() for path in folder.iterdir()}
    for overwrite in ("no", "", 1, None):
        with pytest.raises(ConfigError, match="overwrite must be true or false, got"):
            train(tiny(tmp_path, steps=2, overwrite=overwrite), quiet)
        with pytest.raises(ConfigError, match="overwrite must be true or false, got"):
            train(dataclasses.replace(tiny(tmp_path), overwrite=overwrite), quiet)
    assert {path: path.read_bytes() for path in folder.iterdir()} == there
    with pytest.raises(ConfigError, match="config must be a TrainConfig, got 5"):
        train(5, quiet)  # pyright: ignore[reportArgumentType]


def test_the_number_of_threads_is_restored(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    train(dataclasses.replace(tiny(tmp_path, steps=1), threads=before + 1), quiet)
    assert torch.get_num_threads() == before
