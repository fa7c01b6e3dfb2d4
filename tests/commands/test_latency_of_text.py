"""`trajdiag latency` of a language model on questions and on running text: from the file to the
report."""

import json
from pathlib import Path

import numpy as np
import pytest

import trajdiag
from tests.language_models import tiny_ouro
from trajdiag.cli import main
from trajdiag.metrics.frontier import exit_depth
from trajdiag.readout import Readout, list_readouts
from trajdiag.store.reader import Store

COUNTS = {"fit": 12, "val": 12, "test": 12}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("home")
    tiny_ouro(home / "tiny")
    records = [
        {
            "prompt": f"What is {n} mod 7 ?",
            "choices": [f"{n % 7}", f"the {n}", "maybe it is"][: 2 + n % 2],
            "answer": n % 2,
            "split": split,
        }
        for n, split in enumerate(split for split, count in COUNTS.items() for _ in range(count))
    ]
    (home / "quiz.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    lines = [f"The Answer to Question {n} is Yes, or {n} mod {n + 2}." for n in range(9)]
    (home / "book.txt").write_text("\n\n".join(lines), encoding="utf-8")
    return home


def run(capsys, home, *arguments: str) -> str:
    code = main([*arguments, "--cache-dir", str(home)])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


TASKS = {
    "arithmetic": ["arithmetic", *(f"--task-options.{s}={count}" for s, count in COUNTS.items())],
    "choices": ["choices:{home}/quiz.jsonl"],
    "text": ["text:{home}/book.txt", "--task-options.document-chars=60"],
}


@pytest.mark.parametrize(
    ("task", "readouts"),
    [
        ("arithmetic", ("entropy", "native")),
        ("choices", ("logit_margin", "native-continuation")),
        ("text", ("entropy", "native-released")),
    ],
)
def test_from_a_file_to_the_report(home, capsys, task, readouts):
    options = [option.format(home=home) for option in TASKS[task]]
    model = ["--model", str(home / "tiny"), "--name", task]
    run(capsys, home, "extract", *model, "--task", *options)
    store = trajdiag.open(task, cache_dir=str(home))
    named = {r.name: r for r in list_readouts(store)}
    arguments, expected = [], {}
    for name in readouts:
        readout = named[name]
        threshold = _between(readout, store)
        values = readout.values(store, "test")
        depth = exit_depth(values, threshold, readout.direction, readout.first_loop)
        assert len(np.unique(depth)) > 1
        predicted = store.predictions("test")[np.arange(len(depth)), depth - 1]
        right = predicted == store.target[store.rows("test")]
        expected[name] = depth.mean(), right.mean()
        arguments += ["--readout", name, f"--threshold={threshold!r}"]
    out = run(
        capsys, home, "latency", task, *arguments, "--singles", "3", "--repeats", "2", "--json"
    )
    rows = json.loads(out)["latency"]
    metrics: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        metrics.setdefault((row["readout"], row["batch"]), {})[row["metric"]] = row["value"]
    assert set(metrics) == {(name, batch) for name in readouts for batch in ("batched", "one")}
    assert len({frozenset(of) for of in metrics.values()}) == 1, "all have all numbers"
    for name, (depth, accuracy) in expected.items():
        of = metrics[name, "batched"]
        assert of["depth"] == pytest.approx(depth) and of["accuracy"] == pytest.approx(accuracy)
        assert of["differing/depth"] == of["differing/prediction"] == 0
        assert [metric for metric, value in of.items() if value is None] == ["differing/distance"]
    page = trajdiag.report(task, n_resamples=20, bound=("ridge",), cache_dir=str(home))
    text = page.read_text()
    assert "Early exit, measured" in text
    shown = json.loads((page.parent / "results.json").read_text())["latency"]
    assert {row["readout"] for row in shown} == set(readouts)


def _between(readout: Readout, store: Store) -> float:
    """Of the thresholds with room on both sides, so that no last bit decides, the one whose exits
    are spread the most."""
    values = readout.values(store, "test")
    inner = np.unique(values[:, readout.first_loop - 1 : -1].astype(float))
    inner = inner[np.isfinite(inner)]
    wide = np.flatnonzero(np.diff(inner) > 1e-5 * (inner[-1] - inner[0]))
    middles = ((inner[wide] + inner[wide + 1]) / 2).tolist()

    def spread(threshold: float) -> float:
        depth = exit_depth(values, threshold, readout.direction, readout.first_loop)
        return float(np.unique(depth, return_counts=True)[1].max())

    return min(middles, key=spread)
