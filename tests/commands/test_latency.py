"""`trajdiag latency` on a shipped model, to JSON, to the cache and into the report."""

import json
import math

import pytest

import trajdiag
from trajdiag.cli import main
from trajdiag.errors import ConfigError, UnknownNameError

QUICK = ["--examples", "40", "--singles", "3", "--repeats", "2"]
TINY = {"fit": "60", "val": "40", "test": "40"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    trajdiag.extract("mano-joint-linear", task_options=TINY, cache_dir=str(home))
    return home


def run(capsys, home, *arguments):
    code = main(["latency", "mano-joint-linear", *arguments, "--cache-dir", str(home)])
    out, err = capsys.readouterr()
    return code, out, err


def test_json_holds_all_numbers_and_they_agree_with_one_another(home, capsys):
    code, out, err = run(
        capsys, home, "--readout", "entropy", "--threshold", "0.3", "--json", *QUICK
    )
    assert code == 0, err
    rows = json.loads(out)["latency"]
    for batch, n in (("batched", 40), ("one", 3)):
        of = {row["metric"]: row["value"] for row in rows if row["batch"] == batch}
        assert {row["n"] for row in rows if row["batch"] == batch} == {n}
        assert of["speedup/ideal"] == pytest.approx(5 / of["depth"])
        parts = sum(of[f"lost/{part}"] for part in ("fixed", "readout", "rows", "rest"))
        assert parts == pytest.approx(of["lost"], abs=1e-9)
        assert of["lost"] == pytest.approx(1 / of["speedup"] - of["depth"] / 5)
        assert of["depth"] == pytest.approx(of["depth/offline"])
        assert of["accuracy"] == pytest.approx(of["accuracy/offline"])
        assert of["differing/depth"] == of["differing/prediction"] == 0
        assert 0 < of["flops/readout"] < of["flops/live"] < of["flops/full"]


def test_without_a_readout_the_best_signal_and_the_gate_are_run_and_the_report_shows_them(
    home, capsys
):
    code, out, err = run(capsys, home, *QUICK)
    assert code == 0, err
    assert "what early exit saves" in out and "native" in out
    assert "in batches" in out and "one at a time" in out
    # a heading stands in two lines, its unit in the lower
    upper, lower = (line.split("┃")[1:-1] for line in out.splitlines()[2:4])
    headings = [" ".join(f"{a} {b}".split()) for a, b in zip(upper, lower, strict=True)]
    assert headings[2:6] == [
        "mean exit depth, loops",
        "accuracy, %",
        "accuracy at full depth, %",
        "speed-up, times",
    ]
    folder = home / "latency" / "mano-joint-linear"
    names = {path.stem for path in folder.glob("*.json")}
    assert "native" in names
    quick = {"n_resamples": 20, "bound": ("ridge",), "cache_dir": str(home)}
    page = trajdiag.report("mano-joint-linear", **quick)
    rows = json.loads((page.parent / "results.json").read_text())["latency"]
    assert {row["readout"] for row in rows} == names
    assert "Early exit, measured" in page.read_text()
    saved = json.loads((folder / "native.json").read_text())
    saved["fingerprint"] = "0" * 64
    (folder / "native.json").write_text(json.dumps(saved))
    told = []
    page = trajdiag.report("mano-joint-linear", progress=told.append, **quick)
    rows = json.loads((page.parent / "results.json").read_text())["latency"]
    assert {row["readout"] for row in rows} == names - {"native"}
    assert any("left out" in line and "latency of native" in line for line in told)


@pytest.mark.parametrize(
    ("threshold", "words"),
    [
        ("nan", "no example leaves before loop 5"),
        ("-1", "no example leaves before loop 5"),
        ("-inf", "no example leaves before loop 5"),
        ("1e9", "every example leaves at loop 1"),
        ("inf", "every example leaves at loop 1"),
    ],
)
def test_a_threshold_that_decides_nothing_is_said(home, capsys, threshold, words):
    code, out, err = run(
        capsys, home, "--readout", "entropy", f"--threshold={threshold}", "--json", *QUICK
    )
    assert code == 0, err
    for batch in ("batched", "one"):
        assert f"entropy, {batch}: {words} at threshold " in err
    (kept,) = {row["threshold"] for row in json.loads(out)["latency"]}
    assert kept == (float(threshold) if math.isfinite(float(threshold)) else None)


def test_a_readout_file_brings_its_threshold(home):
    chosen = trajdiag.choose_threshold(
        "mano-joint-linear", "entropy", depth=3.0, cache_dir=str(home)
    )
    results = trajdiag.measure_latency(
        "mano-joint-linear", chosen.path, examples=40, singles=2, repeats=1, cache_dir=str(home)
    )
    assert {row.threshold for row in results.latency} == {chosen.point.threshold}


def test_what_cannot_be_run_is_refused_in_one_line(home, capsys):
    code, out, err = run(capsys, home, "--readout", "oracle")
    assert (code, out) == (1, "") and "unknown readout to run live" in err
    with pytest.raises(ConfigError, match="got 1 readout and 2 thresholds"):
        trajdiag.measure_latency("x", "entropy", [0.1, 0.2])
    with pytest.raises(UnknownNameError, match="entropi"):
        trajdiag.measure_latency("mano-joint-linear", "entropi", cache_dir=str(home))
