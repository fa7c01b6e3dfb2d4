"""`trajdiag completion`: the scripts, and bash completing with its own."""

import shutil
import subprocess

import pytest

from trajdiag.cli import app, main

VERBS = {name for name in app if not name.startswith("-")}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The path of each shell's script."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        script = app.generate_completion(shell=shell)
        (folder / shell).write_text(script, encoding="utf-8")
    return folder


def complete(scripts, *words: str) -> set[str]:
    """What bash offers for the last of `words`."""
    if shutil.which("bash") is None:
        pytest.skip("no bash on this machine")
    program = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _trajdiag; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program, "bash", str(scripts / "bash"), "trajdiag", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_commands(scripts):
    assert complete(scripts, "") == VERBS
    assert complete(scripts, "fi") == {"fit-gate"}


def test_bash_completes_options_and_their_choices(scripts):
    assert {"--readout", "--threshold", "--json"} <= complete(scripts, "latency", "--")
    assert complete(scripts, "latency", "--read") == {"--readout"}
    assert complete(scripts, "latency", "--split", "") == {"test", "val", "fit"}
    assert complete(scripts, "list", "re") == {"readouts"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_is_one_that_the_shell_takes_and_names_every_command(shell, scripts):
    script = (scripts / shell).read_text(encoding="utf-8")
    assert all(verb in script for verb in VERBS)
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n", str(scripts / shell)], check=True)
    else:
        assert script.startswith({"zsh": "#compdef trajdiag", "fish": "# Fish"}[shell])


def test_the_command_prints_the_script_and_knows_its_shells(scripts, capsys):
    assert main(["completion", "bash"]) == 0
    assert capsys.readouterr().out == (scripts / "bash").read_text(encoding="utf-8")
    assert main(["completion", "tcsh"]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and len(captured.err.splitlines()) == 1 and "zsh" in captured.err
