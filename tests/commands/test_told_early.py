"""What cannot be done is told with what to do, before anything is computed."""

import shutil

import numpy as np
import pytest

import trajdiag
from trajdiag.cli import main

TINY = {"fit": "60", "val": "40", "test": "40"}
NAME = "mano-joint-linear"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    trajdiag.extract(NAME, task_options=TINY, cache_dir=str(home))
    return home


@pytest.fixture
def arrays(tmp_path):
    """A file of arrays without val."""
    rng = np.random.default_rng(0)
    values = {
        "hidden": rng.normal(size=(90, 3, 4)).astype("float32"),
        "logits": rng.normal(size=(90, 3, 5)).astype("float32"),
        "target": rng.integers(0, 5, 90),
        "split": np.repeat(["fit", "test"], 45),
    }
    np.savez(tmp_path / "mine.npz", **values)
    return tmp_path / "mine.npz"


def refused(capsys, *words: object) -> str:
    """The last line on stderr of a command that fails."""
    assert main([str(word) for word in words]) != 0
    out, err = capsys.readouterr()
    assert out == ""
    line = err.splitlines()[-1]
    assert len(line) < 1000
    return line


def test_arrays_under_the_name_of_another_models_store(home, arrays, capsys, monkeypatch):
    monkeypatch.setattr(
        "trajdiag.store.from_arrays.digest", lambda *_: pytest.fail("read all of the arrays")
    )
    line = refused(capsys, "import", arrays, "--name", NAME, "--cache-dir", home)
    assert f"is of model {NAME} (ouro), not of arrays of your own; choose another --name" in line


def test_another_model_under_the_name_of_a_store(home, capsys):
    line = refused(
        capsys, "extract", "--model", "parity-joint-linear", "--name", NAME, "--cache-dir", home
    )
    assert f"is of model {NAME} (ouro), not of model parity-joint-linear (ouro)" in line


def test_a_suggested_command_names_the_cache(home, tmp_path, capsys):
    empty = tmp_path / "my cache"
    line = refused(capsys, "report", "--cache-dir", empty)
    assert f"`trajdiag extract --model mano-fixed-geometric --cache-dir '{empty}'`" in line
    store = home / "stores" / f"{NAME}.zarr"
    for verb, option in (("score", "--readouts"), ("latency", "--readout")):
        line = refused(capsys, verb, NAME, option, "nope", "--cache-dir", home)
        assert f"`trajdiag fit-gate {store} --cache-dir {home}`" in line
    line = refused(capsys, "score", NAME, "--gates", "nope", "--cache-dir", home)
    assert f"`trajdiag fit-gate {store} --cache-dir {home}` fits one" in line


def test_a_path_that_is_not_there_is_told_as_one(home, capsys):
    for words in (
        ["extract", "--model", "/nope/model"],
        ["extract", "--model", "./model"],
        ["score", "/nope/store"],
        ["score", "store.zarr"],
        ["score", NAME, "--gates", "/nope/gate"],
    ):
        line = refused(capsys, *words, "--cache-dir", home)
        assert f"'{words[-1]}': there is no such folder; existing: " in line


def test_a_readout_file_that_is_none(home, tmp_path, capsys):
    (tmp_path / "notes").write_text("no JSON")
    for path, told in (
        (tmp_path / "notes", "is no readout file: "),
        ("no/such", "no readout file"),
    ):
        line = refused(capsys, "latency", NAME, "--readout", path, "--cache-dir", home)
        assert told in line and "`trajdiag score STORE" in line


def test_a_store_without_val_is_to_be_made_again(arrays, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TRAJDIAG_CACHE", str(tmp_path / "cache"))
    trajdiag.import_arrays(arrays)
    for verb in ("score", "report", "latency", "fit-gate"):
        line = refused(capsys, verb, "mine")
        assert "import the arrays again with examples of split val, and --overwrite" in line
    assert main([]) == 0
    out = capsys.readouterr().out
    assert "no example of split val" in out and "import its arrays again with them" in out
    assert "trajdiag show mine" in out
    assert "trajdiag score" not in out and "trajdiag report" not in out


def test_targets_in_floats_are_to_be_cast(arrays, capsys):
    held = dict(np.load(arrays))
    np.savez(arrays, **{**held, "target": held["target"].astype(float)})
    line = refused(capsys, "import", arrays)
    assert "target must be integers, got float64; cast it, as by target.astype('int64')" in line
    np.savez(arrays, **{**held, "target": held["target"] + 0.5})
    assert "got float64 with " in refused(capsys, "import", arrays)


def test_an_unknown_readout_of_a_check_is_told_with_those_there_are(home, capsys):
    line = refused(capsys, "report", NAME, "--fail-if", "nope:depth > 3", "--cache-dir", home)
    assert "unknown readout 'nope'; existing: " in line and "entropy, " in line


def test_where_nothing_can_be_written_is_told_before_the_work(
    home, arrays, tmp_path, capsys, monkeypatch
):
    file = tmp_path / "file"
    file.touch()
    for place in ("trajdiag.extraction.job.load_model", "trajdiag.training.trainer.TrainingRun"):
        monkeypatch.setattr(place, lambda *_, **__: pytest.fail("worked"))
    monkeypatch.setattr("trajdiag.store.from_arrays.digest", lambda *_: pytest.fail("read"))
    cache = file / "cache"
    for words in (["extract", "--model", NAME], ["train", "--steps", 1], ["import", arrays]):
        line = refused(capsys, *words, "--cache-dir", cache)
        assert f"cannot write {cache}" in line and line.endswith("; choose another --cache-dir")


def test_a_report_that_the_system_refuses_is_told_before_the_work(home, capsys, monkeypatch):
    def refuse(*_, **__):
        raise FileNotFoundError(2, "No such file or directory")

    shutil.rmtree(home / "reports", ignore_errors=True)
    monkeypatch.setattr("trajdiag.batch_report.diagnose", lambda *_, **__: pytest.fail("worked"))
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    line = refused(capsys, "report", NAME, "--output", home / "out", "--cache-dir", home)
    assert f"no folder can be made in {home} (No such file or directory); name another" in line
