"""Accuracy by loop and difficulty, against one example at a time through `trace`."""

import numpy as np
import pytest

from trajdiag.models.checkpoint import write_checkpoint
from trajdiag.models.config import OuroConfig
from trajdiag.models.registry import create_model, load_model
from trajdiag.models.tracing import trace
from trajdiag.tasks.mano import Mano
from trajdiag.training.evaluation import evaluate


def test_accuracy_is_that_of_examples_run_one_by_one(tmp_path) -> None:
    task = Mano(fit=0, val=0, test=40)
    config = OuroConfig.from_sizes(
        vocab_size=task.vocab_size, d_model=8, layers=1, heads=2, loops=3, initializer_range=0.5
    )
    write_checkpoint(tmp_path, create_model(config, seed=0))
    model = load_model(tmp_path, device="cpu")
    examples = task.examples()["test"]
    right = np.zeros((40, 4), bool)
    for i, length in enumerate(examples.length):
        logits = trace(model, examples.input_ids[i : i + 1, :length], loops=4).logits
        right[i] = (logits[0, -1, :, :7].argmax(-1) == examples.target[i]).numpy()
    accuracy = evaluate(model, examples, task.class_ids, loops=4, batch=7)
    assert 0 < right.mean() < 1
    for difficulty, row in zip(accuracy.difficulty, accuracy.by_difficulty, strict=True):
        np.testing.assert_allclose(row, right[examples.difficulty == difficulty].mean(0))
    np.testing.assert_allclose(accuracy.overall, right.mean(0))
    json = accuracy.to_json()
    assert list(json["by_difficulty"]) == ["1", "2", "3"]
    assert json["overall"] == pytest.approx(right.mean(0), abs=1e-4)
