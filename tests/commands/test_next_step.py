"""`trajdiag` alone says what to do next, by what the cache holds; what it says can be run."""

import os
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest

import trajdiag
from tests.looped import Letters, Spiral
from trajdiag.cli import app, main
from trajdiag.store import schema

TINY = {"fit": "60", "val": "40", "test": "40"}


@pytest.fixture(scope="module")
def extracted(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    trajdiag.extract("mano-joint-linear", task_options=TINY, cache_dir=str(home))
    return home


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The cache that is meant where none is named, in a folder of its own."""
    monkeypatch.setenv("TRAJDIAG_CACHE", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def said(capsys) -> tuple[str, list[str]]:
    """All of it, and the commands in it, each of which the command line takes."""
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    indented = [line.strip() for line in out.splitlines() if line.startswith("    trajdiag")]
    commands = [line.partition("  ")[0] for line in indented]
    assert commands.pop() == "trajdiag --help"
    for command in commands:
        app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)
    return out, commands


def test_an_empty_cache_is_begun_with_a_shipped_model_or_with_arrays(home, capsys):
    out, commands = said(capsys)
    assert f"No store in {home / 'stores'}" in out
    assert commands[0] == "trajdiag extract --model mano-joint-linear"
    assert "trajdiag import mine.npz" in commands


def test_a_store_is_fitted_scored_reported_then_run_live_and_compared(extracted, home, capsys):
    shutil.copytree(extracted, home)
    name = "mano-joint-linear"
    out, commands = said(capsys)
    assert "with 0 gates" in out
    assert commands == [
        f"trajdiag fit-gate {name} --kind mlp",
        f"trajdiag score {name}",
        f"trajdiag report {name}",
    ]
    trajdiag.fit_gate(name, kind="linear", epochs=1, cache_dir=str(home))
    out, commands = said(capsys)
    assert "with 1 gate fitted" in out
    assert commands == [f"trajdiag score {name}", f"trajdiag report {name}"]
    page = trajdiag.report(name, n_resamples=20, bound=("ridge",), cache_dir=str(home))
    out, commands = said(capsys)
    assert f"Its report: {page}" in out
    assert commands == [
        f"trajdiag latency {name}",
        "trajdiag extract --model mano-fixed-uniform",
        f"trajdiag report {name} --reference OTHER",
    ]
    (home / "latency" / name).mkdir(parents=True)
    (home / "latency" / name / "entropy.json").write_text("{}")
    assert f"trajdiag latency {name}" not in said(capsys)[1]


def test_a_store_of_arrays_is_not_to_be_run(home, capsys):
    rng = np.random.default_rng(0)
    trajdiag.from_arrays(
        home / "stores" / "my own.zarr",
        rng.normal(size=(90, 3, 4)).astype("float32"),
        rng.normal(size=(90, 3, 5)).astype("float32"),
        rng.integers(0, 5, 90),
    )
    assert "trajdiag score 'my own'" in said(capsys)[1]
    page = home / "reports" / "my own" / "report.html"
    page.parent.mkdir(parents=True)
    page.touch()
    commands = said(capsys)[1]
    assert "trajdiag report 'my own' --reference OTHER" in commands
    assert not any("latency" in command for command in commands)


def test_a_later_report_of_several_stores_counts_as_reported(extracted, home, capsys):
    shutil.copytree(extracted, home)
    page = home / "reports" / "2-stores-0a1b2c3d" / "report.html"
    page.parent.mkdir(parents=True)
    page.touch()
    os.utime(page, (0, 0))
    assert "trajdiag report mano-joint-linear" in said(capsys)[1], "it is older than the store"
    os.utime(page)
    out, commands = said(capsys)
    assert f"Newest report of several stores: {page}" in out
    assert "trajdiag report mano-joint-linear" not in commands


def test_a_folder_here_of_the_stores_name_does_not_stand_for_it(extracted, home, capsys):
    shutil.copytree(extracted, home)
    (home.parent / "mano-joint-linear").mkdir()
    store = home / "stores" / "mano-joint-linear.zarr"
    assert f"trajdiag score {store}" in said(capsys)[1]


def test_unfinished_work_is_gone_on_with(home, capsys, monkeypatch):
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", 16)
    trajdiag.extract("mano-joint-linear", task_options=TINY, shards=2, shard=0)
    out, commands = said(capsys)
    assert "is unfinished." in out
    assert commands[0].startswith("trajdiag extract --model mano-joint-linear --task-options.fit")
    assert commands[1] == "trajdiag show mano-joint-linear"


def test_unfinished_work_of_python_is_for_python_to_go_on_with(home, capsys, monkeypatch):
    monkeypatch.setattr(schema, "BLOCK_EXAMPLES", 16)
    trajdiag.extract(Spiral(), Letters(fit=24, val=10, test=14), name="own", shards=2, shard=0)
    out, commands = said(capsys)
    assert "run the Python code that began it again" in out
    assert commands == ["trajdiag show own"]


def test_it_imports_nothing_heavy():
    script = (
        "import sys; from trajdiag.cli import main; main([]); "
        "heavy = ('torch', 'numpy', 'zarr', 'pandas', 'transformers'); "
        "sys.exit(' '.join(m for m in heavy if m in sys.modules) or None)"
    )
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
