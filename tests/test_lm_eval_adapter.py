"""The looped model that lm-evaluation-harness evaluates: right scores, and a whole evaluation."""

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("lm_eval")

from lm_eval.evaluator import simple_evaluate
from lm_eval.tasks import TaskManager

from tests.language_models import loaded, tiny_ouro
from tests.lm_eval_adapter import FinalLoop
from tests.local_benchmark import sums, write_benchmark
from tests.models.naive_ouro import run
from tests.models.random_ouro import as_model, random_decoder
from trajdiag.tasks.harness import Harness


def test_a_continuations_score_agrees_with_a_naive_float64_ouro() -> None:
    decoder = random_decoder(vocab_size=13, loops=3)
    adapter = FinalLoop(as_model(decoder), tokenizer=None)  # pyright: ignore[reportArgumentType]
    context, continuation = [1, 5, 2, 7], [3, 3, 8]
    tensors = {name: t.double().numpy() for name, t in decoder.state_dict().items()}
    _, logits = run(decoder.config, tensors, context + continuation, loops=3)
    said = torch.from_numpy(logits[3:6, -1]).log_softmax(-1)
    expected = sum(float(said[i, token]) for i, token in enumerate(continuation))
    total, greedy = adapter.score(context, continuation)
    assert total == pytest.approx(expected, abs=1e-4)
    assert greedy == (said.argmax(-1).tolist() == continuation)
    likeliest = int(said[0].argmax())
    assert adapter.score(context, [likeliest])[1]


def test_lm_eval_evaluates_a_looped_model_question_by_question(tmp_path: Path) -> None:
    model = loaded(tiny_ouro(tmp_path / "tiny"))
    assert model.tokenizer is not None
    splits = {"validation": sums(6, 50), "test": sums(12)}
    folder = write_benchmark(tmp_path / "tasks", "sums", splits)
    adapter = FinalLoop(model, model.tokenizer)
    found = simple_evaluate(
        adapter,
        tasks=["sums"],
        num_fewshot=2,
        task_manager=TaskManager(include_path=folder, include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
    )
    assert found is not None and "samples" in found
    samples = {sample["doc_id"]: sample for sample in found["samples"]["sums"]}
    questions = Harness(task="sums", include_path=folder, num_fewshot=2).questions()["test"]
    assert len(samples) == len(questions) == 12
    for number, question in enumerate(questions):
        scores = []
        for choice in question.choices:
            whole = adapter.tok_encode(question.prompt + question.delimiter + choice)
            cut = len(adapter.tok_encode(question.prompt))
            scores.append(adapter.score(whole[:cut], whole[cut:])[0])
        normalised = [s / len(c) for s, c in zip(scores, question.choices, strict=True)]
        assert samples[number]["acc"] == (np.argmax(scores) == question.answer)
        assert samples[number]["acc_norm"] == (np.argmax(normalised) == question.answer)
    accuracies = [sample["acc"] for sample in samples.values()]
    assert 0 < np.mean(accuracies) < 1
