"""One training under way: weights, optimiser and curriculum, stepped, saved and taken up again."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as serialized
from torch import Tensor

from trajdiag.errors import CheckpointError, ConfigError, NonFiniteError
from trajdiag.models.config import OuroConfig
from trajdiag.models.registry import create_model
from trajdiag.store.durable import write_file
from trajdiag.tasks.base import TrainableTask
from trajdiag.training.batch import TrainingBatch, pack
from trajdiag.training.config import TrainConfig
from trajdiag.training.objectives import make_objective
from trajdiag.training.schedule import (
    Curriculum,
    dense_weight,
    learning_rate,
    rows_by_difficulty,
)

_STREAM = 1
"""Sets the random numbers of training rows apart from those of a task's splits."""
_RECENT = 0.95
"""How much of the running accuracy each step keeps."""


class TrainingRun:
    """A training of `config` on `task`, before its first step.

    Each step draws from its own seed, so a run that is saved and taken up again at any step goes
    on as if it had not stopped.
    """

    def __init__(self, config: TrainConfig, task: TrainableTask, device: torch.device) -> None:
        self.config = config
        self.task = task
        self.device = device
        self.step = 0
        """Steps done."""
        self.loss = float("nan")
        """The last step's loss, nats."""
        self.decoder = create_model(_model_config(config, task), config.seed).to(device)
        self.curriculum = Curriculum.begin(config, task.min_difficulty, task.max_difficulty)
        bins = task.max_difficulty - task.min_difficulty + 1
        self.accuracy = torch.zeros(bins, device=device)
        """float32 [difficulty]: running training accuracy of the last loop."""
        self._objective = make_objective(
            config.objective,
            loops=config.loops,
            prior_kind=config.prior,
            lam=config.lam,
            beta=config.beta,
        )
        self._optimiser = _optimiser(config, self.decoder)

    def advance(self) -> None:
        """Do one step. Raises NonFiniteError where the loss has diverged."""
        config = self.config
        rng = np.random.default_rng([config.seed, self.step, _STREAM])
        rows = rows_by_difficulty(config, self.task.min_difficulty, self.curriculum.level)
        groups = self.task.training_batch(rng, rows)
        extra = dense_weight(config, self.step)
        batch = pack(groups, self.task.class_ids, extra > 0, self.device)
        for group in self._optimiser.param_groups:
            group["lr"] = learning_rate(config, self.step)
        self._optimiser.zero_grad()
        loss, logits = self._loss(batch, extra)
        self.loss = loss.item()
        if not np.isfinite(self.loss):
            raise NonFiniteError(
                f"the training loss is {self.loss} at step {self.step + 1}; "
                f"try an lr below {config.lr}"
            )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.decoder.parameters(), config.clip)
        self._optimiser.step()
        self.step += 1
        self._count(logits, batch)

    def save(self, path: Path, identity: dict[str, Any]) -> None:
        """Write all that `load` needs, on disk before the file bears its name. Raises
        OutOfSpaceError where the disk is full, StoreError where it cannot be written."""
        tensors = {"accuracy": self.accuracy}
        for name, parameter in self.decoder.named_parameters():
            moments = self._optimiser.state[parameter]
            tensors[f"weight/{name}"] = parameter.detach()
            tensors[f"exp_avg/{name}"] = moments["exp_avg"]
            tensors[f"exp_avg_sq/{name}"] = moments["exp_avg_sq"]
        progress = {"identity": identity, "step": self.step, "level": self.curriculum.level}
        on_cpu = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        write_file(path, serialized(on_cpu, {"progress": json.dumps(progress)}))

    def load(self, path: Path) -> None:
        """Go on where `save` left. Raises CheckpointError where the file is not of this run's
        shape."""
        progress = saved_progress(path)
        tensors = load_file(path, str(self.device))
        try:
            self.step = int(progress["step"])
            self.curriculum = Curriculum(level=int(progress["level"]), last=self.curriculum.last)
            self.accuracy.copy_(tensors["accuracy"])
            for name, parameter in self.decoder.named_parameters():
                parameter.data.copy_(tensors[f"weight/{name}"])
                self._optimiser.state[parameter] = {
                    "step": torch.tensor(float(self.step), device=self.device),
                    "exp_avg": tensors[f"exp_avg/{name}"],
                    "exp_avg_sq": tensors[f"exp_avg_sq/{name}"],
                }
        except (KeyError, RuntimeError) as error:
            raise CheckpointError(
                f"{path} does not fit this training ({error}); start over with --overwrite"
            ) from error

    def _loss(self, batch: TrainingBatch, dense: float) -> tuple[Tensor, Tensor]:
        """The loss, and the answers' last logits [row, vocab]."""
        bf16 = self.config.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bf16):
            states = self.decoder.read_packed(batch.groups, batch.read_at)
        # by decision, as objectives take them
        logits = self.decoder.head(states).transpose(0, 1)
        gate = self.decoder.gate(states)
        parts = [batch.rows, len(batch.target) - batch.rows]
        answers, labels = logits.split(parts)
        target, label = batch.target.split(parts)
        of_answers, of_labels = (None, None) if gate is None else gate.T.split(parts)
        loss = self._objective(answers, target, of_answers)
        if dense > 0 and len(label):
            loss = loss + dense * self._objective(labels, label, of_labels)
        return loss, answers[:, -1].detach()

    def _count(self, logits: Tensor, batch: TrainingBatch) -> None:
        """Bring the running accuracy and the curriculum up to date."""
        right = (logits.argmax(-1) == batch.target[: batch.rows]).float()
        bins = batch.difficulty - self.task.min_difficulty
        total = torch.zeros_like(self.accuracy).index_add_(0, bins, torch.ones_like(right))
        hits = torch.zeros_like(self.accuracy).index_add_(0, bins, right)
        recent = _RECENT * self.accuracy + (1 - _RECENT) * hits / total.clamp(min=1)
        self.accuracy = torch.where(total > 0, recent, self.accuracy)
        if self.curriculum.level < self.curriculum.last:
            hardest = self.accuracy[self.curriculum.level - self.task.min_difficulty]
            self.curriculum = self.curriculum.advance(hardest.item())


def saved_progress(path: Path) -> dict[str, Any]:
    """What `TrainingRun.save` noted beside the tensors: identity, step and level.

    Raises CheckpointError where the file is not such a state.
    """
    try:
        with safe_open(path, framework="pt") as file:
            progress = json.loads(file.metadata()["progress"])
        if not isinstance(progress["identity"], dict):
            raise ValueError("it names no configuration")
        return progress
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} is not a training state ({error}); start over with --overwrite"
        ) from error


def _model_config(config: TrainConfig, task: TrainableTask) -> OuroConfig:
    return OuroConfig.from_sizes(
        vocab_size=task.vocab_size,
        d_model=config.d_model,
        layers=config.layers,
        heads=config.heads,
        loops=config.loops,
        feed_forward=config.feed_forward,
        tie_word_embeddings=config.tied,
        initializer_range=config.init_std,
        rope_theta=config.rope_theta,
        gate=config.gate if config.objective == "joint" else "none",
    )


def _optimiser(config: TrainConfig, decoder: torch.nn.Module) -> torch.optim.AdamW:
    try:
        return torch.optim.AdamW(
            decoder.parameters(),
            lr=config.lr,
            betas=config.adam_betas,
            weight_decay=config.weight_decay,
            fused=True,
        )
    except ValueError as error:
        raise ConfigError(f"AdamW refuses these options: {error}") from error
