"""`score --target` and `fit-gate --target` in process: tables, rows, files and one-line errors."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from tests.deployment.test_choosing import store_at
from trajdiag.cli import main
from trajdiag.deployment.readout_file import load_readout


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAJDIAG_CACHE", str(tmp_path))
    store_at(tmp_path / "stores" / "one.zarr")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, str, str]:
    code = main(line.split())
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_score_prints_the_chosen_points_and_saves_them(home, capsys):
    code, out, err = run(capsys, "score one --readouts entropy --readouts native --target risk=0.1")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].strip() == "one: risk 0.1, delta 0.05, chosen on val"
    assert out.count("conformal risk control") == 2
    for name in ("entropy", "native"):
        path = home / "readouts" / "one" / f"{name}--risk=0.1-delta=0.05.json"
        assert str(path) in out
        assert f"{load_readout(path).point.threshold:.6g}" in out


def test_every_number_and_path_is_there_in_full_on_a_narrow_terminal(home, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    code, out, err = run(capsys, "score one --readouts entropy --target accuracy=0.9")
    assert (code, err) == (0, "")
    path = home / "readouts" / "one" / "entropy--accuracy=0.9.json"
    table, last = out.rsplit("\n", 2)[:2]
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in table.splitlines()) <= 80
    assert last == f"entropy saved as {path}"
    assert f"{load_readout(path).point.threshold:.6g}" in table


def test_rows_are_the_saved_numbers_best_on_val_first(home, capsys):
    code, out, _ = run(capsys, "score one --target accuracy=0.9 --json --n-resamples 50")
    rows = json.loads(out)["targets"]
    assert code == 0
    assert [row["val_depth"] for row in rows] == sorted(row["val_depth"] for row in rows)
    assert {"entropy", "native", "fixed"} <= {row["readout"] for row in rows}
    for row in rows:
        point = load_readout(row["path"]).point
        assert row["threshold"] == (None if point.never_leaves else point.threshold)
        assert row["test_accuracy_low"] == point.test.accuracy.low
        assert row["val_accuracy"] >= 0.9
    code, out, _ = run(capsys, "score one --target accuracy=0.9 --csv --n-resamples 50")
    table = list(csv.DictReader(io.StringIO(out)))
    assert [row["readout"] for row in table] == [row["readout"] for row in rows]
    assert [float(row["test_depth"]) for row in table] == [row["test_depth"] for row in rows]


def test_a_risk_has_its_two_methods_as_rows_of_which_one_is_saved(home, capsys):
    _, out, _ = run(capsys, "score one --target risk=0.1 --delta 0.2 --readouts top1 --json")
    tested, conformal = json.loads(out)["targets"]
    assert (tested["delta"], tested["method"]) == (0.2, "Learn-then-Test, exact binomial")
    assert (conformal["path"], conformal["method"]) == (None, "conformal risk control")


def test_never_leaving_is_said_in_words_and_is_null_in_rows(home, capsys):
    _, out, _ = run(capsys, "score one --target risk=0.0001 --readouts top1")
    assert "never leaves" in out
    _, out, _ = run(capsys, "score one --target risk=0.0001 --readouts top1 --json")
    assert json.loads(out)["targets"][0]["threshold"] is None


def test_several_stores_make_one_table(home, capsys):
    store_at(home / "stores" / "two.zarr", seed=1)
    code, out, _ = run(capsys, "score one two --readouts entropy --target depth=2.5")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines() if "│ entropy" in line] == ["one", "two"]
    assert "one: entropy saved as " in out and "two: entropy saved as " in out


def test_a_target_out_of_reach_is_a_line_and_the_other_readouts_stand(home, capsys):
    line = "score one --readouts fixed --readouts logit_change --target depth=1.5"
    code, out, err = run(capsys, line)
    assert code == 0
    assert "fixed" in out and "logit_change" not in out
    assert err == (
        "trajdiag: no threshold of logit_change has a mean depth of 1.5 loops or less on val; the "
        "least is 2.00\n"
    )
    code, out, err = run(capsys, "score one --target accuracy=1 --readouts fixed")
    assert (code, out) == (1, "")
    assert "no threshold of fixed reaches accuracy 1 on val" in err
    code, out, err = run(capsys, "score one --target accuracy=1")
    assert (code, out, len(err.splitlines())) == (1, "", 1)


def test_fit_gate_chooses_for_the_gate_that_it_fits(home, capsys):
    line = "fit-gate one --kind linear --epochs 2 --target risk=0.1 --delta 0.2"
    code, out, _ = run(capsys, line)
    assert code == 0
    folder, title = out.splitlines()[:2]
    assert folder == str(home / "gates" / "one" / "linear-ponder")
    assert title.strip() == "one: risk 0.1, delta 0.2, chosen on val"
    path = home / "readouts" / "one" / "linear-ponder--risk=0.1-delta=0.2.json"
    assert load_readout(path).kind == "gate"
    _, out, _ = run(capsys, "fit-gate one --kind linear --epochs 2")
    assert out == f"{folder}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("score one --target accuracy", "--target must be"),
        ("score one --target speed=3", "--target must be"),
        ("score one --target risk=low", "--target must be"),
        ("score one --delta 0.1", "--delta belongs to"),
        ("score one --target depth=2 --delta 0.1", "leave it out of depth=2"),
        ("score one --target depth=2 --slack 0.1", "--slack has no part in --target"),
        ("score one --target depth=2 --threshold.entropy 1", "--threshold has no part in --target"),
        ("score one --target depth=2 --targets 0.5", "--targets has no part in --target"),
        ("score one --json --csv", "--json or --csv, not both"),
        ("fit-gate one --target risk", "--target must be"),
        ("fit-gate one --delta 0.1", "--delta belongs to"),
    ],
)
def test_what_is_no_target_is_a_usage_error(home, capsys, arguments: str, message: str):
    code, out, err = run(capsys, arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert message in err


def test_a_depth_has_a_loop_of_the_store(home, capsys):
    for line in ("score one --readouts entropy", "fit-gate one --kind linear"):
        code, out, err = run(capsys, f"{line} --target depth=9")
        said = "trajdiag: depth must be from 1 to 4, the loops of store one, got 9\n"
        assert (code, out, err) == (1, "", said)
    assert not (home / "gates").exists()
    assert run(capsys, "score one --readouts entropy --target depth=4")[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--utility any-later",
            "--utility belongs to --objective utility, and objective is ponder",
        ),
        ("--k 3", "--k belongs to --objective utility"),
        ("--gamma 0.1 --objective depth", "--gamma belongs to --objective utility"),
        ("--beta 0.1 --objective utility", "--beta belongs to --objective ponder"),
        ("--prior geometric --objective agreement", "--prior belongs to --objective ponder"),
        ("--lam 0.2", "--lam belongs to --prior geometric, and prior is uniform"),
    ],
)
def test_an_option_without_a_part_in_the_objective_is_a_usage_error(home, capsys, options, message):
    code, out, err = run(capsys, f"fit-gate one --kind linear {options}")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert message in err


@pytest.mark.parametrize(
    "options",
    ["--prior geometric --lam 0.2 --beta 0.1", "--objective utility --utility previous --k 3"],
)
def test_an_option_with_a_part_in_the_objective_is_taken(home, capsys, options):
    assert run(capsys, f"fit-gate one --kind linear --epochs 1 {options}")[0] == 0


def test_a_target_without_meaning_is_an_error_before_anything_is_fitted(home, capsys):
    code, _, err = run(capsys, "fit-gate one --kind linear --target accuracy=95")
    assert (code, err) == (
        1, "trajdiag: accuracy must be a share above 0, up to 1, got 95; did you mean 0.95?\n",
    )  # fmt: skip
    assert not (home / "gates").exists()


@pytest.mark.parametrize(("target", "meant"), [("accuracy=95", "0.95"), ("risk=2", "0.02")])
def test_percent_is_no_share(home, capsys, target: str, meant: str):
    code, out, err = run(capsys, f"score one --target {target}")
    assert (code, out) == (1, "")
    assert err.endswith(f"did you mean {meant}?\n")
    assert len(err.splitlines()) == 1
