"""The command line in process: exit codes, one-line errors, and nothing heavy behind `--help`."""

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trajdiag.cli import app, main
from trajdiag.models.registry import SHIPPED
from trajdiag.option_docs import field_docs


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_imports_nothing_heavy():
    script = (
        "import sys; from trajdiag.cli import main; main(['--help']); "
        "heavy = ('torch', 'numpy', 'zarr', 'pandas', 'sklearn', 'matplotlib', 'transformers'); "
        "print([m for m in heavy if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"
    assert "fit-gate" in done.stdout


@pytest.mark.parametrize(
    "verb", [name for name in app if not name.startswith("-") and name != "completion"]
)
def test_every_verb_explains_each_of_its_options(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "1000")
    code, out, _ = run(capsys, verb, "--help")
    assert code == 0
    docs = docs_of_options(verb)
    assert docs
    lines = out.splitlines()
    for flag, doc in docs.items():
        start = " ".join(doc.replace("`", "").split()[:6])
        assert start, f"{flag} has no doc"
        assert any(flag in line.split() and start in line for line in lines), flag


def docs_of_options(verb: str) -> dict[str, str]:
    """What is to be said of each option: its own help, or what stands under its config's field."""
    of_fields: dict[str, str] = {}
    docs: dict[str, str] = {}
    for argument in app[verb].assemble_argument_collection():
        flag = argument.names[0]
        if flag == "*":
            of_fields |= field_docs(argument.hint)
        elif argument.field_info.kind is inspect.Parameter.KEYWORD_ONLY:
            field = flag.removeprefix("--").replace("-", "_")
            docs[flag] = argument.parameter.help or of_fields.get(field, "")
    return docs


def test_an_unknown_verb_is_a_usage_error_that_lists_the_verbs(capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, "scoer")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "'scoer'" in err and "did you mean score?" in err


def test_an_unknown_option_is_a_usage_error_in_one_line(capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, "score", "--resample", "3")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "--resample" in err


def test_an_interrupt_prints_the_line_that_resumes(tmp_path: Path):
    command = [sys.executable, "-m", "trajdiag", "train", "--cache-dir", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    # A shell's background jobs ignore interrupts; the command must not inherit that.
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:
        try:
            assert running.stderr is not None
            assert "training mano" in running.stderr.readline()
            running.send_signal(signal.SIGINT)
            last = running.communicate(timeout=60)[1].splitlines()[-1]
        finally:
            running.kill()
    assert running.returncode == 130
    assert last == f"trajdiag: interrupted; run it again to go on: trajdiag {' '.join(command[3:])}"


def test_training_options_and_task_options_are_flags(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    options = "--steps 2 --d-model 8 --heads 2 --task-options.max-difficulty 2 --name tiny"
    code, out, err = run(capsys, "train", *options.split(), "--cache-dir", str(tmp_path))
    assert code == 0, err
    config = json.loads((Path(out.strip()) / "config.json").read_text(encoding="utf-8"))
    assert config["hidden_size"] == 8
    assert config["trajdiag"]["task"]["parameters"]["max_difficulty"] == 2


def test_a_fault_of_our_own_is_one_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("TRAJDIAG_TRACEBACK", raising=False)
    monkeypatch.setattr("trajdiag.commands.list._LISTS", {})
    code, out, err = run(capsys, "list", "models")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "KeyError" in err and "list.py" in err


def test_the_two_commands_of_the_design_run_on_a_checkpoint_in_a_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAJDIAG_CACHE", raising=False)
    shutil.copytree(SHIPPED / "parity-joint-linear", tmp_path / "models" / "my ouro")
    small = ["--task-options.fit", "64", "--task-options.val", "32", "--task-options.test", "32"]
    code, out, err = run(capsys, "extract", "--model", "models/my ouro", *small)
    assert code == 0, err
    store = Path(out.strip())
    assert store == Path("cache/stores/my ouro.zarr")
    before = {p: p.read_bytes() for p in store.rglob("*") if p.is_file()}
    code, out, err = run(capsys, "fit-gate", "--kind", "mlp", "--frozen")
    assert code == 0, err
    assert str(store) in err
    assert {path.name for path in Path(out.strip()).iterdir()} == {
        "config.json",
        "gate.safetensors",
    }
    assert {p: p.read_bytes() for p in store.rglob("*") if p.is_file()} == before
    code, out, err = run(capsys, "fit-gate", "--no-frozen")
    assert (code, out) == (2, "")
    assert "trajdiag train --objective joint" in err
