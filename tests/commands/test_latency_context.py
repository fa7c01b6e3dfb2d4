"""`trajdiag latency --context live` on a text file: what exits do to later tokens."""

import json

import numpy as np
import pytest

import trajdiag
from tests.language_models import tiny_ouro
from trajdiag.cli import main
from trajdiag.errors import ConfigError
from trajdiag.latency.cached_rows import require_caching
from trajdiag.latency.chosen import choose
from trajdiag.latency.config import LatencyConfig
from trajdiag.latency.decoding import decode_given
from trajdiag.latency.reopening import reopen
from trajdiag.metrics.frontier import exit_depth
from trajdiag.readout import list_readouts

WORDS = ["the", "Question", "is", "What", "Answer", "maybe", "mod", "Yes", "No", "7"]
QUICK = ["--examples", "60", "--singles", "3", "--repeats", "2", "--threshold", "1.5"]
CONTEXTS = ["full-cached", "recompute", "copy-last"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, n)) for n in rng.integers(3, 12, 24)]
    (home / "notes.txt").write_text("\n\n".join(texts) + "\n")
    model = tiny_ouro(home / "tiny")
    trajdiag.extract(
        str(model),
        f"text:{home / 'notes.txt'}",
        task_options={"sample": "5", "document_chars": "30"},
        name="notes",
        device="cpu",
        cache_dir=str(home),
    )
    for kind in ("linear", "boosted"):
        trajdiag.fit_gate("notes", kind=kind, objective="agreement", epochs=1, cache_dir=str(home))
    return home


def run(capsys, home, *arguments, context="live"):
    code = main(["latency", "notes", "--context", context, *arguments, "--cache-dir", str(home)])
    out, err = capsys.readouterr()
    return code, out, err


def rows_of(out, context, batch):
    rows = json.loads(out)["latency"]
    return {r["metric"]: r for r in rows if (r["context"], r["batch"]) == (context, batch)}


def test_json_holds_every_context_beside_full_depth_and_offline(home, capsys):
    code, out, err = run(capsys, home, "--readout", "native", *QUICK, "--json")
    assert code == 0, err
    assert {row["context"] for row in json.loads(out)["latency"]} == set(CONTEXTS)
    for batch in ("batched", "one"):
        full, late, copied = (rows_of(out, context, batch) for context in CONTEXTS)
        for of in (full, late, copied):
            value = {metric: row["value"] for metric, row in of.items()}
            assert value["speedup/ideal"] == pytest.approx(4 / value["depth/tokens"])
            assert value["live"] > 0 and of["live"]["low"] <= of["live"]["high"]
            assert value["accuracy/full"] == full["accuracy/full"]["value"]
            assert 1 < value["depth"] < 4 and 0 < value["agreement"] <= 1
        for of in (full, late):
            assert of["differing/depth"]["value"] == of["differing/prediction"]["value"] == 0
            assert of["depth"]["value"] == pytest.approx(of["depth/offline"]["value"])
            assert of["accuracy"]["value"] == of["accuracy/offline"]["value"]
        assert full["loops-run"]["value"] == 4
        assert copied["loops-run"]["value"] == copied["depth/tokens"]["value"]
        assert late["depth/tokens"]["value"] <= late["loops-run"]["value"] <= 4
        assert full["flops/live"]["value"] == pytest.approx(
            full["flops/full"]["value"] + full["flops/readout"]["value"]
        )
        for of in (late, copied):
            assert 0 < of["flops/live"]["value"] < full["flops/live"]["value"]
            assert of["flops/readout"]["value"] >= 0
        assert full["tokens"]["value"] >= full["depth"]["n"]


def test_a_threshold_that_nothing_crosses_agrees_with_full_depth(home, capsys):
    code, out, err = run(capsys, home, "--readout", "entropy", *QUICK[:-1], "nan", "--json")
    assert code == 0, err
    for context in CONTEXTS:
        of = rows_of(out, context, "batched")
        assert of["agreement"]["value"] == 1 and of["depth/tokens"]["value"] == 4
        assert of["accuracy"]["value"] == of["accuracy/full"]["value"]
    assert "no example leaves before loop 4" in err


@pytest.mark.parametrize("context", ["full", "recompute", "copy-last"])
@pytest.mark.parametrize(
    "name",
    [
        *("entropy", "vote_share", "hidden_cosine", "native", "native-released"),
        *("linear-agreement", "boosted-agreement"),
    ],
)
def test_where_earlier_tokens_have_all_loops_exits_are_those_of_the_store(home, name, context):
    store = trajdiag.open("notes", home)
    readout = next(r for r in list_readouts(store, cache_dir=str(home)) if r.name == name)
    values = readout.values(store, None)
    some = np.unique(values[:, readout.first_loop - 1 : -1]).astype(float)
    threshold = some[len(some) // 2 :][:2].mean()
    config = LatencyConfig(readout=(name,), threshold=(threshold,), cache_dir=str(home))
    again = reopen(store, cache_dir=str(home))
    (chosen,) = choose(store, config)
    model = require_caching(again.model)
    rule = chosen.rule(model, again.loops)
    found = decode_given(model, again.work, rule, context, batch_tokens=200)
    alone = decode_given(model, again.work, rule, context, batch_tokens=1)
    np.testing.assert_array_equal(found.exit_depth, alone.exit_depth)
    np.testing.assert_array_equal(found.prediction, alone.prediction)
    assert found.loops_run == alone.loops_run
    expected = exit_depth(values, threshold, readout.direction, readout.first_loop)
    assert len(np.unique(expected)) > 1
    if context == "copy-last":  # whose exits may be others; batches do not matter to them either
        return
    np.testing.assert_array_equal(found.exit_depth, expected)
    predicted = store.predictions()[np.arange(len(expected)), expected - 1]
    np.testing.assert_array_equal(found.prediction, predicted)


def test_both_contexts_are_kept_and_the_report_shows_both(home, capsys):
    for context, title in (("full", "what early exit saves"), ("live", "token by token")):
        code, out, err = run(capsys, home, "--readout", "entropy", *QUICK, context=context)
        assert code == 0, err
        assert title in out and "MFLOPs" in out
    folder = home / "latency" / "notes"
    assert (folder / "entropy.json").is_file()
    assert (folder / "context-live" / "entropy.json").is_file()
    options = {"n_resamples": 20, "bound": ("ridge",), "cache_dir": str(home)}
    page = trajdiag.report("notes", **options)
    rows = json.loads((page.parent / "results.json").read_text())["latency"]
    entropy = {row["context"] for row in rows if row["readout"] == "entropy"}
    assert entropy == {"full", *CONTEXTS}
    assert "Early exit, measured" in page.read_text()
    assert "Early exit token by token, measured" in page.read_text()
    (folder / "context-live" / "entropy.json").write_text("{")
    told = []
    trajdiag.report("notes", progress=told.append, **options)
    assert any("latency notes --readout entropy --context live" in line for line in told)


def test_what_is_not_decoded_is_refused_in_one_line(home, capsys):
    tiny = {"fit": "20", "val": "20", "test": "20"}
    trajdiag.extract("mano-joint-linear", task_options=tiny, cache_dir=str(home))
    with pytest.raises(ConfigError, match="read at the end of its row") as caught:
        trajdiag.measure_latency(
            "mano-joint-linear", "entropy", 0.3, context="live", cache_dir=str(home)
        )
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="context must be full or live, got 'copy-last'"):
        trajdiag.measure_latency("notes", context="copy-last")


def test_another_family_is_refused(home, tmp_path):
    from tests.language_models import folder_of

    store = trajdiag.extract(
        str(folder_of("dory", tmp_path / "dory")),
        f"text:{home / 'notes.txt'}",
        task_options={"sample": "2"},
        device="cpu",
        cache_dir=str(tmp_path),
    )
    with pytest.raises(ConfigError, match=r"Ouro's format .family ouro.: dory is of family dory"):
        trajdiag.measure_latency(store, "entropy", 1.0, context="live", cache_dir=str(tmp_path))
