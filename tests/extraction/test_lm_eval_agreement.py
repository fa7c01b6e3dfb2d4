"""A benchmark of lm-evaluation-harness: our last loop answers each question as lm-eval's own
evaluation of the same model does."""

import numpy as np
import pytest

pytest.importorskip("lm_eval")

from lm_eval.evaluator import simple_evaluate
from lm_eval.tasks import TaskManager

from tests.language_models import loaded, tiny_ouro
from tests.lm_eval_adapter import FinalLoop
from tests.local_benchmark import sums, write_benchmark
from trajdiag.commands.show import accuracy_by_score
from trajdiag.extraction import extract
from trajdiag.tasks.harness import Harness


@pytest.mark.parametrize("spaced", [True, False])
def test_acc_and_acc_norm_agree_question_by_question_at_every_loop(tmp_path, spaced):
    model = loaded(tiny_ouro(tmp_path / "tiny", spaced=spaced))
    splits = {"train": sums(9, 90), "validation": sums(6, 50), "test": sums(30)}
    folder = write_benchmark(tmp_path / "tasks", "sums", splits)
    task = Harness(task="sums", include_path=folder, num_fewshot=2)
    store = extract(model, task, cache_dir=tmp_path, batch_tokens=600)
    assert {split: len(store.rows(split)) for split in store.splits} == {
        "fit": 9,
        "val": 6,
        "test": 30,
    }
    rows = store.rows("test")
    assert store.ids[rows].tolist() == [f"sums/{number}" for number in range(30)]
    for loop in (1, model.loops):
        found = simple_evaluate(
            FinalLoop(model, model.tokenizer, loops=loop),
            tasks=["sums"],
            num_fewshot=2,
            task_manager=TaskManager(include_path=folder, include_defaults=False),
            log_samples=True,
            bootstrap_iters=0,
        )
        samples = {sample["doc_id"]: sample for sample in found["samples"]["sums"]}
        theirs = np.array([[r[0][0] for r in samples[i]["resps"]] for i in range(30)], float)
        ours = store.scores("sum", "test")[:, loop - 1]
        np.testing.assert_allclose(ours, theirs, atol=2e-5)
        target = store.target[rows]
        for score, metric in (("sum", "acc"), ("chars", "acc_norm")):
            right = store.scores(score, "test")[:, loop - 1].argmax(1) == target
            assert right.tolist() == [bool(samples[i][metric]) for i in range(30)]
        shown = accuracy_by_score(store)
        results = found["results"]["sums"]
        assert shown["acc"][loop - 1] == pytest.approx(results["acc,none"])
        assert shown["acc_norm"][loop - 1] == pytest.approx(results["acc_norm,none"])
    assert accuracy_by_score(store)["as decided"] == shown["acc_norm"]
