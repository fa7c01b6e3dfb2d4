"""Stores to a report folder: where it may lie is known before anything is computed, and the verdict
is told."""

import json
from pathlib import Path

import numpy as np
import pytest

import trajdiag
from tests.trajectories import planted, solved_from
from trajdiag import batch_report
from trajdiag.cli import main
from trajdiag.errors import ReportError

QUICK = {"n_resamples": 20, "bound": ("ridge",)}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        right = solved_from(rng.integers(1, 4, 200), 3)
        planted(home / "stores" / f"{name}.zarr", right, seed=1)
    return home


@pytest.fixture
def idle(monkeypatch):
    """Nothing may be diagnosed."""
    monkeypatch.setattr(batch_report, "diagnose", lambda *_, **__: pytest.fail("diagnosed"))


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("", "needs a folder, got ''"),
        ("file", "a report is a folder, but .*/file is a file"),
        ("file/deeper/still", "no report can lie in .*/file, which is a file"),
        ("mine", r"holds what is not a report's \(notes\.txt\)"),
        ("nul\0", "could not be written"),
        ("n" * 300, "could not be written to .*: File name too long"),
    ],
)
@pytest.mark.usefixtures("idle")
def test_an_output_that_cannot_be_used_is_refused_before_anything_is_computed(
    home, tmp_path, monkeypatch, output, words
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ReportError, match=words) as refused:
        trajdiag.report("one", output=output, cache_dir=str(home), **QUICK)
    assert "\n" not in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.usefixtures("idle")
def test_a_folder_that_is_write_protected_is_refused_before_anything_is_computed(
    home, tmp_path, monkeypatch
):
    # Root may write anywhere, so the answer of the system is planted.
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    with pytest.raises(ReportError, match="is write-protected; name another --output"):
        trajdiag.report("one", output=tmp_path / "a" / "b", cache_dir=str(home), **QUICK)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("idle")
def test_the_folder_in_the_cache_is_looked_at_too(home):
    for stores, reference, name in ((["one"], None, "one"), (["one"], "two", None)):
        folder = home / "reports" / (name or batch_report.report_name(["one"], "two"))
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("mine")
        with pytest.raises(ReportError, match="holds what is not a report's"):
            trajdiag.report(stores, reference, cache_dir=str(home), **QUICK)
        (folder / "notes.txt").unlink()


def test_a_report_is_named_after_its_stores_each_once():
    assert batch_report.report_name(["one"]) == batch_report.report_name(["one", "one"]) == "one"
    assert batch_report.report_name(["one", "two"]).startswith("2-stores-")
    against = batch_report.report_name(["one"], "two")
    assert against.startswith("2-stores-") and against != batch_report.report_name(["one", "two"])
    assert batch_report.report_name(["one", "two"], "two").startswith("2-stores-")


def test_the_verdict_is_told_before_the_path(home, capsys):
    told = []
    path = trajdiag.report(["one", "two"], progress=told.append, cache_dir=home, **QUICK)
    verdict = json.loads((path.parent / "results.json").read_text())["verdict"]
    assert path == home / "reports" / batch_report.report_name(["one", "two"]) / "report.html"
    assert verdict and told[-len(verdict) :] == verdict
    line = f"report one two --cache-dir {home} --n-resamples 20 --bound ridge"
    assert main(line.split()) == 0
    out, err = capsys.readouterr()
    assert out.strip() == str(path)
    assert err.splitlines()[-len(verdict) :] == verdict


def test_a_check_that_fails_exits_1_with_one_line_and_the_report_is_there(home, capsys):
    line = f"report one --cache-dir {home} --n-resamples 20 --bound ridge --readouts entropy"
    assert main([*line.split(), "--fail-if", "entropy:depth > 99"]) == 0
    page = capsys.readouterr().out.strip()
    Path(page).unlink()
    assert main([*line.split(), "--fail-if", "entropy:depth > 0.5", "--fail-if", "ok >= 0"]) == 1
    out, err = capsys.readouterr()
    assert out.strip() == page
    assert Path(page).is_file()
    assert err.splitlines()[-1].startswith("trajdiag: depth of entropy on one is ")
    assert "; ok of " in err.splitlines()[-1]


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(
    ("check", "told"),
    [
        ("readout", "a check is [READOUT:]QUANTITY"),
        ("reedout > 0.05", "unknown quantity 'reedout', did you mean readout?"),
        ("depth@97 > 3", "unknown quantity 'depth@97'"),
        ("n_differ@foo > 1", "unknown quantity 'n_differ@foo'"),
        ("n_differ@1 > 1", "unknown quantity 'n_differ@1'"),
        ("entropi:depth > 3", "unknown readout 'entropi', did you mean entropy?"),
        ("top1:depth > 3", "unknown readout 'top1'"),
    ],
)
def test_a_check_of_what_is_not_there_is_refused_before_anything_is_computed(
    home, capsys, check, told
):
    line = f"report one --cache-dir {home} --readouts entropy"
    assert main([*line.split(), "--fail-if", check]) == 2
    err = capsys.readouterr().err
    assert told in err and len(err) < 350 and len(err.splitlines()) == 1


def test_a_check_that_no_store_can_answer_does_not_hide_one_that_came_true(home, capsys):
    line = f"report two --cache-dir {home} --n-resamples 20 --bound ridge --readouts entropy"
    assert main([*line.split(), "--fail-if", "trajectory_regret > 0.05"]) == 2
    assert "needs another store of the task as --reference" in capsys.readouterr().err
    assert (home / "reports" / "two" / "report.html").is_file()
    checks = ["--fail-if", "trajectory_regret > 0.05", "--fail-if", "entropy:depth > 0.5"]
    assert main([*line.split(), *checks]) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert "depth of entropy on two is " in told and "no store has trajectory_regret" in told
