"""What notebooks show of stores, results and readouts: their numbers, and no markup of others."""

import dataclasses
from html.parser import HTMLParser

import numpy as np
import pytest

import trajdiag
from tests.reporting.planted import planted_results
from trajdiag.html_tables import html_facts, html_list, html_table
from trajdiag.results import Results

EVIL = "<script>alert('x')</script> & \"q\" \u202etxt.exe"


class Reader(HTMLParser):
    """Tags that are open, all tags, and the texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        assert "\u202e" not in data or "bdi" in self.open, "it turns its own text alone"


@pytest.mark.parametrize(
    "page",
    [
        html_facts(EVIL, [(EVIL, EVIL), ("left out", None)]),
        html_table(EVIL, [EVIL, "b"], [[EVIL, EVIL], ["x", None]]),
        html_list(EVIL, [EVIL]),
    ],
    ids=["facts", "table", "list"],
)
def test_texts_are_escaped_and_isolated(page):
    read = Reader(page.replace("\u202e", "") if "<th" in page else page)
    assert "script" not in read.tags
    assert EVIL.replace("\u202e", "") in {text.replace("\u202e", "") for text in read.texts}
    assert "left out" not in page


def test_results_show_the_verdict_and_the_best_readouts():
    results = planted_results(("mano-fixed-uniform",), examples=300)
    read = Reader(results._repr_html_())
    assert set(results.verdict) <= set(read.texts)
    kinds = {row.readout: row.kind for row in results.readouts}
    ranked = results.ranked("mano-fixed-uniform")
    best = next(name for name in ranked if kinds[name] not in ("oracle", "bound"))
    assert best in read.texts
    row = next(
        r
        for r in results.scores
        if (r.readout, r.metric, r.split) == (best, "accuracy@final", "test")
    )
    assert f"{100 * row.value:.2f} [{100 * row.low:.2f}, {100 * row.high:.2f}]" in read.texts
    assert {"oracle", "bound"} <= set(read.texts) and "oracle-loss" not in read.texts
    assert Reader(Results()._repr_html_()).texts


def test_the_models_own_gate_is_shown_however_it_ranks():
    results = planted_results(("mano-fixed-uniform", "mano-joint-linear"), examples=300)
    scores = [
        dataclasses.replace(row, value=0.0)
        if (row.readout, row.metric) == ("native", "area")
        else row
        for row in results.scores
    ]
    results = dataclasses.replace(results, scores=scores)
    kinds = {row.readout: row.kind for row in results.readouts}
    assert [n for n in results.ranked("mano-joint-linear") if kinds[n] != "oracle"][-1] == "native"
    assert "native" in Reader(results._repr_html_()).texts


def test_a_store_and_a_readout_show_what_they_are(tmp_path):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(400, 3, 5)).astype("float32")
    store = trajdiag.from_arrays(
        tmp_path / "stores" / "<b>.zarr",
        rng.normal(size=(400, 3, 4)).astype("float32"),
        logits,
        logits[:, -1].argmax(1),
    )
    read = Reader(store._repr_html_())
    assert "b" not in read.tags[:1] and "3 loops, d_model 4, 5 classes" in read.texts
    assert any("test 120" in text for text in read.texts)
    chosen = trajdiag.choose_threshold(store, "entropy", depth=2.5, cache_dir=str(tmp_path))
    read = Reader(chosen._repr_html_())
    assert f"{chosen.point.test.depth.value:.2f}" in read.texts and str(chosen.path) in read.texts
