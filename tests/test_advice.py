"""What a message advises can be done: an option that it names is one of the verb that says it, or
of one that it names too."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import trajdiag
from tests.diagnosis.planted_evidence import evidence, span
from trajdiag import cli
from trajdiag.diagnosis.as_trained import AsTrained
from trajdiag.diagnosis.findings import find
from trajdiag.diagnosis.regret import LEARNABLE, MISFIT
from trajdiag.results import Finding

ROOT = Path(trajdiag.__file__).parent
VERBS = [name for name in cli.app if not name.startswith("-") and name != "completion"]
SAID_BY = {
    "extraction": ["extract"],
    "training": ["train"],
    "latency": ["latency"],
    "gates": ["fit-gate"],
    "scoring": ["score", "report"],
    "bound": ["report"],
    "diagnosis": ["report"],
    "reporting": ["report"],
    "batch_report": ["report"],
    "deployment": ["score", "fit-gate", "latency"],
    "readout": ["score", "report", "latency"],
    "store/arrays_import": ["import"],
    "store/shard": ["extract"],
    "store": ["extract", "import"],
    "models": ["extract", "latency"],
    "tasks": ["extract", "latency"],
    "commands/deploying": ["score", "fit-gate"],
    "commands/score": ["score"],
}
"""By module or package, the verbs whose users meet what it raises; the first that fits."""
OTHERS = {"--array", "--ntasks", "--head", "--include", "--shard"}
"""Options of Slurm, Ray and hf, and `--shard`, whose number an extraction alone knows."""
_OPTION = re.compile(r"--[a-z][a-z0-9-]*")


def options_of(verb: str) -> set[str]:
    return {
        name.partition(".")[0]
        for argument in cli.app[verb].assemble_argument_collection()
        for name in argument.names
    }


def messages() -> Iterator[tuple[str, str]]:
    """(module, what an error of it says) where that names an option."""
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).with_suffix("").as_posix()
        for statement in ast.walk(ast.parse(path.read_text())):
            if not isinstance(statement, ast.Raise):
                continue
            constants = [n for n in ast.walk(statement) if isinstance(n, ast.Constant)]
            constants.sort(key=lambda node: (node.lineno, node.col_offset))
            said = " ".join(n.value for n in constants if isinstance(n.value, str))
            if _OPTION.search(said):
                yield place, said


def test_options_that_messages_name_are_those_of_the_verb_that_says_them():
    known = {verb: options_of(verb) for verb in VERBS}
    wrong, checked = [], 0
    for place, said in messages():
        verbs = next((v for name, v in SAID_BY.items() if place.startswith(name)), [])
        for option in set(_OPTION.findall(said)) - OTHERS:
            named = [verb for verb in VERBS if re.search(rf"\b{verb}\b", said)]
            checked += 1
            own = bool(verbs) and all(option in known[verb] for verb in verbs)
            if not own and not any(option in known[verb] for verb in named):
                wrong.append((place, option, said))
    assert checked > 60
    assert wrong == []


def test_where_a_verb_may_write_instead_is_said_by_its_own_options():
    assert cli._places("latency") == "--cache-dir"
    assert cli._places("report") == "--cache-dir or --output"
    for verb in VERBS:
        assert set(cli._places(verb).split(" or ")) <= options_of(verb)


def findings_with_commands() -> list[Finding]:
    """All that a store named `my store` is advised a command for."""
    lost = {MISFIT: span(0.1), LEARNABLE: span(0.1)}
    early = AsTrained(
        depth=span(2.0), accuracy=span(0.2), chosen=(4.0, 1.0), deeper=span(-2), better=span(-0.8)
    )
    store = evidence(
        *({}, lost, None, "my store"),
        best="native",
        order=span(-0.5),
        needed_order=0.9,
        trained=early,
    )
    return [finding for finding in find(store) if "`" in finding.advice]


def test_commands_that_findings_advise_parse_and_name_their_store():
    found = findings_with_commands()
    assert {f.code for f in found} == {
        "readout-behind",
        "signal-not-exposed",
        "misordered",
        "gate-miscalibrated",
    }
    for finding in found:
        for command in re.findall("`(.+?)`", finding.advice):
            program, *words = shlex.split(command)
            assert program == "trajdiag"
            _, bound, _ = cli.app.parse_args(words, print_error=False, exit_on_error=False)
            values = [*bound.args, *bound.kwargs.values()]
            assert any(value in ("my store", ("my store",)) for value in values), command
