"""Every family through extraction: batches change nothing, and the whole main job runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.extraction.test_questions import Quiz
from tests.language_models import FAMILIES, folder_of, loaded, tiny_ouro
from tests.models.hub_cache import UNREACHABLE, snapshot_folder
from trajdiag.cli import main
from trajdiag.extraction import extract
from trajdiag.store.reader import Store

ROOT = Path(__file__).parents[2]
SMALL = ["--task-options.fit", "40", "--task-options.val", "40", "--task-options.test", "40"]


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request, tmp_path_factory):
    return folder_of(request.param, tmp_path_factory.mktemp(request.param) / "tiny")


def test_padded_batches_equal_one_by_one(folder, tmp_path):
    model = loaded(folder)
    padded = 0

    class Watched:
        def __getattr__(self, name):
            return getattr(model, name)

        def begin(self, input_ids, attention_mask=None, position_ids=None):
            nonlocal padded
            if attention_mask is not None:
                padded += 1
                assert attention_mask[:, 0].all(), "padded on the right only"
            return model.begin(input_ids, attention_mask, position_ids)

    alone = extract(model, Quiz(), cache_dir=tmp_path / "alone", batch_tokens=1)
    together = extract(Watched(), Quiz(), cache_dir=tmp_path / "together", batch_tokens=4000)
    assert padded
    for array in ("hidden", "logits", "score/sum", "vocabulary/logits"):
        a, b = alone.numpy(array), together.numpy(array)
        scale = np.abs(a[a > -1e29]).max()
        np.testing.assert_allclose(a / scale, b / scale, atol=1e-5, err_msg=array)


def test_extract_fit_gate_report_from_a_local_folder(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["extract", "--model", str(folder), *SMALL]) == 0
    assert main(["fit-gate", "--kind", "mlp", "--frozen"]) == 0
    assert main(["report"]) == 0
    report = Path(capsys.readouterr().out.splitlines()[-1])
    assert report.is_file()
    results = json.loads((report.parent / "results.json").read_text())
    (store,) = results["stores"]
    assert (
        store["model"]["family"] == json.loads((folder / "config.json").read_text())["model_type"]
    )
    assert {"mlp-ponder", "entropy", "fixed"} <= {row["readout"] for row in results["scores"]}


def test_the_three_commands_verbatim_from_a_hub_cache_without_a_network(tmp_path):
    tiny_ouro(snapshot_folder(tmp_path / "hub", "ByteDance/Ouro-1.4B"))
    env = os.environ | {
        "HF_HUB_CACHE": str(tmp_path / "hub"),
        "HF_ENDPOINT": UNREACHABLE,
        "PYTHONPATH": str(ROOT),
    }
    for command in (
        "trajdiag extract --model ouro-1.4b",
        "trajdiag fit-gate --kind mlp --frozen",
        "trajdiag report",
    ):
        words = [sys.executable, "-m", *command.split()]
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / done.stdout.strip()).is_file()
    record = Store.open(tmp_path / "cache" / "stores" / "ouro-1.4b--arithmetic.zarr").record
    assert record.model["name"] == "ouro-1.4b"
    assert record.model["source"] == "ByteDance/Ouro-1.4B"
    assert record.model["revision"] == "0123456789abcdef0123456789abcdef01234567"
    assert record.commands == ["trajdiag extract --model ouro-1.4b"]
