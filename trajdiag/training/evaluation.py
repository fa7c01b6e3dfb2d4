"""How often each loop's answer is right, by difficulty."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trajdiag.models.base import LoopedModel, logits
from trajdiag.tasks.base import Examples


@dataclass(frozen=True, kw_only=True)
class LoopAccuracy:
    """Accuracy of forced exits at every loop."""

    difficulty: np.ndarray
    """float64 [bin]: the difficulties there are, in order."""
    count: np.ndarray
    """int64 [bin]: examples of each."""
    by_difficulty: np.ndarray
    """float64 [bin, loop]."""

    @property
    def overall(self) -> np.ndarray:
        """float64 [loop]: over all examples."""
        return self.count @ self.by_difficulty / self.count.sum()

    def to_json(self) -> dict[str, Any]:
        """Plain values, rounded to 4 digits."""
        rows = zip(self.difficulty, self.by_difficulty, strict=True)
        return {
            "overall": [round(float(a), 4) for a in self.overall],
            "by_difficulty": {
                f"{difficulty:g}": [round(float(a), 4) for a in row] for difficulty, row in rows
            },
        }


def evaluate(
    model: LoopedModel,
    examples: Examples,
    class_ids: np.ndarray | None,
    loops: int | None = None,
    batch: int = 4096,
) -> LoopAccuracy:
    """Run `examples` through `loops` loops (the model's own number by default), `batch` rows of one
    length at a time. A prediction is the best of the classes `class_ids`, or of the vocabulary."""
    right = np.empty((len(examples), loops or model.loops), bool)
    classes = None if class_ids is None else torch.from_numpy(class_ids).to(model.device)
    with torch.inference_mode():
        for length in np.unique(examples.length):
            alike = np.flatnonzero(examples.length == length)
            for rows in np.split(alike, range(batch, len(alike), batch)):
                input_ids = torch.from_numpy(examples.input_ids[rows, :length].astype(np.int64))
                row = torch.arange(len(rows), device=model.device)
                at = row, torch.full_like(row, int(length) - 1)
                state = model.begin(input_ids.to(model.device))
                for loop in range(right.shape[1]):
                    state = model.step(state)
                    z = logits(model, state, at)
                    chosen = (z if classes is None else z[:, classes]).argmax(-1)
                    right[rows, loop] = chosen.cpu().numpy() == examples.target[rows]
    difficulty, bins, count = np.unique(
        examples.difficulty, return_inverse=True, return_counts=True
    )
    by_difficulty = np.stack([right[bins == b].mean(0) for b in range(len(difficulty))])
    return LoopAccuracy(difficulty=difficulty, count=count, by_difficulty=by_difficulty)
