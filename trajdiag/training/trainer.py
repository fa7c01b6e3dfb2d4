"""`trajdiag train`: from a configuration to a checkpoint, through kills and re-runs."""

import json
import time
from pathlib import Path
from typing import Any

import torch

from trajdiag.cachedir import checkpoints_folder
from trajdiag.errors import CheckpointError, ConfigError
from trajdiag.models.checkpoint import CONFIG, read_config, write_checkpoint
from trajdiag.models.config import trajdiag_section
from trajdiag.models.registry import load_model, named_device, shipped_models
from trajdiag.names import require_name, require_type
from trajdiag.progress import Progress
from trajdiag.store.durable import require_writable
from trajdiag.tasks.base import Task, TrainableTask
from trajdiag.tasks.registry import make_task
from trajdiag.training.config import TrainConfig
from trajdiag.training.evaluation import evaluate
from trajdiag.training.run import TrainingRun, saved_progress

STATE = "training.safetensors"
"""The file that a killed training goes on from; gone once the checkpoint is complete."""


def train(config: TrainConfig, progress: Progress = lambda line: None) -> Path:
    """Train a looped model on a synthetic task; gives the checkpoint's folder, in Ouro's format.

    Run again after a kill it goes on from the last saved state, to the same weights (bit for bit on
    one CPU and number of threads). A complete checkpoint of the same configuration is left as it
    is. Raises ConfigError for a configuration that cannot be run, and where the folder holds a
    checkpoint of another one, naming the options that differ; StoreError, before anything is
    trained, where the checkpoint cannot be written; NonFiniteError where the loss diverges.
    """
    require_type("config", config, TrainConfig)
    task = make_task(config.task, **config.task_options)
    if not isinstance(task, TrainableTask):
        raise ConfigError(f"task {config.task} has no training rows; trainable: mano, parity")
    folder = _folder(config)
    identity = json.loads(json.dumps(config.identity() | {"task_options": task.parameters()}))
    if config.overwrite:
        for name in (CONFIG, "model.safetensors", STATE):
            (folder / name).unlink(missing_ok=True)
    if _complete(folder, identity):
        progress(f"{folder} is complete already; --overwrite trains it again")
        return folder
    require_writable(folder)
    threads = torch.get_num_threads()
    torch.set_num_threads(config.threads)
    try:
        run = TrainingRun(config, task, named_device(config.device))
        _advance_to_end(run, folder / STATE, identity, progress)
        write_checkpoint(
            folder,
            run.decoder,
            task={"name": config.task, "parameters": task.parameters()},
            training={"config": identity},
        )
        (folder / STATE).unlink(missing_ok=True)
        _report_accuracy(folder, task, run.device, progress)
    finally:
        torch.set_num_threads(threads)
    return folder


def _advance_to_end(
    run: TrainingRun, state: Path, identity: dict[str, Any], progress: Progress
) -> None:
    config = run.config
    state.parent.mkdir(parents=True, exist_ok=True)
    if state.is_file():
        _refuse_difference(state.parent, saved_progress(state)["identity"], identity)
        run.load(state)
        progress(f"going on from step {run.step} of {state}")
    parameters = sum(p.numel() for p in run.decoder.parameters())
    progress(f"training {state.parent.name}: {parameters:,} parameters, {config.steps:,} steps")
    began, begun_at = time.monotonic(), run.step
    while run.step < config.steps:
        run.advance()
        if run.step % config.report_every == 0 or run.step == config.steps:
            pace = (run.step - begun_at) / (time.monotonic() - began)
            progress(f"{_status(run)}  {pace:.3g} steps/s")
        if run.step % config.save_every == 0 and run.step < config.steps:
            run.save(state, identity)


def _status(run: TrainingRun) -> str:
    first = run.task.min_difficulty
    right = "  ".join(f"{first + i}: {a:.2f}" for i, a in enumerate(run.accuracy.tolist()))
    return f"step {run.step}/{run.config.steps}  loss {run.loss:.3f}  right by difficulty  {right}"


def _report_accuracy(folder: Path, task: Task, device: torch.device, progress: Progress) -> None:
    examples = task.examples().get("val")
    if examples is None:
        return
    accuracy = evaluate(load_model(folder, device=str(device)), examples, task.class_ids)
    by_loop = " ".join(f"{a:.3f}" for a in accuracy.overall)
    last = zip(accuracy.difficulty, accuracy.by_difficulty[:, -1], strict=True)
    by_difficulty = "  ".join(f"{difficulty:g}: {a:.3f}" for difficulty, a in last)
    progress(f"val accuracy by loop {by_loop}; of the last loop by difficulty  {by_difficulty}")


def _folder(config: TrainConfig) -> Path:
    name = require_name("checkpoint", config.checkpoint_name)
    if name in shipped_models():
        raise ConfigError(f"{name} is a shipped checkpoint; train under another --name")
    folder = checkpoints_folder(config.cache_dir) / name
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; remove it, or train under another --name")
    held = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if "model.safetensors" in held and not held & {CONFIG, STATE}:
        raise CheckpointError(
            f"{folder} holds weights that were not trained here; train under another --name"
        )
    return folder


def _complete(folder: Path, identity: dict[str, Any]) -> bool:
    """Whether the checkpoint is there; ConfigError where it is one of another configuration."""
    if not (folder / CONFIG).is_file():
        return False
    training = trajdiag_section(read_config(folder)).get("training")
    if not isinstance(training, dict) or not isinstance(training.get("config"), dict):
        raise CheckpointError(
            f"{folder} holds a checkpoint that was not trained here; train under another --name"
        )
    _refuse_difference(folder, training["config"], identity)
    return True


def _refuse_difference(folder: Path, there: dict[str, Any], wanted: dict[str, Any]) -> None:
    differing = [
        f"{key} {there.get(key)!r} there, {wanted.get(key)!r} asked for"
        for key in sorted(there.keys() | wanted.keys())
        if there.get(key) != wanted.get(key)
    ]
    if differing:
        raise ConfigError(
            f"{folder} is of another configuration ({'; '.join(differing)}): "
            "train under another --name, or give --overwrite"
        )
