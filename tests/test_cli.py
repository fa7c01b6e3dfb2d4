"""The command line in process: exit codes, one-line errors, and nothing heavy behind `--help`."""

import subprocess
import sys

import pytest

from trajdiag.cli import app, main


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


@pytest.mark.parametrize("verb", [name for name in app if not name.startswith("-")])
def test_every_verb_explains_each_of_its_options(verb: str, capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, verb, "--help")
    assert code == 0
    assert app[verb].help.split(".")[0].split()[0] in out


def test_an_unknown_verb_is_a_usage_error_that_lists_the_verbs(capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, "scoer")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "'scoer'" in err and "score" in err


def test_an_unknown_option_is_a_usage_error_in_one_line(capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, "score", "--resample", "3")
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "--resample" in err
